"""Programmatic dependent launch: who waits for whom, when, and where it is off."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest

import catdiag as cd
from catdiag.category.types import ArrayType
from catdiag.codegen.kernel_tree import ForLoop, If, KernelFunction, PythonStatement, While, printed
from catdiag.codegen.triton.array_accesses import StoredArray
from catdiag.codegen.triton.dependent_launch import TRIGGER, WAIT, chained
from catdiag.codegen.triton.kernel_signature import KernelSpec
from catdiag.codegen.triton.triton_module import Module, module
from catdiag.runtime.launch_recorder import record_launches
from catdiag.runtime.machine_code import binaries
from catdiag.runtime.module_cache import imported

SIZES = {"t": 64, "e": 256, "f": 512}
ACCESSES = re.compile(r"\btl\.(load|store|atomic_add)\(|\b_load\(|\.load\(|tma\.async_copy|gl\.(load|store)\(")


def deep(X: Any, *weights: Any) -> Any:
    for given, made, W in zip("eabc", "abcd", weights, strict=True):
        X = cd.tanh(cd.einsum(f"t {given}, {made} {given} -> t {made}", X, W))
    return X


DEEP = cd.algorithm("t e, a e, b a, c b, d c -> t d", name="deep")(deep)


def test_a_plan_says_which_kernels_begin_as_others_end() -> None:
    sizes = {"t": 8192, "e": 4096, "a": 4096, "b": 4096, "c": 4096, "d": 4096}
    plan = DEEP.plan("H200", sizes, several=True)
    count = len(plan.kernels)
    assert count > 1 and plan.dependent == tuple(range(2, count + 1)) and plan.chip is not None
    assert plan.time_s == pytest.approx(
        sum(k.time_s for k in plan.kernels) + (count - 1) * plan.chip.dependent_launch_s
    )
    assert "as the one before ends (dependent launches), 1.7 µs from one to the next, else 2.0" in str(plan)
    other = DEEP.plan("A100", sizes, several=True)
    assert other.dependent == () and other.gap_s == 2e-6 and "dependent launches" not in str(other)


def test_what_merges_parts_does_not_make_its_kernel_a_dependent() -> None:
    total = cd.algorithm("q x -> q")(lambda a: cd.sum(a, "x")).stream("x").split("x").group("q")
    made = module(total, {"p_x": 4, "g_q": 16, "s_x": 16})
    assert made.dependents == made.kernels[1:] and made.dependent_places == ()


def text_of(s: PythonStatement) -> str:
    return "\n".join(printed([s]))


def paths(body: Sequence[PythonStatement]) -> Iterator[str]:
    """The statements in the order in which they run, those of a branch or a loop one by one, its condition first."""
    for s in body:
        if isinstance(s, (If, ForLoop, While)):
            yield text_of(s).split("\n", 1)[0]
            yield from paths(s.body)
            yield from paths(s.otherwise) if isinstance(s, If) else ()
        else:
            yield text_of(s)


def waits_first(kernel: KernelFunction) -> bool:
    """Whether the kernel waits in each program before it reads or writes memory, where it is launched as a dependent:
    the wait stands in no branch but that of the constant which says so."""
    for s in kernel.body:
        own = list(paths([s]))
        if isinstance(s, If) and str(s.test) == "dependent":
            direct = [text_of(inner) for inner in s.body]
            before = direct[: next((n for n, line in enumerate(direct) if line.startswith(f"{WAIT}()")), len(direct))]
            return len(before) < len(direct) and not any(map(ACCESSES.search, before))
        if any(map(ACCESSES.search, own)):
            return False
    return False


def chain_of(made: Module, generation: int = 9, **options: Any) -> list[tuple[str, bool, bool]]:
    """Of each launch the kernel, whether it is a dependent, and whether it waits before it accesses memory."""
    sizes = {n: SIZES.get(n, 64) for a in made.inputs for axis in a.ty.axes for n in [axis.name]}
    launches = record_launches(made, sizes, options, generation=generation)
    return [
        (c.kernel, c.options.get("launch_pdl") is True, waits_first(made.code.functions[c.kernel])) for c in launches
    ]


@pytest.fixture(scope="module")
def chain() -> Module:
    plan = DEEP.plan("H200", dict.fromkeys("teabcd", 4096), dtype="fp16")
    made = plan.written()
    assert len(made.buffers) > 1
    return made


def test_each_kernel_but_the_first_is_a_dependent_and_waits(chain: Module) -> None:
    first, *rest = chain_of(chain)
    assert rest and not first[1]
    assert all(dependent and waits for _, dependent, waits in rest)


def test_parts_of_the_arena_are_written_anew_after_a_wait(chain: Module) -> None:
    """With fewer buffers than saved arrays, what a kernel writes lies where an earlier one still may read. In the order
    of complete kernels each access comes after all kernels before; without a wait in between it would not."""
    sizes = dict.fromkeys("teabcd", 4096)
    assert chain.buffer_bytes(sizes) < sum(b.bytes({**sizes, **chain.tiles}) for b in chain.buffers), "memory is reused"

    def ordered(marks: Sequence[tuple[bool, bool]]) -> bool:
        """Whether each kernel's accesses come after all earlier kernels are complete."""
        done_before: list[set[int]] = []  # the kernels that are complete before the accesses of each
        for n, (dependent, waits) in enumerate(marks):
            before = n - 1
            if not dependent:
                done_before.append(set(range(n)))
            elif not waits or before < 0:
                done_before.append(set())
            else:  # the grid before is complete, so it has made its accesses: all that these come after is complete too
                done_before.append({before} | done_before[before])
        return all(done == set(range(n)) for n, done in enumerate(done_before))

    marks = [(dependent, waits) for _, dependent, waits in chain_of(chain)]
    assert ordered(marks)
    for n in range(1, len(marks)):
        assert not ordered([(d, w and k != n) for k, (d, w) in enumerate(marks)]), "the check sees a kernel without"


