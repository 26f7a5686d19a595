"""Every operator of the library that can be derived, as a kernel: run in the interpreter, and compiled for Hopper."""

from __future__ import annotations

import functools

import pytest

import catdiag as cd
from catdiag.cli.io_report import best_of
from catdiag.execute.size_inference import tile_bounds
from catdiag.planner.compiled_plan import compiled_of
from catdiag.runtime.compile import CompiledKernel
from catdiag.runtime.machine_code import HOPPER
from catdiag.solvers.z3 import Z3
from catdiag.testing.input_generators import symbols_of

pytestmark = pytest.mark.triton


@functools.lru_cache(maxsize=1)
def kernel(name: str, dtype: str) -> CompiledKernel:
    """The operator as `derive` has it, in short tiles, of several axes in tiles of one but for the last."""
    source = cd.library.get(name)
    with Z3() as ask:
        derived = best_of(source.diagram, ask).diagram
    symbols = tile_bounds(derived)
    groups = [s for s in symbols if s.startswith("g_")]
    tiles = {s: 2 if s.startswith("p_") else 1 if s in groups[:-1] else 16 for s in symbols}
    return compiled_of(derived, source, tiles, dtype)


@pytest.mark.usefixtures("interpreting")
class TestRun:
    @pytest.mark.parametrize("name", cd.library.names())
    def test_it_gives_what_the_diagram_means(self, name: str) -> None:
        made = kernel(name, "fp32")
        symbols = symbols_of(made.source)
        sizes: dict[str, list[int]] = {symbol: [1, 3, 17] if len(symbols) < 5 else [1, 2, 5] for symbol in symbols}
        # One program for each entry of these.
        single = {size for tile, size in tile_bounds(made.diagram).items() if made.tiles.get(tile, 1) == 1}
        sizes |= {symbol: [1, 2] for symbol in single.intersection(symbols)}
        # Products in the interpreter are of single precision; on a GPU those of fp32 are of tf32.
        assert cd.testing.assert_compiled(made, sizes, trials=3, repeats=False).compared > 0


@pytest.mark.usefixtures("compiling")
@pytest.mark.parametrize("name", cd.library.names())
def test_it_compiles(name: str) -> None:
    made = kernel(name, "bf16")
    # An axis that is whole is a tile as long as it is.
    tiled = set(tile_bounds(made.diagram).values())
    codes = made.binaries({size: 48 if size in tiled else 8 for size in symbols_of(made.source)})
    assert {code.arch for code in codes} == {HOPPER}
    assert all(code.shared_bytes <= 227 * 1024 for code in codes)
    assert not any(code.unwritten_registers for code in codes)
