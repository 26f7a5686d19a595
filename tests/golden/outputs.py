"""Every output that an operator can have, as text: the only place here that calls the library."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import catdiag as cd
from catdiag.util.errors import CatdiagError
from tests.golden import operators

if TYPE_CHECKING:
    from catdiag.cli.derive_report import Report
    from catdiag.program import Program
    from catdiag.solvers.z3 import Z3

CHIP = "h100"
LEVELS = ("HBM", "SMEM", "registers")


@dataclass(frozen=True)
class Derived:
    """An operator as it was written, and what was derived; `report` is what `catdiag derive` says of it."""

    name: str
    written: Program
    program: Program
    report: Report | None = None

    @cached_property
    def plan(self) -> Any:
        """How it runs on the chip: several outputs are of it."""
        return self.program.plan(CHIP, _sizes(self))


# -- operators -------------------------------------------------------------------------------------

FORMS: dict[str, tuple[Callable[[], Program], Callable[[Program], Program]]] = {
    "attention-split": (lambda: cd.library.get("attention"), lambda p: p.stream("x").split("x").group("q")),
    "attention-saved": (lambda: cd.library.get("attention"), lambda p: p.fuse(saved="einsum [q x]")),
    "causal_attention-skip": (lambda: cd.library.get("causal_attention"), lambda p: p.stream("x").group("q").skip("x")),
    "distance_attention-distribute": (
        lambda: cd.library.get("distance_attention"),
        lambda p: p.distribute("d").stream("x").group("q"),
    ),
    "softmax-passes": (lambda: cd.library.get("softmax"), lambda p: p.stream("x", passes=2).group("q")),
    "layer_norm-passes": (lambda: cd.library.get("layer_norm"), lambda p: p.stream("d", passes=2).group("t")),
    "unscaled-stabilize": (lambda: operators.unscaled, lambda p: p.stabilize().stream("x").group("q")),
    "moments-by-fold": (lambda: operators.moments, lambda p: p.stream("x", by=operators.welford)),
    "matmul-as-written": (lambda: cd.library.get("matmul"), lambda p: p),
}
"""Programs with the rewrites that are not made unasked."""


def names() -> list[str]:
    """All operators: those of the library as `derive` has them, and the further forms."""
    return [*cd.library.names(), *FORMS]


@contextmanager
def derived(name: str) -> Iterator[Derived]:
    """An operator, derived, as long as its solver runs."""
    from catdiag.solvers.z3 import Z3

    with Z3() as ask:
        if name in FORMS:
            make, rewrite = FORMS[name]
            yield Derived(name, make(), rewrite(_with_solver(make(), ask)))
        else:
            from catdiag.cli.derive_report_data import DeriveRequest, derive

            written = cd.library.get(name)
            report = derive(written.diagram, ask, None, DeriveRequest(whole=True))
            yield Derived(name, written, _with_solver(report.derivation, ask), report)


def _with_solver(subject: Any, ask: Z3) -> Program:
    from catdiag.program import Program

    return Program(subject, ask)


# -- outputs ---------------------------------------------------------------------------------------


def _sizes(op: Derived) -> dict[str, int]:
    """A length for each axis: 1,024 where there are tiles, else 64."""
    from catdiag.cli.option_values import sizes_of
    from catdiag.execute.size_inference import tile_bounds

    tiled = set(tile_bounds(op.program.diagram).values())
    return {size: 1024 if size in tiled else 64 for size in sizes_of(op.written.diagram)}


def _tiles(op: Derived) -> dict[str, int]:
    from catdiag.execute.size_inference import tile_bounds

    symbols = tile_bounds(op.program.diagram)
    groups = [symbol for symbol in symbols if symbol.startswith("g_")]
    return {s: 2 if s.startswith("p_") else 1 if s in groups[:-1] else 16 for s in symbols}


def _json(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, indent=1, default=str)


def _operator(op: Derived) -> str:
    from catdiag.cli.derive_report import type_of

    described = cd.library.describe(op.name) if op.report is not None else ""
    return "\n".join([str(op.written), type_of(op.written.diagram), described])


def _program(op: Derived) -> str:
    steps = [f"{step}{step.note and f' ({step.note})'}" for step in op.program.steps]
    return "\n".join([str(op.program), *steps, str(op.program.stability()), *op.program.advice()])


def _io(op: Derived) -> str:
    p = op.program
    counted = [p.io(), p.io(dtype="bf16", stages=2), p.io(levels=LEVELS), op.written.io(fused=False)]
    return "\n\n".join([*map(str, counted), _json(counted[0].as_dict())])


def _listing(op: Derived) -> str:
    from catdiag.draw.listing.program_text import expanded

    return expanded(op.program.derivation)


def _lines(op: Derived) -> str:
    from catdiag.draw.listing.program_picture import program_picture
    from catdiag.draw.svg_writer import svg

    return svg(program_picture(op.program.diagram, levels=("HBM", "SMEM")))


def _report(op: Derived) -> Report:
    assert op.report is not None
    return op.report


KINDS: dict[str, Callable[[Derived], str]] = {
    "operator": _operator,
    "repr": lambda op: f"{op.written!r}\n{op.program.diagram!r}",
    "program": _program,
    "io": _io,
    "bound": lambda op: str(op.program.lower_bound()),
    "pseudocode": lambda op: op.program.code("pseudocode"),
    "listing": _listing,
    "numpy": lambda op: op.program.code("numpy"),
    "triton": lambda op: op.program.code("triton", tiles=_tiles(op)),
    "svg": lambda op: op.program.draw("svg"),
    "svg-dark": lambda op: op.program.draw("svg", theme="dark"),
    "svg-source": lambda op: op.written.draw("svg", open=True, theme="light"),
    "svg-lines": _lines,
    "tikz": lambda op: op.program.draw("tikz"),
    "html": lambda op: op.program.draw("html"),
    "certificate": lambda op: _json(op.program.theorem.certificate),
    "plan": lambda op: str(op.plan),
    "plan-json": lambda op: _json(op.plan.as_dict()),
    "plan-triton": lambda op: op.plan.code("triton"),
}
"""What is made of every operator."""

OF_LIBRARY: dict[str, Callable[[Derived], str]] = {
    "report": lambda op: str(_report(op)),
    "report-json": lambda op: _json(_report(op).as_dict()),
}
"""What is made of the library's only: what the command line says of them."""


def kinds_of(name: str) -> dict[str, Callable[[Derived], str]]:
    """The outputs of an operator, by kind."""
    return KINDS if name in FORMS else {**KINDS, **OF_LIBRARY}


def made(name: str, kinds: set[str] | None = None) -> dict[tuple[str, str], str]:
    """The outputs of an operator by kind and name; where one is refused, the refusal."""
    found: dict[tuple[str, str], str] = {}
    with derived(name) as op:
        for kind, make in kinds_of(name).items():
            if kinds is None or kind in kinds:
                try:
                    found[kind, name] = make(op)
                except CatdiagError as error:
                    found[kind, name] = f"{type(error).__name__}: {error.message}"
    return found