def test_a_wait_in_a_branch_or_after_a_load_is_none(chain: Module) -> None:
    kernel = chain.code.functions[chain.kernels[-1]]
    assert waits_first(kernel)
    at, guard = next((n, s) for n, s in enumerate(kernel.body) if isinstance(s, If) and str(s.test) == "dependent")
    rest = [s for s in kernel.body if s is not guard]
    moved = KernelFunction(kernel.name, kernel.parameters, [*rest, guard])
    inner = If(guard.test, [If(guard.test, guard.body)])
    hidden = KernelFunction(kernel.name, kernel.parameters, [*kernel.body[:at], inner, *kernel.body[at + 1 :]])
    assert not waits_first(moved)
    assert not waits_first(hidden)


@pytest.mark.parametrize(("generation", "options"), [(8, {}), (9, {"dependent_launch": False})])
def test_it_is_off_on_chips_that_have_none_and_where_it_is_not_wanted(
    chain: Module, generation: int, options: dict[str, Any]
) -> None:
    sizes = dict.fromkeys("teabcd", 64)
    for call in record_launches(chain, sizes, options, generation=generation):
        assert "launch_pdl" not in call.options
        assert not call.arguments["dependent"]


def test_calls_of_torch_and_kernels_after_them_are_ordinary_launches() -> None:
    @cd.algorithm("t e, f e, e f -> t e")
    def mlp(X: Any, W: Any, V: Any) -> Any:
        N = X / cd.sqrt(cd.mean(X * X, "e"))
        R = cd.nn.relu(cd.einsum("t e, f e -> t f", N, W))
        return X + cd.einsum("t f, e f -> t e", R, V)

    made = mlp.plan("H200", {"t": 4096, "e": 4096, "f": 4096}, products="torch").written()
    launched = made.host.split(f"def {made.entry}(")[1]
    steps = re.split(r"^    (_product\(|_mlp\w*\[)", launched, flags=re.M)[1:]
    kinds = [(name.startswith("_product"), "**pdl" in rest) for name, rest in zip(steps[::2], steps[1::2], strict=True)]
    assert any(call for call, _ in kinds) and any(dependent for _, dependent in kinds)
    for (called, _), (call, dependent) in pairwise([(True, False), *kinds]):
        assert dependent == (not called and not call), kinds


