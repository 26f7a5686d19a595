"""What calls that are still written in the old way come to, until all are written in the new one. To be deleted.

A program stands for its diagram, and diagrams and derivations have the methods of programs, under the old names too.
"""

from __future__ import annotations

from typing import Any

from catdiag.cost.plan import fit
from catdiag.diagram import Diagram
from catdiag.program import Program
from catdiag.rewrite.corollaries import commutativity, divisors, loops
from catdiag.rewrite.derivation import Derivation
from catdiag.rewrite.fusions import fusions


def _theorems(program: Program, limit: float | None = None) -> dict[str, Any]:
    proved = {n: v.theorem for n, v in program.claims(limit).items() if v.proved and v.theorem is not None}
    return {"equation": program.theorem, **proved}


def _commutes(program: Program) -> Any:
    flat, places = loops(program.diagram)
    found = [commutativity(flat, place, program.derivation.claims(10.0)) for place in places]
    return found[0].theorem if found and all(v.proved for v in found) else None


_METHODS: dict[str, Any] = {
    "pseudocode": lambda p: p.code("pseudocode"),
    "numpy": lambda p: p.code("numpy"),
    "svg": lambda p, **o: p.draw("svg", **o),
    "tikz": lambda p, **o: p.draw("tikz", **o),
    "html": lambda p, path=None, **o: p.draw("html", path, **o),
    "triton": lambda p, tiles, dtype="bf16", **o: p.code("triton", tiles=tiles, dtype=dtype, **o),
    "stabilise": Program.stabilize,
    "expand": Program.distribute,
    "spread": Program.sharding,
    "verdicts": Program.claims,
    "fit": fit,
    "fusions": fusions,
    "theorems": _theorems,
    "normalisers": lambda p, limit=None: divisors(p.diagram, p.derivation.claims(limit)),
}
_VALUES: dict[str, Any] = {"stable": lambda p: p.stability().proved, "commutes": _commutes}


_NEW = "stream split group skip distribute fuse stabilize io lower_bound stability claims advice formulas sharding"
_CALLED = {*_METHODS, *_VALUES, *_NEW.split(), "plan", "run", "code", "compile", "draw", "check"}


def old(subject: Any, name: str) -> Any:
    """An attribute by its old name, or of the diagram or derivation that a program stands for."""
    if name.startswith("__") or name in ("_diagram", "derivation", "_repr_mimebundle_", "_ipython_display_"):
        raise AttributeError(name)
    if type(subject) is not Program and name not in _CALLED:
        raise AttributeError(f"{type(subject).__name__!r} object has no attribute {name!r}")
    program = subject if type(subject) is Program else Program(subject)
    if name in _METHODS:
        return lambda *a, **o: _METHODS[name](program, *a, **o)
    if name in _VALUES:
        return _VALUES[name](program)
    if type(subject) is not Program:
        return getattr(program, name)
    if hasattr(Diagram, name):
        return getattr(program.diagram, name)
    if hasattr(Derivation, name) or name in Derivation.__dataclass_fields__:
        return getattr(program.derivation, name)
    raise AttributeError(f"'Program' object has no attribute {name!r}")


def _call(subject: Any, *arrays: Any) -> Any:
    return subject.run(*arrays)


def install() -> None:
    """Opens the old ways."""
    for kind in (Program, Diagram, Derivation):
        setattr(kind, "__getattr__", old)  # noqa: B010
    for other in (Diagram, Derivation):
        setattr(other, "__call__", _call)  # noqa: B010
