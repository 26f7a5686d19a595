"""Every operator run in blocks, tiles and groups, against its textbook form: random numbers and hard ones."""

from __future__ import annotations

import json
import re
import runpy
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rounding import compare, near
from textbook import FORMS, ONE_PASS

import catdiag as cd
from catdiag import library
from catdiag.category.diagram import diagram_of
from catdiag.category.ops import Call
from catdiag.category.substitution import inline
from catdiag.category.types import size_symbols, size_value
from catdiag.execute.interpreter import run
from catdiag.execute.size_inference import tile_bounds
from catdiag.prover.api import statement_of
from catdiag.rewrite import derivation as rewriting
from catdiag.rewrite.derivation import Derivation
from catdiag.rewrite.split import in_parts
from catdiag.rewrite.stream import streaming
from catdiag.rewrite.stream.exponential_repair import MODES
from catdiag.rewrite.stream.multi_pass import forms

PROOFS = Path(__file__).resolve().parents[2] / "proofs"
Rng = np.random.Generator
Sizes = dict[str, int]


FOUND: dict[tuple[str, str, int], tuple[cd.category.Diagram, Any]] = {}


def forms_once(diagram: cd.category.Diagram, axis: str, passes: int) -> Any:
    """The forms of a stream, which are the same whatever is done with it, and whichever of them is taken."""
    key = diagram.title, axis, passes
    if key not in FOUND or FOUND[key][0] != diagram:
        FOUND[key] = diagram, forms(diagram, axis, passes)
    return FOUND[key][1]


SAID = re.compile(r'left = cd\.library\.get\("(\w+)"\)\nright = left\.(?:stream\("([^"]+)")?')


