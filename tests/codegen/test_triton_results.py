"""What tensors a launch takes for its results: their entries have places of their own, and none that is read later."""

from __future__ import annotations

import ast
import itertools
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import catdiag as cd
from catdiag import library
from catdiag.codegen.triton.launch_checks import WRITABLE
from catdiag.codegen.triton.triton_module import Module, module
from tests.forms import unproved

CHECKS: dict[str, Any] = {}
exec(WRITABLE, CHECKS)


@dataclass(frozen=True)
class Device:
    type: str = "cuda"


@dataclass(frozen=True)
class Tensor:
    """A tensor that lies somewhere in a memory of bytes."""

    first: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    width: int = 2
    dtype: str = "bf16"
    device: Device = Device()

    def data_ptr(self) -> int:
        return self.first

    def stride(self) -> tuple[int, ...]:
        return self.strides

    def element_size(self) -> int:
        return self.width

    def places(self) -> list[int]:
        """Where each entry begins."""
        indices = itertools.product(*map(range, self.shape))
        return [self.first + self.width * sum(map(int.__mul__, self.strides, at)) for at in indices]

    def bytes(self) -> set[int]:
        return {place + k for place in self.places() for k in range(self.width)}


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
    strides = tuple(draw(st.integers(0, 9)) for _ in shape)
    width = draw(st.sampled_from([1, 2, 4]))
    return Tensor(width * draw(st.integers(0, 12)), shape, strides, width)


@given(tensors())
def test_entries_that_share_a_place_are_found(tensor: Tensor) -> None:
    places = tensor.places()
    assert CHECKS["_repeats"](tensor) == (len(set(places)) < len(places))


@given(tensors(), tensors())
def test_tensors_that_share_memory_are_found(one: Tensor, other: Tensor) -> None:
    assert CHECKS["_meet"](one, other) == CHECKS["_meet"](other, one) == bool(one.bytes() & other.bytes())


def test_large_tensors_are_judged_by_their_strides() -> None:
    packed = Tensor(0, (8192, 16, 128), (3 * 2048, 128, 1))
    keys = Tensor(2 * 2048, (8192, 16, 128), (3 * 2048, 128, 1))
    turned = Tensor(2 * 2048, (16, 128, 8192), (128, 1, 3 * 2048))
    assert not CHECKS["_meet"](packed, keys) and not CHECKS["_meet"](packed, turned)
    assert CHECKS["_meet"](keys, turned) and CHECKS["_meet"](packed, Tensor(2 * 2047, (4,), (1,)))
    assert not CHECKS["_repeats"](packed) and CHECKS["_repeats"](Tensor(0, (8192, 64), (63, 1)))


def writable(result: Tensor, read: Tensor, kind: str = "") -> None:
    CHECKS["_writable"](Device(), [("out", result, "bf16")], [("A", read)], {("out", "A"): kind} if kind else {})


A = Tensor(4096, (8, 8), (8, 1))


def test_what_results_are_written_to_is_refused_or_taken() -> None:
    for result in (Tensor(0, (8, 8), (8, 1)), Tensor(4096 + 128, (8, 8), (8, 1)), Tensor(4096 - 16, (8,), (1,))):
        writable(result, A)
    with pytest.raises(
        ValueError, match=r"out has strides \(0, 1\): expected a tensor whose entries have each a place"
    ):
        writable(Tensor(0, (8, 8), (0, 1)), A)
    with pytest.raises(
        ValueError, match="out shares memory with A, which may be read after that was written: expected"
    ):
        writable(A, A)
    writable(A, A, "all")
    writable(A, A, "any")
    turned = Tensor(4096, (8, 8), (1, 8))
    writable(turned, A, "any")
    with pytest.raises(ValueError, match="shares none with it, or the same tensor"):
        writable(turned, A, "all")
    with pytest.raises(ValueError, match=r"out is of fp32 on .*: expected bf16 on"):
        writable(Tensor(0, (8, 8), (8, 1), 4, "fp32"), A)
    with pytest.raises(ValueError, match=r"out is of bf16 on .*'cpu'.*: expected bf16 on"):
        writable(Tensor(0, (8, 8), (8, 1), device=Device("cpu")), A)
    with pytest.raises(ValueError, match="b and a share memory: expected results that do not"):
        CHECKS["_writable"](Device(), [("a", A, "bf16"), ("b", turned, "bf16")], [], {})


def shared(made: Module) -> dict[tuple[str, str], str]:
    """What the launch says that results and inputs may share."""
    calls = (n for n in ast.walk(ast.parse(made.text)) if isinstance(n, ast.Call))
    (call,) = (c for c in calls if ast.unparse(c.func) == "_writable")
    found: dict[tuple[str, str], str] = ast.literal_eval(call.args[3])
    return found


@cache
def written(name: str) -> Module:
    match name:
        case "softmax":
            return module(library.get("softmax").group("q").diagram, {"g_q": 1})
        case "streamed softmax":
            return module(
                library.get("softmax").stream("x", passes=2).group("q").diagram, {"g_q": 16, "g_x": 16, "s_x": 16}
            )
        case "attention":
            return module(unproved(library.get("attention").diagram, "x", "q"), {"g_q": 64, "s_x": 64})
        case "parts":
            form = unproved(library.get("attention").diagram, "x", "q", parts="x")
            return module(form, {"g_q": 64, "s_x": 64, "p_x": 4})
        case "two results":
            both = cd.algorithm("q x -> q x, q x", name="both")(lambda B: (B * 2, cd.exp(B)))
            return module(both.group("q").diagram, {"g_q": 16})
        case "turned":
            turned = cd.algorithm("q x, x q -> q x", name="turned")(lambda B, C: B + cd.rearrange(C, "x q -> q x"))
            return module(turned.group("q").diagram, {"g_q": 16})
    raise AssertionError(name)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("softmax", {("out", "A"): "all"}),  # a program reads its rows, then writes them
        ("streamed softmax", {("out", "A"): "all"}),  # the kernel before reads too
        ("attention", {("out", "Q"): "all"}),
        ("parts", {("out", "Q"): "any", ("out", "K"): "any", ("out", "V"): "any"}),  # the second kernel reads states
        ("two results", {}),  # what one result takes the place of may be read for the other
        ("turned", {("out", "B"): "all"}),
    ],
)
def test_memory_is_shared_where_programs_read_only_what_they_write_later(
    name: str, wanted: dict[tuple[str, str], str]
) -> None:
    made = written(name)
    names = {a.name: n for n, a in zip("ABC", made.inputs)} if len(made.inputs) == 1 else {}
    assert {(out, names.get(a, a)): kind for (out, a), kind in shared(made).items()} == wanted
