"""How objects show themselves in notebooks: by functions that the package sets, so that a class whose objects are shown
imports nothing that draws.

Such a class derives from `AsHTML` or `AsSVG`. `catdiag/__init__.py` sets `catdiag.draw.report.notebook.html` and
`catdiag.draw.api.shown`, which are imported when something is first shown.
"""

from __future__ import annotations

# As in `catdiag/__init__.py`, which imports this: `typing` takes longer to import than all else there.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_HOOKS: dict[str, Callable[[Any], str]] = {}


def set_hooks(*, html: Callable[[Any], str], svg: Callable[[Any], str]) -> None:
    """Sets what shows an object: as a piece of HTML, and as a picture in SVG."""
    _HOOKS.update(html=html, svg=svg)


class AsHTML:
    """What notebooks show as a piece of HTML."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return _HOOKS["html"](self)


class AsSVG:
    """What notebooks show as a picture."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return _HOOKS["svg"](self)
