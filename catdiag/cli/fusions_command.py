"""`catdiag fusions` and `catdiag shard`: one kernel or several, one device or several; as text or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from catdiag.cli.derive_report import type_of
from catdiag.cli.exit_status import UsageError
from catdiag.cli.operator_loading import operator
from catdiag.cli.option_values import count_of, parse_sizes
from catdiag.rewrite.split import runs_in_kernels

if TYPE_CHECKING:
    from catdiag.cost.sharding import Sharding
    from catdiag.planner.fusions import FusionOption, Fusions, FusionVerdict


def run_fusions(
    op: str, size: Sequence[str], memory: int | None, dtype: str | None, cases: bool, as_json: bool
) -> None:
    """Runs `catdiag fusions`: the ways to cut an operator into kernels as formulas, and the best one at sizes and a
    memory."""
    if bool(size) != (memory is not None):
        raise UsageError("the best way at sizes needs both --size q=8192,… and --memory: give both, or neither")
    if memory is not None and memory < 1:
        raise UsageError(f"the memory is {memory}: expected a positive number of {'bytes' if dtype else 'values'}")
    count_of("the memory", memory)
    from catdiag.planner.fusions import fusions

    diagram = operator(op)
    choice = fusions(diagram, dtype=dtype)
    verdict = None if memory is None else choice.best(parse_sizes(size), memory)
    if as_json:
        print(json.dumps(_fusions(choice, verdict, cases), indent=1))
        return
    print(type_of(diagram))
    print(choice)
    if cases:
        print(*choice.cases(), sep="\n")
    if verdict is not None:
        print(f"at {', '.join(size)}, M = {memory:,}, exact, best whole tiles")
        print(verdict)
        for schedule, tiles in zip(verdict.schedules, verdict.tiles, strict=True):
            print(f"  {schedule}: {', '.join(f'{t}={n}' for t, n in tiles.items()) or 'no tiles'}")


def _fusions(choice: Fusions, verdict: FusionVerdict | None, cases: bool) -> dict[str, Any]:
    def way(w: FusionOption) -> dict[str, Any]:
        return {
            "kernels": len(w.kernels),
            "saved": list(w.saved),
            "schedules": [None if s is None else str(s) for s in w.schedules],
            "leading": None if w.leading is None else str(w.leading),
            "conditions": [str(c) for c in w.conditions],
        }

    shown: dict[str, Any] = {"operator": choice.diagram.title, "fused": way(choice.fused)}
    if choice.alternative is not None:
        shown["rival"] = way(choice.alternative)
        if choice.fused.leading is not None and choice.alternative.leading is not None:
            found = choice.crossover()
            shown["crossover"] = {
                "unknown": str(found.unknown),
                "roots": [str(r) for r in found.roots],
                "signs": list(found.signs),
                "conditions": [str(c) for c in found.conditions],
                "proved": found.proved,
            }
    if cases:
        shown["cases"] = [
            {"if": [str(c) for c in case.conditions], "fused": str(case.first), "rival": str(case.second),
             "verdict": case.verdict} for case in choice.cases()
        ]  # fmt: skip
    if verdict is not None:
        shown["best"] = {
            "saved": None if verdict.option is None else list(verdict.option.saved),
            "transfers": verdict.transfers,
            "tiles": [dict(t) for t in verdict.tiles],
            "schedules": [str(s) for s in verdict.schedules],
            "exhaustive": verdict.exhaustive,
        }
    return shown


def run_sharding(
    op: str, over: Sequence[str], stream: str | None, group: str | None, stored: Sequence[str], dtype: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Runs `catdiag shard`: an operator, streamed and grouped, on a mesh of devices."""
    from catdiag.cost.sharding import sharding
    from catdiag.rewrite.derivation import Derivation
    from catdiag.rewrite.group import group as grouped
    from catdiag.rewrite.stream.streaming import stream as streamed
    from catdiag.solvers.z3 import borrowed

    counts: dict[str, int | str] = {}
    for part in (p for text in over for p in text.split(",")):
        axis, equals, count = (p.strip() for p in part.partition("="))
        if not axis or not equals or not count:
            raise UsageError(f"cannot read {part!r}: expected axis=devices, as in --over q=8 or --over q=P")
        if count.isascii() and count.isdigit() and len(count) > 18:
            raise UsageError(f"axis {axis} is sharded over {count[:20]}… devices: expected at most {10**18 - 1}")
        counts[axis] = int(count) if count.isascii() and count.isdigit() else count
    places: dict[str, str | None] = {}
    for part in (p for text in stored for p in text.split(",")):
        array, equals, axis = (p.strip() for p in part.partition("="))
        if not array or not equals or not axis:
            raise UsageError(f"cannot read {part!r}: expected array=axis, or array=all, as in --stored X=t,W=all")
        places[array] = None if axis == "all" else axis
    diagram = operator(op)
    with borrowed() as ask:
        made = Derivation.start(diagram, ask)
        made = made if stream is None else streamed(made, stream)
        made = made if group is None else grouped(made, group)
        if not runs_in_kernels(made.diagram):
            axes = " ".join(axis for axis in counts if axis != stream)
            raise UsageError(f"{op} is in no groups yet, which devices share: name their axes, as in --group '{axes}'")
        found = sharding(made, counts, stored=places, dtype=dtype)
    if as_json:
        print(json.dumps(_sharding_data(found), indent=1))
        return
    print(type_of(diagram))
    print(found)


def _sharding_data(found: Sharding) -> dict[str, Any]:
    return {
        "devices": {axis: str(count) for axis, count in found.mesh.items()},
        "unit": found.unit,
        "received": str(found.received),
        "transfers": str(found.transfers),
        "memory": str(found.memory),
        "flops": str(found.flops),
        "iterations": str(found.steps),
        "intensity": str(found.intensity),
        "shares": [
            {
                "array": s.array,
                "how": s.pattern,
                "needed": str(s.needed),
                "stored": str(s.stored),
                "received": str(s.received),
            }
            for s in found.shares
        ],
    }
