"""Diagrams as pictures: the functions behind `Program.draw`, notebooks and the command line."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, TypedDict, Unpack

from catdiag.category.diagram import Diagram, HasDiagram, diagram_of
from catdiag.category.ops import Call, bodies
from catdiag.category.traversal import all_boxes
from catdiag.draw.scene import Scene
from catdiag.draw.string_diagram.layout import layout
from catdiag.draw.string_diagram.subdiagrams import folded
from catdiag.draw.svg_writer import svg
from catdiag.draw.theme import Theme
from catdiag.draw.tikz_writer import tikz
from catdiag.util.errors import CatdiagError

Opened = bool | str | Collection[str]
"""Which named diagrams are drawn inlined: none (False), all (True), one by its name, or several."""

LEVELS = ("HBM", "SMEM")

SHOWN = 400
"""The most boxes that are drawn, also in loops and groups: a larger diagram is drawn in named parts."""


def scene_of(
    diagram: Diagram | HasDiagram,
    *,
    open: Opened = False,
    levels: Sequence[str] = LEVELS,
    items: bool = False,
    join: bool = False,
    marks: Mapping[tuple[int, ...], str] | None = None,
    most: int | None = SHOWN,
) -> Scene:
    """The picture of a diagram, for any writer, in the layout of `catdiag.draw.string_diagram.layout.layout`.

    A diagram of more than `most` boxes is drawn in named parts (`catdiag.draw.string_diagram.subdiagrams.folded`),
    which can be opened. None draws all boxes, and so does `marks`, because it addresses boxes.

    Raises CatdiagError for levels that are not a chain, and for a named diagram to open that is not in the diagram.

    >>> import catdiag as cd
    >>> rows = cd.algorithm("q x -> q", name="rows")(lambda a: cd.sum(a, "x"))
    >>> scene_of(rows).title
    'rows'
    """
    diagram = diagram_of(diagram)
    if most is not None and not marks and _boxes(diagram, most) > most:
        diagram = folded(diagram)
    asked = () if isinstance(open, bool) else (open,) if isinstance(open, str) else tuple(open)
    if asked:
        known = _named(diagram)
        missing = [name for name in asked if name not in known]
        if missing:
            named = f"those of {diagram.title or 'the diagram'} are {', '.join(known)}" if known else "there are none"
            raise CatdiagError(f"there is no named diagram {missing[0]!r} to open: {named}")
    return layout(diagram, open=open, levels=levels, items=items, join=join, marks=marks)


class SceneOptions(TypedDict, total=False):
    """The options of `scene_of`."""

    open: Opened
    levels: Sequence[str]
    items: bool
    join: bool
    marks: Mapping[tuple[int, ...], str] | None
    most: int | None


def svg_of(
    diagram: Diagram | HasDiagram,
    *,
    color: bool = True,
    theme: Theme = "auto",
    legend: bool = False,
    **options: Unpack[SceneOptions],
) -> str:
    """The picture of a diagram as SVG; see `scene_of` and `catdiag.draw.svg_writer.svg` for options and errors."""
    return svg(scene_of(diagram, **options), color=color, theme=theme, legend=legend)


def tikz_of(
    diagram: Diagram | HasDiagram,
    *,
    color: bool = True,
    standalone: bool = True,
    legend: bool = False,
    theme: Literal["light", "dark"] = "light",
    **options: Unpack[SceneOptions],
) -> str:
    """The picture of a diagram as LaTeX; see `scene_of` and `catdiag.draw.tikz_writer.tikz` for options and errors."""
    return tikz(scene_of(diagram, **options), color=color, standalone=standalone, legend=legend, theme=theme)


def shown(subject: Diagram | HasDiagram) -> str:
    """The SVG by which a diagram, or what stands for one, shows itself in a notebook."""
    return svg(scene_of(subject))


def _named(diagram: Diagram) -> list[str]:
    """The names of the named diagrams inside, once each, in order."""
    ops = (box.op for box in all_boxes(diagram))
    return list(dict.fromkeys(op.name for op in ops if isinstance(op, Call)))


def _boxes(diagram: Diagram, most: int) -> int:
    """The number of boxes drawn, without the insides of named diagrams; counting stops soon after `most`."""
    count, todo = 0, [diagram]
    while todo and count <= most:
        inside = todo.pop()
        count += len(inside.boxes)
        for box in inside.boxes[: most + 1]:
            if not isinstance(box.op, Call):
                todo += bodies(box.op)
    return count
