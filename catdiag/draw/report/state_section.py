"""The states of loops, typeset: unit, element, repair, step and merge of each component, and the finish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catdiag.draw.report.formula_parser import defined_as, of_text
from catdiag.draw.report.html import Html, escaped, joined, tag
from catdiag.draw.report.mathml import math, name

if TYPE_CHECKING:
    from catdiag.codegen.loop_state import ComponentFormulas, LoopFormulas, StateFormulas


def state(found: StateFormulas) -> Html:
    """The states of all loops, one table each, then the results and the names of shared parts."""
    parts = [_loop(loop) for loop in found.loops]
    rows = [_named("result", out, text) for out, text in found.finish]
    rows += [_named("where", shared, text) for shared, text in found.shared]
    finish = tag("table", tag("caption", "Finish: the results, from the final state"), tag("tbody", *rows))
    return joined([*parts, tag("div", finish, class_="scroll")])


def _named(word: str, left: str, right: str) -> Html:
    return tag("tr", tag("th", word, scope="row", class_="soft"), tag("td", defined_as(left, right)))


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
    lines = [
        ("unit", c.unit),
        ("element", c.element),
        *([("repair", c.repair)] if c.repair else []),
        ("step", c.step),
        ("merge", c.merge),
    ]
    axes = joined([math(name(a)) for a in c.axes], " ")
    over = [tag("br"), tag("span", "over ", axes, class_="soft")] if c.axes else []
    head = tag("th", math(name(c.name)), *over, scope="rowgroup", rowspan=len(lines))
    rows = []
    for k, (word, text) in enumerate(lines):
        cells = [tag("th", word, scope="row", class_="soft"), tag("td", of_text(text))]
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
