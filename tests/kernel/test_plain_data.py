"""Certificates as Python data that no JSON file holds."""

from __future__ import annotations

from typing import Any

import pytest

from catdiag.kernel.checker import FORMAT, VERSION, Checker
from catdiag.kernel.terms import KernelError
from catdiag.prover.api import certify
from catdiag.solvers.z3 import Z3


def _statement(x: Any, y: Any) -> dict[str, Any]:
    """Σ_y (0·B + 1) = Σ_x 2·(0·A + 1)."""

    def side(array: int, axis: str, factor: str) -> dict[str, Any]:
        return {
            "inputs": [{"name": "A", "axes": [["x", x]], "element": "real"},
                       {"name": "B", "axes": [["y", y]], "element": "real"}],
            "nodes": [{"op": "const", "value": "0"}, {"op": "const", "value": factor},
                      {"op": "map", "fn": "mul", "args": [array, 2]}, {"op": "map", "fn": "add", "args": [4, 3]},
                      {"op": "reduce", "monoid": "sum", "axis": axis, "args": [5]}],
            "outputs": [[6, "real"]],
        }  # fmt: skip

    return {"left": side(1, "y", "1"), "right": side(0, "x", "2"), "assume": []}


@pytest.mark.parametrize("twice", [["*", 2, "n"], ("*", 2, "n")])
def test_all_sizes_of_a_part_are_put_in_their_place(twice: Any) -> None:
    """Of x = n and y = 2·n it is a theorem, of x = m and y = 2·n it is not: a part could be read so, if what JSON would
    write as a list were taken for a size but not for one to put names into."""
    with Z3() as ask:
        part = certify(ask, _statement("n", ["*", 2, "n"])).certificate
        part["statement"] = _statement("n", twice)
        whole = {
            "format": FORMAT, "version": VERSION, "statement": _statement("m", twice), "cited": [part],
            "proof": {"parts": [{"cites": 0, "sizes": {"n": "m"}, "reads": [0, 1], "makes": ["Z"]}], "results": [2]},
        }  # fmt: skip
        with pytest.raises(KernelError, match=r"has axes|plain data"):
            Checker(ask).check(whole)


def test_a_long_cut_without_elements_takes_no_time() -> None:
    """A witness may say that one axis of a cut is empty and another as long as a number is."""

    def statement(z: Any) -> dict[str, Any]:
        inputs = [{"name": "A", "axes": [["w", "n"]], "element": "real"}]
        nodes = [{"op": "index", "axis": ["z", z]}, {"op": "map", "fn": "add", "args": [1, 0]}]
        side = {"inputs": inputs, "nodes": nodes, "outputs": [[2, "real"]]}
        return {"left": side, "right": side, "assume": []}

    with Z3() as ask:
        whole = {
            "format": FORMAT, "version": VERSION, "statement": statement(10**12),
            "cited": [certify(ask, statement("z")).certificate],
            "proof": {"parts": [{"cites": 0, "sizes": {"z": 10**12}, "reads": [0], "makes": ["Z"]}], "results": [1]},
            "witness": {"sizes": {"n": 0}, "arrays": {"A": []}, "functions": {}},
        }  # fmt: skip
        with pytest.raises(KernelError, match="witness does not meet"):
            Checker(ask).check(whole)
