"""Arrays, warpgroups and clocks of derived kernels: against `io`, by laws, and at the sizes of the paper."""

from __future__ import annotations

from itertools import pairwise, permutations

import pytest

import catdiag as cd
from catdiag.errors import AxisError, CatdiagError, DoesNotFit, SizeError
from examples.napkin.warpgroup_configuration import configure
from examples.napkin.warpgroup_resources import read_columns
from examples.napkin.warpgroup_tables import REGISTERS, SMEM
from examples.napkin.warpgroup_timeline import timeline

KIB = 1024
FP8 = {"Q": "fp8", "K": "fp8", "V": "fp16", "out": "fp16"}
VALUES = {"w_q": 128, "s_x": 64, "u_x": 64, "u_d": 32, "v_d": 8, "d": 128}


@pytest.fixture(scope="module")
def flash():
    @cd.algorithm("q d, x d, x d -> q d")
    def attention(Q, K, V):
        S = cd.cast(cd.einsum("q d, x d -> q x", Q, K) / cd.sqrt(cd.size("d")), "fp16")
        return cd.einsum("q x, x d -> q d", cd.softmax(S, "x"), V)

    return attention.stream("x").group("q")


@pytest.fixture(scope="module")
def library(flash):
    return {"matmul": cd.library.get("matmul").stream("b").group("a c"), "attention": flash}


@pytest.fixture(scope="module")
def found(flash):
    return configure(flash, "H100", VALUES, FP8, arithmetic="fp16")


def test_the_arrays_are_those_of_the_diagram(flash):
    columns = read_columns(flash, FP8, arithmetic="fp16", pieces="u_x u_d v_d")
    by_name = {p.name: p for p in columns.arrays if not p.pipe}
    assert {n: (p.shape_text, p.dtype, p.level, p.owner, p.copies) for n, p in by_name.items() if n in "QKV"} == {
        "Q": ("w_q x d", "fp8", "SMEM", "warpgroup", 1),
        "K": ("s_x x d", "fp8", "SMEM", "thread block", 2),
        "V": ("s_x x d", "fp16", "SMEM", "thread block", 2),
    }
    assert by_name["einsum [q x]"].dtype == "fp16" and by_name["einsum [q x]"].level == REGISTERS
    # The maximum before the block gives its place to what old sums are multiplied by.
    assert by_name["max1"].shared == ("exp [q]",)
    assert {p.pipe for p in columns.arrays} == {"", "pipe to arithmetic", "pipe to matrix units"}
    assert columns.divisors == {"w_q": 128, "d": 128, "s_x": 16, "u_x": 8, "u_d": 8}
    assert "w_q^(128) x d^(128)" in str(columns)


def test_a_thread_block_at_the_sizes_of_the_paper(found):
    rooms = {r.level: r for r in found.rooms}
    assert (rooms[SMEM].block, rooms[SMEM].group) == (48 * KIB, 48 * KIB)
    assert (rooms[REGISTERS].block, rooms[REGISTERS].group) == (0, 128 * 598)
    assert found.warpgroups == 3 and found.rows == 384 and not found.misfits
    clocks = {c.name: float(c.clocks) for c in found.clocks}
    assert clocks["einsum [q x]"] == 2 and clocks["einsum [q d]"] == 4 and clocks["special functions"] == 65 / 16
    assert clocks["arithmetic on [q d]"] == 0.5
    assert found.iteration_clocks == 6 and round(found.flops_per_s / 1e15, 2) == 1.32
    assert round(float(found.minimum_rows), 2) == 295.35 and found.compute_s > found.transfer_s
    assert "295.35 rows" in str(found)


def test_the_overlaps(found):
    assert found.time("none") >= found.time("intra") >= found.time("inter") == found.iteration_clocks
    assert found.utilization("inter") == 1 > found.utilization("intra")
    assert found.time("inter", 1) == 2 * found.pipeline("exp")
    with pytest.raises(CatdiagError, match="overlap 'both'"):
        found.time("both")


