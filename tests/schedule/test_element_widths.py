"""Predicted bytes are those of the tensors that a launch function takes, integers and truth values included."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import pytest

import catdiag as cd
from catdiag.category.diagram import diagram_of
from catdiag.category.types import BYTES, COMPUTED, INTEGER_BYTES, STORED, ArrayType, Axis, element_bytes
from catdiag.codegen.triton.triton_module import module
from catdiag.cost.traffic import IO
from catdiag.draw.listing.listing_builder import listing_of
from catdiag.schedule.element_widths import real_types, stored_type
from catdiag.schedule.placement import two
from catdiag.schedule.stored_types import widest, widths_of
from catdiag.util.errors import CatdiagError


@cd.algorithm("v d, int[t], bool[t] -> t d, int[t], bool[t]")
def masked_rows(table: cd.Traced, row: cd.Traced, keep: cd.Traced) -> tuple[cd.Traced, cd.Traced, cd.Traced]:
    """Rows of a table that may be left out: an integer and a truth value of each token come in and go out."""
    return cd.where(keep, cd.gather(table, "v", row), 0.0), row + 1, row > 2


@cd.algorithm("t x, int[t x] -> t, int[t]")
def counted(A: cd.Traced, kind: cd.Traced) -> tuple[cd.Traced, cd.Traced]:
    """A sum of integers and of reals in one pass."""
    return cd.sum(A, "x"), cd.sum(kind, "x")


PROGRAMS: dict[str, tuple[Callable[[], cd.Program], dict[str, int]]] = {
    "rows": (lambda: masked_rows.group("t"), {"g_t": 16}),
    "sums": (lambda: counted.stream("x").group("t"), {"g_t": 16, "s_x": 32}),
    "parts": (lambda: counted.stream("x").split("x").group("t"), {"g_t": 16, "s_x": 32, "p_x": 4}),
}
DTYPES: dict[str, str | dict[str, str]] = {"bf16": "bf16", "fp32": "fp32", "narrow": {"row": "int32", "kind": "int8"}}


@cache
def derived(name: str) -> tuple[cd.Program, dict[str, int]]:
    made, tiles = PROGRAMS[name]
    return made(), tiles


def _moved(io: IO, direction: str, sizes: Mapping[str, int]) -> dict[str, int]:
    """The bytes of each array at some sizes."""
    values = {s: sizes[str(s)] for t in io.traffic for s in t.exact.free_symbols}
    return {t.array: int(t.exact.subs(values)) for t in io.traffic if t.direction == direction}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_an_element_is_as_wide_as_in_the_emitted_signature(program: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    made, tiles = derived(program)
    diagram = made.diagram
    kinds = DTYPES[dtype]
    if isinstance(kinds, Mapping):
        real = {n: "bf16" for n, ty in zip(diagram.input_names, diagram.dom, strict=True) if ty.element == "real"}
        kinds = real | {n: kind for n, kind in kinds.items() if n in diagram.input_names}
        kinds |= {"out0": "bf16"}
    code = module(diagram, tiles, kinds)
    widths = widths_of(diagram, kinds)
    taken = {a.name: getattr(torch, a.dtype).itemsize for a in code.inputs}
    given = [getattr(torch, a.dtype).itemsize for a in code.outputs]
    assert widths.inputs == taken
    assert list(widths.outputs.values()) == given
    sizes = {**dict.fromkeys(("t", "d", "v", "x"), 64), **tiles}
    read = {
        n: taken[n] * 64 ** len(ty.axes) for n, ty in zip(diagram.input_names, diagram.dom, strict=True) if n != "table"
    }
    moved = _moved(made.io(dtype=kinds), "load", sizes)
    assert {n: moved[n] for n in read} == read


def test_what_the_kernels_of_a_split_loop_pass_on_is_as_wide_as_its_buffers() -> None:
    made, tiles = derived("parts")
    code = module(made.diagram, tiles, "bf16")
    sizes = {"t": 64, "x": 64, **tiles}
    saved = _moved(made.io(dtype="bf16"), "save", sizes)
    between = [saved[n] for n in saved if not n.startswith("out")]
    assert sorted(between) == sorted(b.bytes(sizes) for b in code.buffers) == [4 * 64 * 4] * 2


@pytest.mark.parametrize("dtype", ["bf16", {"table": "fp16", "row": "int16", "out1": "int32"}])
def test_the_machine_counts_the_bytes_of_the_formula(dtype: str | dict[str, str]) -> None:
    cd.testing.assert_counts_match(derived("rows")[0], 2, dtype=dtype)
    if isinstance(dtype, str):
        cd.testing.assert_counts_match(derived("parts")[0], 1, dtype=dtype)


def test_the_listing_says_how_integers_lie_in_slow_memory() -> None:
    listing = listing_of(derived("sums")[0].diagram, "bf16", two())
    found = {v.name: v.element for v in listing.kernels[0].variables}
    assert found["kind"] == "int64" and "int32" in found.values()


def test_a_type_that_does_not_represent_the_elements_is_refused() -> None:
    made, tiles = derived("rows")
    wrong = {"row": "bf16"}, {"table": "int32"}, {"keep": "int8"}, {"row": "bool"}
    for kinds in wrong:
        with pytest.raises(CatdiagError, match="expected"):
            made.io(dtype=kinds)
        with pytest.raises(CatdiagError, match="expected"):
            module(made.diagram, tiles, kinds)
    with pytest.raises(CatdiagError, match="unknown dtype 'int64'"):
        made.io(dtype="int64")


def test_types_of_integers_decide_no_unit() -> None:
    kinds = {"table": "fp16", "row": "int64"}
    assert widest(kinds) == "fp16" and real_types(kinds) == ("fp16",)
    assert set(STORED) == set(COMPUTED) and {*STORED.values(), *COMPUTED.values()} <= {*INTEGER_BYTES, "bool"}
    assert all(element_bytes(kind) == size for kind, size in (BYTES | INTEGER_BYTES).items())
    assert stored_type("A", ArrayType((Axis("t"),)), {}) == "fp32"
    assert diagram_of(masked_rows).dom[1].element == "int"
