"""Pseudocode with all variables: what it says of sizes is what `io` counts."""

from __future__ import annotations

import re

import pytest

import catdiag as cd
from catdiag.draw.listing.program_text import LEVELS, PLACEMENT, expanded
from catdiag.rewrite.list_states import resized
from catdiag.util.errors import SizeError

SIZES, TILES = {"q": 4096, "x": 2048, "d": 64}, {"g_q": 64, "s_x": 32}


def rows(text: str) -> dict[str, list[str]]:
    """The rows of variables, by name."""
    lines = text.splitlines()
    found: dict[str, list[str]] = {}
    for start in (k for k, line in enumerate(lines) if line.startswith("variable ")):
        for line in lines[start + 1 : lines.index("", start)]:
            name, *cells = re.split(r"\s{2,}", line)
            found[name] = cells
    return found


def test_each_variable_has_its_size_type_and_level(flash: cd.Derivation) -> None:
    found = rows(expanded(flash, sizes=SIZES, tiles=TILES, dtype="bf16", stages=2))
    assert found["Q"] == ["SMEM", "g_q × d", "bf16", "4,096", "8,192", "of q × d"]
    assert found["K"] == ["SMEM", "2 of s_x × d", "bf16", "4,096", "8,192", "of x × d"]
    assert found["sum3"] == ["registers", "g2_q × d", "fp32", "4,096", "16,384"]
    assert found["out"][-1] == "in the place of sum3"
    assert "max1′" in found


def test_what_is_held_is_what_io_counts(flash: cd.Derivation) -> None:
    text = expanded(flash, sizes=SIZES, tiles=TILES, dtype="bf16", stages=2)
    counted = flash.io(levels=LEVELS, placement=PLACEMENT, dtype="bf16", stages=2).memory
    values = {**SIZES, **TILES, "g2_q": TILES["g_q"], "s2_x": TILES["s_x"]}
    body = text[text.index("for each tile") :].splitlines()
    held = [tuple(int(n.replace(",", "")) for n in found) for line in body
            if len(found := re.findall(r"\s{2,}([\d,]+)", line)) == 2]  # fmt: skip
    for k, place in enumerate(("SMEM", "registers")):
        formula = counted[place]
        named = {s: values[str(s)] for s in formula.free_symbols}
        assert max(line[k] for line in held) == formula.subs(named)
    assert len(held) == 13


def test_without_sizes_there_are_formulas(flash: cd.Derivation) -> None:
    assert rows(expanded(flash))["K"] == ["SMEM", "s_x × d", "real", "of x × d"]
    text = expanded(flash, dtype="fp8")
    assert rows(text)["K"] == ["SMEM", "s_x × d", "fp8", "d·s_x", "of x × d"]
    assert "SMEM holds at most d·g_q + 2·d·s_x bytes" in text
    assert text.count("\n    for each block of x (s_x at a time):\n        load K, V\n") == 1


def test_kernels_are_told_one_after_the_other(flash: cd.Derivation) -> None:
    text = expanded(flash.split("x"), sizes=SIZES, tiles={**TILES, "p_x": 4}, dtype="bf16")
    assert text.index("kernel 1 of 2") < text.index("save sum3") < text.index("kernel 2 of 2") < text.index("save out")


def test_scalars_among_the_sizes_are_no_axes() -> None:
    shifted = cd.algorithm("q, int[] -> q", name="shifted")(lambda a, w: cd.where(cd.index("q") < w, a, 0)).group("q")
    assert "for each tile of q" in expanded(shifted, sizes={"q": 64, "w": 3}, tiles={"g_q": 16})


def test_a_size_that_is_missing_is_named(flash: cd.Derivation) -> None:
    with pytest.raises(SizeError, match="d is missing"):
        expanded(flash, sizes={"q": 1, "x": 1}, tiles=TILES)


def test_a_sum_is_in_parentheses_where_an_axis_of_a_split_loop_has_it_as_its_size() -> None:
    summed = cd.algorithm("q p -> q", name="summed")(lambda a: cd.sum(cd.exp(a), "p"))
    longer = cd.Program(resized(summed.diagram, {"p": ("+", "x", 1)}))
    text = expanded(longer.stream("p").split("p").group("q"))
    assert rows(text)["a"][-1] == "of q × (x + 1)"
    assert "each of p_p parts of x + 1, in parallel" in text