@pytest.mark.parametrize("name", ["matmul", "attention"])
def test_shared_memory_is_that_of_io(name, library):
    derived = library[name]
    for dtype, stages in (("bf16", 1), ("fp32", 3)):
        columns = read_columns(derived, dtype, stages=stages, pipes=False)
        held = sum((p.bytes for p in columns.arrays if p.level == SMEM), start=columns.arrays[0].bytes.scaled(0))
        memory = derived.io(dtype=dtype, stages=stages, accumulators="registers").memory
        values = {str(s): 3 + k for k, s in enumerate(sorted(memory.free_symbols, key=str))}
        exact = memory.subs({s: values[str(s)] for s in memory.free_symbols})
        assert held.value({**values, columns.rows: values["g" + columns.rows[1:]]}) == exact


@pytest.mark.parametrize("name", ["matmul", "attention"])
def test_work_is_that_of_io(name, library):
    derived = library[name]
    io, columns = derived.io(), read_columns(derived)
    axes = {str(axis): 12 for axis in {*io.groups.values(), *io.streams.values()}}
    values = {**dict.fromkeys(io.account.sizes, 12), **axes}
    local = {**values, **{str(t): 3 for t in io.groups}, **{str(s): 4 for s in io.streams}, columns.rows: 3}
    for pipeline in ("tensor", "exp", "alu"):
        counted = 0
        for work in (w for w in columns.work if w.pipeline == pipeline):
            counted += work.operations.value(local) * 4 ** len(io.groups) * (3 if work.loop else 1)
        formula = io.work[pipeline]
        put = {s: local[str(s)] for s in formula.free_symbols} if formula != 0 else {}
        # What passes a pipe is added by arithmetic: here the values mixed of a block, in each of 3.
        added = 3 * 12 * 12 if (name, pipeline) == ("attention", "alu") else 0
        assert counted - added == (formula.subs(put) if put else 0)


def test_products_added_to_a_state_need_no_pipe(library):
    assert [p.name for p in read_columns(library["matmul"]).arrays] == ["A", "B", "sum1"]
    assert read_columns(library["matmul"], split="c").rows == "w_c"


def test_what_is_made_late_keeps_what_it_is_made_of():
    # exp(A) is made where it is added, so that A is there until then, and its sum has room of its own.
    late = cd.algorithm("q d, x d -> q d")(
        lambda A, K: cd.exp(A + A) * cd.sum(cd.exp(cd.einsum("q d, x d -> q x", A, K)), "x")
    )
    columns = read_columns(late.stream("x").group("q"), pipes=False)
    held = {p.name: (p.shape_text, p.shared) for p in columns.arrays}
    assert held["A"][0] == "w_q x d" and held["sum1"][0] == "w_q"
    assert len({p.name for p in columns.arrays}) == len(columns.arrays)
    inverse = cd.algorithm("q x -> q")(lambda A: 1 / cd.sum(A, "x") - cd.max(A, "x"))
    places = read_columns(inverse.stream("x").group("q")).arrays
    assert sorted(p.name for p in places) == ["A", "max2", "sum1"]


def test_without_pieces_products_are_held_whole(flash):
    whole = read_columns(flash, FP8, arithmetic="fp16")
    held = {p.name: p.shape_text for p in whole.arrays if not p.pipe}
    assert held["einsum [q d]"] == "w_q x d" and "mul [q d]" not in held


def test_a_schedule_uses_each_pipeline_once_at_a_time(found, flash):
    made = timeline(found, iterations=6)
    for pipeline in {slot.pipeline for slot in made.slots}:
        slots = sorted((s.start, s.end) for s in made.slots if s.pipeline == pipeline)
        assert all(a[1] <= b[0] for a, b in pairwise(slots))
    assert made.period == found.rows * found.iteration_clocks and made.busy["tensor"] == 1.0
    assert len(made.draw().splitlines()) >= 6
    one = configure(flash, "H100", VALUES, FP8, arithmetic="fp16", warpgroups=1)
    assert timeline(one).period > one.rows * one.iteration_clocks  # alone, it waits for itself


