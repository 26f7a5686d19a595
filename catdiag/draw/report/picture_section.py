"""The pictures of a page: the diagrams before and after each step, with the changes marked."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from catdiag.category.ops import FoldOp, GroupOp, bodies
from catdiag.draw.listing.pipeline_chart import pipeline_picture
from catdiag.draw.listing.program_picture import program_picture
from catdiag.draw.report.html import Html, joined, tag
from catdiag.draw.report.report_data import LEVELS
from catdiag.draw.string_diagram.diagram_diff import changes, gathered
from catdiag.draw.svg_writer import svg
from catdiag.util.errors import CatdiagError

if TYPE_CHECKING:
    from catdiag.category.diagram import Diagram
    from catdiag.category.ops import Box
    from catdiag.chip.hardware import Hardware
    from catdiag.draw.scene import Scene
    from catdiag.draw.string_diagram.sheets import Address
    from catdiag.planner.plan import KernelPlan
    from catdiag.rewrite.derivation import Derivation

MOST = 400
"""Diagrams with more boxes are not drawn: such a picture is not readable."""

_LEAST, _MOST = 0.9, 1.2
"""Pixels per point: pictures are scaled between these, so that their labels of 10 points can be read."""

_NAME = re.compile(r'^<svg [^>]*?\bid="(catdiag-[0-9a-f]+)"')


class Pictures:
    """The pictures of one page, each with a name of its own: the same picture may occur in it twice."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}

    def inline(self, svg: str) -> Html:
        """An SVG document as a part of a page; a repeated one gets another name."""
        found = _NAME.match(svg)
        if found is None:
            return Html(svg.strip())
        name = found[1]
        count = self.names[name] = self.names.get(name, 0) + 1
        return Html((svg if count == 1 else svg.replace(name, f"{name}-{count}")).strip())

    def figure(self, scene: Scene, caption: str, legend: bool = False) -> Html:
        """A scene with a caption.

        A wide scene is scaled down as far as it can be read; beyond that it scrolls in a box of its own.
        """
        least, most = (f"{scale * scene.width:.0f}px" for scale in (_LEAST, _MOST))
        width = f"--least:{least};--most:{most}"
        picture = tag("div", self.inline(svg(scene, legend=legend)), class_="scroll picture", style=width)
        return tag("figure", picture, tag("figcaption", caption)) if caption else tag("figure", picture)

    def diagram(
        self,
        diagram: Diagram,
        caption: str,
        marks: Mapping[Address, str] | None = None,
        opened: Collection[str] = (),
        legend: bool = False,
    ) -> Html:
        """A diagram, or a line that says that it is too large."""
        from catdiag.draw.string_diagram.layout import layout

        count = boxes_in(diagram)
        if count > MOST:
            return tag("p", f"{caption}: {count:,} boxes, too many to draw here.", class_="soft")
        return self.figure(layout(diagram, open=frozenset(opened), marks=marks or {}), caption, legend)

    def program(self, derivation: Derivation) -> Html:
        """The allocations of the loops, line by line; or why there is no such picture."""
        if boxes_in(derivation.diagram) > MOST:
            return Html("")
        try:
            scene = program_picture(derivation, levels=LEVELS, totals=False)
        except CatdiagError as error:
            return tag("p", f"Live ranges are not drawn: {error.message}", class_="soft")
        caption = (
            "Live arrays, their placement, and their sizes. A filled dot is a write by a line, an open one a read."
        )
        return self.figure(scene, caption, legend=True)

    def pipeline(self, plan: KernelPlan, chip: Hardware | None) -> Html:
        """The iterations of a plan's loop in clocks, where a loop is scheduled."""
        try:
            scene = pipeline_picture(plan, chip=chip)
        except CatdiagError as error:
            return tag("p", f"The iterations of the loop are not drawn: {error.message}", class_="soft")
        return self.figure(scene, "Predicted: the iterations of the loop in clocks of a core, with stalls hatched.")

    def step(self, before: Diagram, after: Diagram, first: bool, last: bool) -> Html:
        """A rewrite: the diagrams before and after it, with the changes marked and described.

        The diagram before is not drawn again where nothing in it is marked, and it is the result of the previous step
        (not `first`).
        """
        if max(boxes_in(before), boxes_in(after)) > MOST:
            return joined([self.diagram(before, "Before"), self.diagram(after, "After")])
        found = changes(before, after)
        marks, opened = gathered(before, found.before)
        if marks or first:
            shown = self.diagram(before, f"Before. {marked_text(before, marks)}", marks, opened)
        else:
            shown = tag("p", "Before: the result of the step above; no box of it was removed.", class_="soft")
        marks, opened = gathered(after, found.after)
        return joined([shown, self.diagram(after, f"After. {marked_text(after, marks)}", marks, opened, last)])


def marked_text(diagram: Diagram, marks: Mapping[Address, str]) -> str:
    """The marks in words.

    >>> import catdiag as cd
    >>> f = cd.algorithm("x -> x")(lambda a: cd.exp(a) + cd.exp(a))
    >>> marked_text(f, {(0,): "gone", (1,): "gone", (2,): "into the loop"})
    'Gone: exp (twice). Into the loop: add.'
    """
    by_word: dict[str, dict[str, int]] = {}
    for address, word in marks.items():
        name = _called(box_at(diagram, address))
        names = by_word.setdefault(word, {})
        names[name] = names.get(name, 0) + 1
    sentences = []
    for word, names in by_word.items():
        often = {1: "", 2: " (twice)"}
        listed = [f"{name}{often.get(n, f' ({n} times)')}" for name, n in names.items()]
        more = f" and {len(listed) - _NAMES} more" if len(listed) > _NAMES else ""
        sentences.append(f"{word[:1].upper()}{word[1:]}: {', '.join(listed[:_NAMES])}{more}.")
    return " ".join(sentences) or "Nothing is marked."


def _called(box: Box) -> str:
    if isinstance(box.op, FoldOp):
        return f"the loop over {box.op.axis}"
    if isinstance(box.op, GroupOp):
        return f"the tiles of {' '.join(axis for axis, _ in box.op.tiles)}" if box.op.tiles else "a kernel"
    return box.name


_NAMES = 12
"""The most boxes that are named in a line."""


def box_at(diagram: Diagram, address: Address) -> Box:
    """The box at an address."""
    for k, place in enumerate(address[:-1]):
        if k % 2 == 0:
            op = diagram.graph.nodes[place].box.op
            diagram = bodies(op)[address[k + 1]]
    return diagram.graph.nodes[address[-1]].box


def boxes_in(diagram: Diagram) -> int:
    """The number of boxes of a diagram, inner ones included; for large diagrams, at least the number that is drawn."""
    count, stack = 0, [diagram]
    while stack and count <= MOST:
        item = stack.pop()
        count += len(item.graph.nodes)
        stack += [body for node in item.graph.nodes for body in bodies(node.box.op)[:2]]
    return count