@dataclass(frozen=True)
class Derived:
    """A file of `proofs/` that derives an operator of the library, and the axis that it streams over, if it does."""

    file: str
    operator: str
    axis: str | None

    @staticmethod
    def of(file: Path) -> Derived | None:
        said = SAID.search(file.read_text(encoding="utf-8"))
        return None if said is None else Derived(file.stem, said[1], said[2])

    def forms(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[cd.category.Diagram]:
        """The forms that the derivation may lead to, found anew and not proved: with the first state, the second, …"""
        for passed_over in range(len(MODES)):
            calls = count()

            def prove(*args: Any, number: int = passed_over, calls: Iterator[int] = calls, **options: Any) -> None:
                if next(calls) < number:
                    raise rewriting.NotProved("another is tried")

            monkeypatch.setattr(Derivation, "prove", prove)
            monkeypatch.setattr(streaming, "forms", forms_once)
            yield runpy.run_path(str(PROOFS / f"{self.file}.py"))["right"].diagram

    def form(self, monkeypatch: pytest.MonkeyPatch) -> cd.category.Diagram:
        """The form of which the stored certificate is; that the kernel accepts it is tested with the others."""
        stored = json.loads((PROOFS / f"{self.file}.json").read_text(encoding="utf-8"))["statement"]
        for form in self.forms(monkeypatch):
            stated = statement_of(library.get(self.operator).diagram, form, ())
            if all(untitled(stated[side]) == untitled(stored[side]) for side in ("left", "right")):
                return form
        raise AssertionError(f"what is found is not what the certificate of {self.file} is about")


def untitled(data: Any) -> Any:
    """Plain data of a statement without the titles in it."""
    if isinstance(data, dict):
        return {key: untitled(value) for key, value in data.items() if key != "title"}
    return [untitled(item) for item in data] if isinstance(data, (list, tuple)) else data


DERIVED = [found for found in map(Derived.of, sorted(PROOFS.glob("*.py"))) if found is not None]


# -- numbers ---------------------------------------------------------------------------------------

# What arrays of integers, and numbers without axes, stand for, by their names.
MEANT: dict[str, Callable[[Rng, Sizes], Any]] = {
    "label": lambda rng, n: rng.integers(0, n["v"], n["t"]),
    "ignored": lambda rng, n: rng.integers(0, n["v"]),
    "tokens": lambda rng, n: rng.integers(0, n["v"], n["t"]),
    "of_query": lambda rng, n: rng.integers(0, 3, n["q"]),
    "of_key": lambda rng, n: rng.integers(0, 3, n["x"]),
    "width": lambda rng, n: rng.integers(1, n["q"] + 2),
    "first": lambda rng, n: rng.integers(0, n["x"] + 2),
    "prefix": lambda rng, n: rng.integers(0, n["x"] + 2),
    "start": lambda rng, n: rng.integers(0, n["x"] + 2),
    "length": lambda rng, n: rng.integers(0, n["x"] + 2),
    "eps": lambda rng, n: 10.0 ** rng.integers(-12, 1),
    "heat": lambda rng, n: rng.uniform(0.1, 3),
    "cap": lambda rng, n: rng.uniform(1, 50),
}

ROOM: dict[str, dict[str, str | int]] = {
    "conv1d": {"x": "k"},
    "im2col": {"x": "k"},
    "conv2d": {"h": "i", "w": "j"},
    "max_pool": {"h": 1, "w": 1},
    "average_pool": {"h": 1, "w": 1},
}


def plain(rng: Rng, shape: tuple[int, ...], axis: int | None) -> np.ndarray:
    return rng.normal(size=shape)


def large(rng: Rng, shape: tuple[int, ...], axis: int | None) -> np.ndarray:
    """Logits of ±10⁴, where two of these are multiplied."""
    return 100 * rng.normal(size=shape)


def huge(rng: Rng, shape: tuple[int, ...], axis: int | None) -> np.ndarray:
    """Logits of ±10⁴, where they are given."""
    return rng.choice([-1e4, 0.0, 1e4], size=shape)


def ties(rng: Rng, shape: tuple[int, ...], axis: int | None) -> np.ndarray:
    return rng.integers(-1, 2, size=shape).astype(float)


def zeros_first(rng: Rng, shape: tuple[int, ...], axis: int | None) -> np.ndarray:
    """A leading block of zeros."""
    a = rng.normal(size=shape)
    if axis is not None:
        np.moveaxis(a, axis, 0)[:2] = 0
    return a


def cancels_first(rng: Rng, shape: tuple[int, ...], axis: int | None) -> np.ndarray:
    """A prefix whose sum is 0."""
    a = rng.normal(size=shape)
    if axis is not None and shape[axis] > 1:
        moved = np.moveaxis(a, axis, 0)
        moved[1] = -moved[0]
    return a


def one_in_front(rng: Rng, shape: tuple[int, ...], axis: int | None) -> np.ndarray:
    """The first element far above the others, which then count for nothing."""
    a = rng.normal(size=shape)
    if axis is not None:
        np.moveaxis(a, axis, 0)[1:] -= 1e4
    return a


HARD = (plain, plain, plain, plain, large, huge, ties, ties, zeros_first, cancels_first, one_in_front)


def arrays(diagram: cd.category.Diagram, sizes: Sizes, rng: Rng, kind: Any, axis: str | None) -> list[np.ndarray]:
    made: list[Any] = []
    for name, ty in zip(diagram_of(diagram).input_names, diagram.dom, strict=True):
        shape = tuple(size_value(a.size, sizes) for a in ty.axes)
        if name in MEANT and (ty.element == "int" or not shape):
            made.append(np.asarray(MEANT[name](rng, sizes)))
        elif ty.element == "bool":
            # Some rows keep one element only, some none; a first block may keep nothing.
            made.append(rng.random(shape) < rng.choice([0.1, 0.5, 0.9]))
        else:
            place = next((k for k, a in enumerate(ty.axes) if a.name == axis), None)
            made.append(kind(rng, shape, place) if shape else np.asarray(rng.normal()))
    return made


def drawn_sizes(diagram: cd.category.Diagram, rng: Rng, axis: str | None) -> Sizes:
    symbols = {s for ty in (*diagram.dom, *diagram.cod) for a in ty.axes for s in size_symbols(a.size)}
    sizes = {s: int(rng.integers(1, 10 if s == axis else 4)) for s in sorted(symbols)}
    for name, window in ROOM.get(diagram.title, {}).items():
        sizes[name] += window if isinstance(window, int) else sizes[window]
    return sizes


Tree = str | int | None


Way = tuple[dict[str, int], Tree]


def trials(derived: Derived, form: cd.category.Diagram) -> Iterator[tuple[list[np.ndarray], list[Way]]]:
    """Arrays, and for each of them lengths of blocks and tiles (one, two, and others up to whole axes) with trees."""
    diagram = library.get(derived.operator)
    rng = np.random.default_rng(zlib.crc32(derived.file.encode()))
    for kind in HARD:
        sizes = drawn_sizes(diagram, rng, derived.axis)
        bounds = {s: size_value(n, sizes) for s, n in tile_bounds(form).items()}
        given = arrays(diagram, sizes, rng, kind, derived.axis)
        trees: list[tuple[int, Tree]] = [(1, None), (2, "balanced"), (9, int(rng.integers(1000)))]
        yield (
            given,
            [
                ({s: int(rng.integers(1, min(n, longest) + 1)) for s, n in bounds.items()}, tree)
                for longest, tree in trees
            ],
        )


# -- tests -----------------------------------------------------------------------------------------


def as_near(diagram: cd.category.Diagram, given: list[np.ndarray]) -> list[Any]:
    return [a if ty.element in ("int", "bool") else near(a) for a, ty in zip(given, diagram.dom, strict=True)]


def several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]


def test_every_operator_has_a_textbook_form_and_a_derivation() -> None:
    assert set(library.names()) == {derived.operator for derived in DERIVED} <= set(FORMS)


@pytest.mark.parametrize("derived", DERIVED, ids=lambda derived: derived.file)
def test_blocks_give_what_the_textbook_gives(derived: Derived, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was proved gives, in blocks, tiles, parts and trees, the textbook form within the bound of `ROUNDINGS`."""
    diagram, form = library.get(derived.operator), derived.form(monkeypatch)
    opened = inline(diagram_of(diagram))
    assert not any(isinstance(box.op, Call) for box in opened.boxes)
    if derived.axis is not None and not any(symbol.startswith("p_") for symbol in tile_bounds(form)):
        form = in_parts(form, derived.axis)
    textbook = FORMS[derived.operator]
    judged = ONE_PASS.get(derived.operator, textbook)
    compared = 0
    with np.errstate(all="ignore"):
        for given, ways in trials(derived, form):
            numbers = as_near(diagram, given)
            expected, allowed = several(textbook(*numbers)), several(judged(*numbers))
            compare([bound.v for bound in allowed], expected, allowed)
            compare(several(diagram(*given)), expected, allowed)
            compare(several(cd.Program(opened)(*given)), expected, allowed)
            for tiles, tree in ways:
                compared += compare(several(run(form, given, tiles, tree=tree)), expected, allowed)
    assert compared >= 30