def test_products_ahead_are_those_of_the_next_turn(found):
    """They begin as soon as the arithmetic has read those of this turn, and never before."""
    made = timeline(found, iterations=6)
    at = {(s.actor, s.operation, s.iteration): s for s in made.slots}
    for (group, name, turn), slot in at.items():
        if name == "ahead" and turn:
            assert slot.start >= at[group, "arithmetic", turn - 1].end
            assert (
                slot.end <= at[group, "products", turn - 1].start or slot.start >= at[group, "products", turn - 1].end
            )
        if name == "products":
            assert slot.start >= at[group, "arithmetic", turn].end >= at[group, "ahead", turn].end


def test_what_is_refused(flash):
    plain = cd.algorithm("q x")(lambda A: cd.sum(A, "x"))
    for call, error, message in (
        (lambda: read_columns(plain), CatdiagError, "one kernel in groups"),
        (lambda: read_columns(flash, split="x"), AxisError, "not grouped: q are"),
        (lambda: read_columns(flash, pieces="u_z"), AxisError, "pieces 'u_z'"),
        (lambda: read_columns(flash, {"W": "fp8"}), CatdiagError, "'W' that the diagram does not have"),
        (lambda: read_columns(flash, arithmetic="fp7"), CatdiagError, "unknown dtype 'fp7'"),
        (lambda: read_columns(flash, types={"log [q]": "fp8"}), CatdiagError, "names an array .log"),
        (lambda: read_columns(flash, hardware="B200"), CatdiagError, "matrix units make in TMEM"),
        (lambda: configure(flash, "H100", {"w_q": 128, "d": 128}), SizeError, "'s_x' is missing"),
        (lambda: configure(flash, "H100", {**VALUES, "z": 1}), SizeError, "'z' is given"),
        (lambda: configure(flash, "H100", {**VALUES, "s_x": 4096}, FP8), DoesNotFit, "not one warpgroup fits"),
        (lambda: configure(flash, "H100", VALUES, FP8, arithmetic="fp16", warpgroups=4), CatdiagError, "and 3 fit"),
        (lambda: configure(flash, "A100", VALUES, FP8, arithmetic="fp16"), CatdiagError, "no rate for products in"),
        (lambda: configure(plain.group("q"), "H100", {"w_q": 128, "x": 8}), CatdiagError, "derive with .stream"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            call()


def test_groups_along_windows_are_refused():
    rolling = cd.algorithm("x k, k -> x")(lambda A, w: cd.einsum("x k, k -> x", A, w))
    assert read_columns(rolling.stream("k").group("x")).rows == "w_x"
    convolution = cd.library.get("conv1d").stream("c").group("y")
    with pytest.raises(CatdiagError, match="is read in place"):
        read_columns(convolution)


def test_sizes_that_are_no_multiples_are_told(flash):
    found = configure(flash, "H100", {**VALUES, "s_x": 72, "u_x": 72}, FP8, arithmetic="fp16")
    assert found.misfits == ("s_x = 72 of 16",)


@pytest.mark.slow
@pytest.mark.parametrize("name", cd.library.names())
def test_every_operator_has_columns(name):
    """Places last longer than `io` holds arrays, never shorter, and each size is a multiple of something."""
    diagram = cd.library.get(name)
    axes = sorted({axis.name for ty in diagram.dom for axis in ty.axes})
    for stream, group in permutations(axes, 2):
        try:
            derived = diagram.stream(stream).group(group)
        except CatdiagError:
            continue
        if len(derived.io().account.kernels) != 1:
            continue  # what is read at an index that data say is a kernel of its own
        columns = read_columns(derived, "bf16", stages=1, pipes=False)
        memory = derived.io(dtype="bf16", accumulators="registers").memory
        names = {str(s) for s in memory.free_symbols} | {"g" + columns.rows[1:]}
        names |= {s for p in columns.arrays for s in p.bytes.symbols()} - {columns.rows}
        values = {name: 3 + k for k, name in enumerate(sorted(names))}
        values[columns.rows] = values["g" + columns.rows[1:]]
        held = sum(p.bytes.value(values) for p in columns.arrays if p.level == SMEM)
        assert held >= memory.subs({s: values[str(s)] for s in memory.free_symbols})
        assert str(columns) and columns.divisors[columns.rows] % 64 == 0
        return
