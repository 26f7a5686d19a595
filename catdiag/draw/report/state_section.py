"""The states of loops, typeset: unit, element, repair, step and merge of each component, and the finish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catdiag.category.formula import infix, symbol
from catdiag.draw.report.html import Html, escaped, joined, tag
from catdiag.draw.report.mathml import math, name, of_formula

if TYPE_CHECKING:
    from catdiag.category.formula import Formula
    from catdiag.rewrite.loop_state import ComponentFormulas, LoopFormulas, StateFormulas


def state(found: StateFormulas) -> Html:
    """The states of all loops, one table each, then the results and the names of shared parts."""
    parts = [_loop(loop) for loop in found.loops]
    rows = [_named("result", out, formula) for out, formula in found.finish]
    rows += [_named("where", shared, formula) for shared, formula in found.shared]
    finish = tag("table", tag("caption", "Finish: the results, from the final state"), tag("tbody", *rows))
    return joined([*parts, tag("div", finish, class_="scroll")])


def _named(word: str, left: str, right: Formula) -> Html:
    equation = of_formula(infix("=", symbol(left), right))
    return tag("tr", tag("th", word, scope="row", class_="soft"), tag("td", equation))


def _loop(loop: LoopFormulas) -> Html:
    within = [escaped(", inside the loop over "), math(name(loop.inside))] if loop.inside else []
    caption = tag(
        "caption",
        "Loop over ",
        math(name(loop.axis)),
        " in blocks of ",
        math(name(loop.block)),
        *within,
        ", with the state",
    )
    bodies = [_component(component) for component in loop.components]
    return tag("div", tag("table", caption, *bodies, class_="state"), class_="scroll")


def _component(c: ComponentFormulas) -> Html:
    lines = c.rows()
    axes = joined([math(name(a)) for a in c.axes], " ")
    over = [tag("br"), tag("span", "over ", axes, class_="soft")] if c.axes else []
    head = tag("th", math(name(c.name)), *over, scope="rowgroup", rowspan=len(lines))
    rows = []
    for k, (word, formula) in enumerate(lines):
        cells = [tag("th", word, scope="row", class_="soft"), tag("td", of_formula(formula))]
        rows.append(tag("tr", *([head] if k == 0 else []), *cells))
    return tag("tbody", *rows)


WORDS = (
    "A state is what a loop accumulates over the blocks that it has seen. ",
    "Unit: the state before the first block. Element: the definition of the component over any list of blocks. ",
    "Repair: the correction of the accumulated value when an earlier component of the state changes. ",
    "Step: the state after one more block, ′ marking values after the block. ",
    "Merge: the state of two neighboring lists of blocks, ′ marking the second, ″ both.",
)
"""The meaning of the rows of a state."""