def test_kernels_beside_arrays_that_are_added_to_are_ordinary_launches() -> None:
    """torch clears such an array before its kernel. What adds its parts up is let in by it."""

    sums = StoredArray(ArrayType(()), "sums")

    def spec(place: int, added: Mapping[StoredArray, str]) -> KernelSpec:
        return KernelSpec(f"k{place}", (), "", (), {}, {}, {}, (), {}, (), (), (), {}, {}, place=place, added=added)

    for added, triggers in (({sums: "part"}, True), ({}, False)):  # parts, and entries at positions that integers say
        kernels = [spec(n, added if n == 2 else {}) for n in range(5)]
        marks = [(k.waits, k.triggers) for k in chained(kernels, [], {2})]
        assert marks == [(False, True), (True, False), (False, triggers), (False, True), (True, False)]


def test_one_kernel_has_no_chain() -> None:
    total = cd.algorithm("q x -> q")(lambda A: cd.sum(A, "x")).stream("x").group("q")
    made = module(total, {"g_q": 64, "s_x": 64}, "fp32")
    assert "dependent" not in made.text


def test_the_next_kernel_is_let_in_after_all_loops(chain: Module) -> None:
    *kernels, last = (chain.code.functions[name] for name in chain.kernels)
    assert TRIGGER not in "\n".join(printed(last.body))
    for kernel in kernels:
        lines = [text_of(s) for s in kernel.body]
        place = next(n for n, line in enumerate(lines) if TRIGGER in line)
        assert "tl.store(" not in "".join(lines[:place]) and "tl.store(" in lines[place + 1]
        assert not any(isinstance(s, (ForLoop, While)) for s in kernel.body[place:])


# -- what is compiled and run ------------------------------------------------------------------------------------------


@pytest.mark.triton
@pytest.mark.usefixtures("compiling")
def test_the_wait_comes_before_all_accesses_in_ptx(chain: Module) -> None:
    sizes = dict.fromkeys("teabcd", 256)
    first, *rest = binaries(chain, sizes)
    assert rest and "griddepcontrol.wait" not in first.assembly
    assert "griddepcontrol.launch_dependents" in first.assembly
    for binary in rest:
        before, _, after = binary.assembly.partition("griddepcontrol.wait")
        assert after and not re.search(r"\b(ld|st|red|atom)\.(relaxed\.|volatile\.)?(global|gpu)|cp\.async", before)
    for binary in binaries(chain, sizes, arch=80):
        assert "griddepcontrol" not in binary.assembly


@pytest.mark.triton
def test_a_plan_is_compiled_without_it() -> None:
    plan = DEEP.plan("H200", dict.fromkeys("teabcd", 4096), dtype="fp16")
    kernel = plan.compile(dependent_launch=False)
    assert kernel.options == {"dependent_launch": False}
    assert plan.compile() is not kernel and "dependent_launch" not in plan.compile().options


@pytest.mark.triton
@pytest.mark.usefixtures("interpreting")
def test_interpreted_kernels_do_not_wait(chain: Module) -> None:
    import torch

    lengths = {"t": 20, "e": 40, "a": 24, "b": 33, "c": 16, "d": 17}
    own = torch.Generator().manual_seed(1)
    arrays = [(torch.randn([lengths[x.name] for x in ty.axes], generator=own) / 5).half() for ty in DEEP.dom]
    got = getattr(imported(chain.text, chain.entry), chain.entry)(*arrays, dependent_launch=True)
    wanted = DEEP.run(*(a.double().numpy() for a in arrays))
    assert abs(got.double().numpy() - wanted).max() < 0.003
