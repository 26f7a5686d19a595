"""How objects show themselves in notebooks, and what users are handed of a diagram: by functions that the package sets,
so that a class whose objects are shown imports nothing that draws, and the library not the class of programs.

Such a class derives from `AsHTML` or `AsSVG`. `catdiag/__init__.py` sets `catdiag.draw.report.notebook.html` and
`catdiag.draw.render.shown`, which are imported when something is first shown.
"""

from __future__ import annotations

# As in `catdiag/__init__.py`, which imports this: `typing` takes longer to import than all else there.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_HOOKS: dict[str, Callable[[Any], Any]] = {}


def set_hooks(
    *,
    html: Callable[[Any], str],
    svg: Callable[[Any], str],
    lines: Callable[[Any], list[str]],
    program: Callable[[Any], Any],
) -> None:
    """Sets what shows an object: as a piece of HTML, as a picture in SVG, and as lines of text; and what makes a
    program of a diagram."""
    _HOOKS.update(html=html, svg=svg, lines=lines, program=program)


def as_program(diagram: Any) -> Any:
    """What users are handed of a diagram: a program."""
    return _HOOKS["program"](diagram)


class AsHTML:
    """What notebooks show as a piece of HTML."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        shown: str | None = _HOOKS["html"](self)
        return shown


class AsSVG:
    """What notebooks show as a picture."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        shown: str = _HOOKS["svg"](self)
        return shown


class AsProgram(AsSVG):
    """What notebooks show as a picture, and terminals as lines of text."""

    __slots__ = ()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """How Hypothesis prints an example, and IPython a result."""
        for k, line in enumerate(_HOOKS["lines"](self)):
            if k:
                printer.break_()
            printer.text(line)
