"""Kernels as functions of tensors, without a GPU: what is refused, and Triton's interpreter (pytest -m triton)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import catdiag as cd
from catdiag.runtime.compile import CompiledKernel, compiled
from catdiag.runtime.torch_operator import name_of
from catdiag.util.errors import CatdiagError, SizeError, TypeMismatch
from tests.runtime.sample import TEXT, Module

pytestmark = pytest.mark.triton
# The rooms with tests that run kernels.
ROOMS = ("codegen", "measure", "planner", "runtime")

total = cd.algorithm("q x, -> q", name="total")(lambda A, c: cd.sum(A, "x") * c)


def kernel(text: str = TEXT, dtype: str = "bfloat16") -> CompiledKernel:
    rows, c = Module().inputs
    code = replace(Module(), text=text, inputs=(replace(rows, dtype=dtype), c),
                   outputs=(replace(Module().outputs[0], dtype=dtype),))  # fmt: skip
    return compiled(code, total.stream("x").group("q").diagram, total)


def data(*shape: int, **options: Any) -> Any:
    import torch

    return torch.randn(shape, dtype=torch.bfloat16, generator=torch.Generator().manual_seed(0), **options)


@pytest.mark.usefixtures("compiling")
def test_in_the_interpreter() -> None:
    """The tests below that run kernels, in a process that was told to before it imports Triton."""
    command = ["-m", "pytest", "-m", "triton", "-n0", "-k", "TestRun", "-q", "-rs", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [sys.executable, *command, "--show-capture=no", *(f"tests/{room}" for room in ROOMS)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "skipped" not in ran.stdout
    assert "SKIPPED" not in ran.stdout


@pytest.mark.usefixtures("interpreting")
class TestRun:
    def test_it_takes_and_gives_arrays_of_jax(self) -> None:
        jax = pytest.importorskip("jax")
        a = data(70, 33)
        found = kernel()(jax.dlpack.from_dlpack(a), 2.0)
        assert isinstance(found, jax.Array)
        assert float(abs(found - jax.dlpack.from_dlpack(kernel()(a, 2.0))).max()) == 0.0

    def test_it_gives_what_the_diagram_means(self) -> None:
        a = data(70, 33)
        got = kernel()(a, 2.0)
        assert got.dtype == a.dtype
        assert (got.float() - 2 * a.float().sum(1)).abs().max() < 0.25
        assert (
            cd.testing.assert_compiled(kernel(dtype="float16"), trials=4, sizes={"q": [1, 65], "x": [31, 33]}).compared
            > 0
        )
        with pytest.raises(CatdiagError, match="interpreter cuts numbers off to bfloat16"):
            cd.testing.assert_compiled(kernel())

    def test_a_wrong_kernel_is_found_out(self) -> None:
        wrong = TEXT.replace("(j[None, :] < x), other=0.0", "(j[None, :] < x - 1), other=0.0")
        with pytest.raises(cd.testing.Mismatch, match="total does not implement total"):
            cd.testing.assert_compiled(kernel(wrong, "float16"), trials=4, sizes={"q": 3, "x": 5})

    def test_what_is_not_written_is_found_out(self) -> None:
        less = TEXT.replace("mask=i < q)", "mask=i < q - 1)")
        with pytest.raises(cd.testing.Mismatch, match="nan"):
            cd.testing.assert_compiled(kernel(less, "float16"), trials=4, sizes={"q": 3, "x": 5})

    def test_strides_are_free_and_results_may_be_given(self) -> None:
        import torch

        a = data(33, 70).T
        out = torch.empty(140, dtype=a.dtype)[::2]
        assert kernel()(a, 2.0, out=out) is out
        assert torch.equal(out, kernel()(a.contiguous(), 2.0))

    def test_other_tiles(self) -> None:
        import torch

        other = kernel().at({"g_q": 16, "s_x": 8, "g_b": 1}, warps=2)
        assert other.tiles == {"g_q": 16, "s_x": 8}
        assert torch.allclose(other(data(20, 9), 1.0), kernel()(data(20, 9), 1.0), rtol=0.02)
        with pytest.raises(SizeError, match="total has no tile 'g_b', which is given as 2: expected one of g_q, s_x"):
            kernel().at({"g_b": 2})

    def test_torch_compile_takes_it_whole(self) -> None:
        import torch

        k, a = kernel(), data(70, 33)

        def program(a: Any) -> Any:
            return k(a * 2, 2.0) + 1

        for dynamic in (False, True):
            whole = torch.compile(program, fullgraph=True, backend="aot_eager", dynamic=dynamic)
            for rows in (70, 50):
                assert torch.equal(whole(a[:rows]), program(a[:rows]))

    def test_the_operator_passes_torchs_own_tests(self) -> None:
        import torch

        said = torch.library.opcheck(kernel().op, (data(20, 9), 2.0))
        assert set(said.values()) == {"SUCCESS"}
        meta = kernel().op(torch.empty((7, 5), dtype=torch.bfloat16, device="meta"), 1.0)
        assert meta.shape == (7,)

    def test_a_derivative_is_refused(self) -> None:
        import torch

        a = data(20, 9).requires_grad_()
        with pytest.raises(CatdiagError, match=r"input 'A' requires a gradient, and the kernel has no gradient"):
            kernel()(a, 1.0)
        with torch.no_grad():
            kernel()(a, 1.0)

    @pytest.mark.parametrize(
        ("kind", "said", "call"),
        [
            (TypeMismatch, r"total was given 1 inputs: expected 2, A, c", lambda k, a: k(a)),
            (TypeMismatch, r"input 'A' is a list: expected a torch tensor", lambda k, a: k([1.0], 1.0)),
            (TypeMismatch, r"input 'A' is of float32: expected bfloat16.*compile with dtype='fp32'",
             lambda k, a: k(a.float(), 1.0)),
            (TypeMismatch, r"input 'c' is str one: expected a number", lambda k, a: k(a, "one")),
            (TypeMismatch, r"input 'c' is bool True: expected a number", lambda k, a: k(a, True)),
            (SizeError, r"input A has shape \(9,\): expected 2 axes, \[q x\]", lambda k, a: k(a[0], 1.0)),
            (SizeError, r"input A has length 0 along axis 'q': expected at least 1", lambda k, a: k(a[:0], 1.0)),
        ],
    )  # fmt: skip
    def test_what_is_wrong_is_named(self, kind: type, said: str, call: Callable[[Any, Any], Any]) -> None:
        with pytest.raises(kind, match=said):
            call(kernel(), data(20, 9))

    def test_a_number_may_come_as_a_tensor(self) -> None:
        import torch

        a = data(20, 9)
        assert torch.equal(kernel()(a, torch.tensor(2.0)), kernel()(a, 2))


@pytest.mark.usefixtures("compiling")
class TestWithoutAGPU:
    def test_a_kernel_has_one_name_and_is_registered_once(self) -> None:
        one, two = kernel(), kernel()
        assert one.op is two.op
        assert one.module is two.module
        assert name_of(one) == name_of(two) != name_of(one.at(warps=8))
        assert str(one.op) == f"catdiag.{name_of(one)}.default"

    def test_code_is_that_of_the_tiles(self) -> None:
        small, large = (kernel().at({"g_q": n}, warps=w).binaries({"q": 64, "x": 64}) for n, w in ((16, 2), (64, 4)))
        assert (small[0].threads, large[0].threads) == (64, 128)
        assert kernel().at({"g_q": 16}).launches({"q": 64, "x": 64})[0].grid == (4, 1, 1)

    def test_running_says_what_works_without_a_gpu(self) -> None:
        import torch

        if torch.cuda.is_available():
            pytest.skip("there is a GPU")
        with pytest.raises(CatdiagError, match=r"input 'A' is on cpu, and torch finds no GPU here: "):
            kernel()(data(20, 9), 1.0)
        with pytest.raises(CatdiagError, match="torch finds no GPU here"):
            cd.testing.assert_compiled(kernel())


@pytest.mark.gpu
class TestOnAGPU:
    @pytest.fixture(autouse=True)
    def _gpu(self, compiling: None) -> None:
        import torch

        if not torch.cuda.is_available():
            pytest.skip("there is no GPU")

    def test_it_runs_and_agrees(self) -> None:
        import torch

        k, a = kernel(), data(70, 33).cuda()
        assert cd.testing.assert_compiled(k, trials=10).compared > 0
        whole = torch.compile(lambda a: k(a * 2, 2.0) + 1, fullgraph=True)
        assert torch.allclose(whole(a), k(a * 2, 2.0) + 1, rtol=0.02)
        with pytest.raises(TypeMismatch, match=r"input 'A' is on cpu: expected a tensor on the GPU, A.cuda\(\)"):
            k(a.cpu(), 1.0)

    def test_a_graph_gives_the_same(self) -> None:
        plain = kernel()
        graphed = replace(plain, graph=True)
        for step in range(5):
            a = data(70, 33).cuda() + step
            assert (graphed(a, 2.0) == plain(a, 2.0)).all()
        assert len(graphed._graphs) == 1
