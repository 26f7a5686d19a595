"""Parsing of option values: sizes, numbers, and files to write."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

from catdiag.category.diagram import Diagram
from catdiag.category.named_axes import named_sizes
from catdiag.category.ops import NULLARY
from catdiag.category.substitution import inline
from catdiag.category.types import Size, size_symbols
from catdiag.cli.exit_status import UsageError
from catdiag.util.files import require_writable

# Above this the byte counts of a plan overflow 64-bit integers.
_LARGEST = 2**31
# Counts on the command line, such as memory in bytes, stay within 64-bit integers.
_MOST = 2**62

Products = Literal["triton", "torch", "quickest"]
"""Who computes products of two arrays: see `catdiag.planner.partition.searching`."""


def sizes_of(diagram: Diagram) -> tuple[str, ...]:
    """The size symbols of a diagram, in order of appearance.

    >>> from catdiag.library.diagrams import get
    >>> sizes_of(get("attention"))
    ('q', 'd', 'x')
    """
    found: dict[str, None] = {}

    def take(size: Size) -> None:
        found.update(dict.fromkeys(sorted(size_symbols(size))))

    for ty in diagram.dom:
        for axis in ty.axes:
            take(axis.size)
    for box in inline(diagram).boxes:
        for size in (*named_sizes(box), *(a.size for a in box.cod[0].axes)) if isinstance(box.op, NULLARY) else ():
            take(size)
    for ty in diagram.cod:
        for axis in ty.axes:
            take(axis.size)
    return tuple(found)


def parse_cuts(text: str) -> int | None:
    """The largest number of cuts, None for any number. Raises UsageError.

    >>> parse_cuts("any"), parse_cuts("some"), parse_cuts("none"), parse_cuts("2")
    (None, None, 0, 2)
    """
    if text in ("any", "some", "none"):
        return 0 if text == "none" else None
    if not (text.isascii() and text.isdigit()) or len(text) > 6:
        raise UsageError(f"cuts is {text!r}: expected any, none, some, or the largest number of cuts")
    return int(text)


def parse_products(text: str) -> Products:
    """Who computes products. Raises UsageError.

    >>> parse_products("torch")
    'torch'
    """
    known: dict[str, Products] = {name: name for name in get_args(Products)}
    if text in known:
        return known[text]
    raise UsageError(f"products is {text!r}: expected triton, torch or quickest")


def parse_sizes(texts: Sequence[str]) -> dict[str, int]:
    """Sizes by name, from texts such as `q=8192,x=8192`. Raises UsageError for a value that is not a positive integer.

    >>> parse_sizes(["q=8192,x=1_024", "d=128"])
    {'q': 8192, 'x': 1024, 'd': 128}
    """
    found: dict[str, int] = {}
    for part in (p for text in texts for p in text.split(",")):
        name, equals, value = (p.strip() for p in part.partition("="))
        if not name or not equals or not value:
            raise UsageError(f"cannot read the size {part.strip()!r}: expected name=number, as in --size q=8192,d=128")
        digits = value.removeprefix("-").replace("_", "")
        if not digits.isascii() or not digits.isdigit():
            raise UsageError(f"size {name} is {value}: expected a positive integer")
        if value.startswith("-") or int(digits[:40]) < 1:
            raise UsageError(f"size {name} is {value}: expected a positive integer, every axis has at least one index")
        if len(digits) > 40 or int(digits) > _LARGEST:
            short = value if len(value) <= 40 else f"{value[:20]}…"
            raise UsageError(f"size {name} is {short}: expected at most {_LARGEST}")
        if found.setdefault(name, int(digits)) != int(digits):
            raise UsageError(f"size {name} is given as {found[name]} and as {value}: give it once")
    return found


def count_of(what: str, number: int | None) -> None:
    """The number. Raises UsageError if it is too large.

    >>> count_of("the memory", 8192)
    """
    if number is not None and number > _MOST:
        raise UsageError(f"{what} is {str(number)[:20]}…: expected at most {_MOST}")


def check_sizes(diagram: Diagram, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes in the diagram's order.

    Raises UsageError if a size is unknown, missing, or differs from one that the diagram fixes.
    """
    known = sizes_of(diagram)
    listed = ", ".join(known) or "none"
    fixed = {a.name: a.size for ty in (*diagram.dom, *diagram.cod) for a in ty.axes if isinstance(a.size, int)}
    for name, value in sizes.items():
        if name in known:
            continue
        if name in fixed and fixed[name] == value:
            continue
        if name in fixed:
            raise UsageError(f"axis {name} has size {fixed[name]} in {diagram.title or 'the diagram'}, not {value}")
        raise UsageError(f"{diagram.title or 'the diagram'} has no axis of size {name!r}: its sizes are {listed}")
    missing = [name for name in known if name not in sizes]
    if missing:
        example = ",".join(f"{name}={sizes.get(name, 1024)}" for name in known)
        raise UsageError(
            f"the size of {', '.join(missing)} is missing: expected all of {listed}, as in --size {example}"
        )
    return {name: sizes[name] for name in known}


def integers_of(diagram: Diagram) -> list[str]:
    """The inputs that are one integer and whose name is not that of an axis: a size may be given for them too."""
    known = sizes_of(diagram)
    inputs = zip(diagram.input_names, diagram.dom, strict=True)
    return [name for name, ty in inputs if ty.element == "int" and not ty.axes and name not in known]


def check_writable(*paths: Path | None) -> None:
    """Raises UsageError unless every path can be written to, and all are different. It is called before any long
    work."""
    seen: set[Path] = set()
    for path in paths:
        if path is None:
            continue
        folder = path.parent
        # not the methods of `Path`, which raise for names that are too long and for cyclic links
        if os.path.isdir(path):
            raise UsageError(f"cannot write {path}: it is a folder, expected the name of a file")
        if not os.path.isdir(folder):
            raise UsageError(f"cannot write {path}: there is no folder {folder}")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise UsageError(f"cannot write {path}: the folder {folder} is not writable")
        try:
            require_writable(path)
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror or error}") from error
        place = Path(os.path.realpath(path))
        if place in seen:
            raise UsageError(f"two outputs are to be written to {path}: name two files")
        seen.add(place)


# More pipeline buffers than any chip has memory for; more would overflow 64-bit integers.
_MOST_STAGES = 1_000_000


def check_stages(stages: int | None) -> None:
    """Raises UsageError for a number of buffers that no pipeline has."""
    if stages is not None and stages < 1:
        raise UsageError(f"stages is {stages}: expected a whole number of buffers, 1 or more")
    if stages is not None and stages > _MOST_STAGES:
        raise UsageError(f"stages is {str(stages)[:20]}: expected at most {_MOST_STAGES} buffers")


def known_dtype(dtype: str) -> str:
    """An element type. Raises CatdiagError for an unknown one."""
    from catdiag.schedule.element_widths import width

    width(dtype)
    return dtype
