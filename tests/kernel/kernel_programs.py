"""Core programs and certificates written by hand, for attacks on the checker."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def array(name: str, *axes: str, element: str = "real", **sizes: Any) -> Json:
    """An input; an axis has the size of its name unless `sizes` says otherwise."""
    return {"name": name, "axes": [[a, sizes.get(a, a)] for a in axes], "element": element}


def program(inputs: list[Json], nodes: list[Json], *outputs: Any) -> Json:
    return {"title": "", "inputs": inputs, "nodes": nodes, "outputs": [[w, e] for w, e in map(_output, outputs)]}


def _output(w: Any) -> tuple[int, str]:
    return w if isinstance(w, tuple) else (w, "real")


def const(value: str) -> Json:
    return {"op": "const", "value": value}


def apply(fn: str, *args: int) -> Json:
    return {"op": "map", "fn": fn, "args": list(args)}


def reduce(monoid: str, axis: str, wire: int) -> Json:
    return {"op": "reduce", "monoid": monoid, "axis": axis, "args": [wire]}


def rename(wire: int, axes: list[Any], **pairs: str) -> Json:
    at = {old: ["i", new] for old, new in pairs.items()}
    return {"op": "view", "args": [wire], "axes": axes, "reads": [{"at": at, "where": []}]}


def certificate(left: Json, right: Json, proof: Json | None = None, assume: tuple[Any, ...] = ()) -> Json:
    statement = {"left": left, "right": right, "assume": [list(c) for c in assume]}
    return {"format": "catdiag-certificate", "version": 3, "statement": statement, "proof": proof or {}}


def equal(left: list[Any] | None = None, right: list[Any] | None = None, **more: Any) -> Json:
    """A proof of an equation by steps on both sides."""
    sides = ((0, left or []), (1, right or []))
    return {"steps": [[rule, [k, *path], *args] for k, steps in sides for rule, path, *args in steps], **more}


def by(left: list[Any] | None = None, right: list[Any] | None = None, **more: Any) -> Json:
    """A proof of the one output by steps on both sides."""
    return {"outputs": {"0": equal(left, right, **more)}}


def sum_fold(step: list[Json], last: int, unit: str = "0", state: list[Json] | None = None, at: int = 1) -> Json:
    """A fold over x of A[x] with one component; in `step`, wire 0 is the state and wire 1 the block."""
    block = array("A", "x", x="s_x")
    s, t = array("s"), array("t")
    return {
        "op": "fold", "axis": "x", "block": "s_x", "args": [0],
        "unit": program([], [const(unit)], 0),
        "step": program([s, block], step, last),
        "merge": program([s, t], [apply("add", 0, 1)], 2),
        "state": program([block], state or [reduce("sum", "x", 0)], at),
    }  # fmt: skip


GOOD_STEP = [reduce("sum", "x", 1), apply("add", 0, 2)]


def tiles(inputs: list[Json], nodes: list[Json], out: int, args: list[int], *axes: str) -> Json:
    """A group over axes, of one output."""
    return {"op": "group", "tiles": [[a, f"g_{a}"] for a in axes], "args": args, "body": program(inputs, nodes, out)}
