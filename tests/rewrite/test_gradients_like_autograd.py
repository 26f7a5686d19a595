"""Gradients against PyTorch's autograd in float64, of functions written in both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import catdiag as cd

torch = pytest.importorskip("torch")
F = torch.nn.functional


def norm_rows(x: Any) -> Any:
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5)


# For each function: its signature, itself, what it is in PyTorch, and the shapes of its arrays.
PAIRS: dict[str, tuple[str, Callable[..., Any], Callable[..., Any], list[tuple[int, ...]]]] = {
    "softmax": ("q x", lambda a: cd.softmax(a, "x"), lambda a: torch.softmax(a, -1), [(3, 5)]),
    "log softmax": ("q x", lambda a: a - cd.library.log_sum_exp(a), lambda a: torch.log_softmax(a, -1), [(3, 5)]),
    "amax with ties": ("q x", lambda a: cd.max(a * 0 + cd.floor(a), "x") + cd.max(a, "x"),
                       lambda a: (a * 0 + torch.floor(a)).amax(-1) + a.amax(-1), [(3, 5)]),
    "amax over axes with ties": (
        "a b c", lambda a: cd.max(cd.floor(a) + a * 0, "a b c") + cd.min(a - a + cd.round(a), "c a"),
        lambda a: (torch.floor(a) + a * 0).amax((0, 1, 2)) + (a - a + torch.round(a)).amin((0, 2)), [(2, 3, 4)]),
    "gelu": ("x", lambda a: cd.nn.gelu(a), F.gelu, [(7,)]),
    "silu": ("x", lambda a: cd.nn.silu(a), F.silu, [(7,)]),
    "softplus": ("x", lambda a: cd.nn.softplus(a), F.softplus, [(7,)]),
    "relu at 0": ("x", lambda a: cd.nn.relu(a - a) + a, lambda a: torch.relu(a - a) + a, [(7,)]),
    "tanh": ("x", lambda a: cd.tanh(a) * cd.sin(a) + cd.cos(a), lambda a: torch.tanh(a) * torch.sin(a) + torch.cos(a),
             [(7,)]),
    "prod": ("q x", lambda a: cd.prod(a, "x"), lambda a: a.prod(-1), [(3, 4)]),
    "RMS norm": ("t d, d", lambda x, g: x / cd.sqrt(cd.mean(x * x, "d") + 1e-5) * g, lambda x, g: norm_rows(x) * g,
                 [(3, 4), (4,)]),
    "layer norm": ("t d, d, d", lambda x, g, b: cd.library.layer_norm(x, g, b, 1e-5),
                   lambda x, g, b: F.layer_norm(x, (4,), g, b, 1e-5), [(3, 4), (4,), (4,)]),
    "flipped and padded": ("x", lambda a: cd.pad(cd.reverse(a * a, "x"), "x", 2, 1),
                           lambda a: F.pad((a * a).flip(0), (2, 1)), [(5,)]),
    "attention": ("h q d, h x d, h x d", lambda Q, K, V: cd.einsum(
        "h q x, h x d -> h q d", cd.softmax(cd.einsum("h q d, h x d -> h q x", Q, K) / cd.sqrt(cd.size("d")), "x"), V),
        F.scaled_dot_product_attention, [(2, 3, 4), (2, 5, 4), (2, 5, 4)]),
    "distances": ("q d, x d", lambda a, b: cd.sum((a - b) ** 2, "d"),
                  lambda a, b: ((a[:, None] - b[None]) ** 2).sum(-1),
                  [(3, 2), (4, 2)]),
    "elu": ("x", lambda a: cd.nn.elu(a), F.elu, [(7,)]),
    "maximum of equal numbers": (
        "x, x", lambda a, b: cd.maximum(a - a, b - b) * 3 + cd.minimum(b * 0, a * 0)
        + cd.maximum(a, b) * cd.minimum(a, b),
        lambda a, b: torch.maximum(a - a, b - b) * 3 + torch.minimum(b * 0, a * 0)
        + torch.maximum(a, b) * torch.minimum(a, b), [(7,), (7,)]),
    "clip at arrays": ("x, x", lambda a, b: cd.clip(a - a, b - b, b * b) * a + cd.clip(a, b, b + 1) ** 2,
                       lambda a, b: (a - a).clamp(b - b, b * b) * a + a.clamp(b, b + 1) ** 2, [(7,), (7,)]),
    "clip": ("x", lambda a: cd.clip(a, -0.5, 0.5) ** 2, lambda a: a.clamp(-0.5, 0.5) ** 2, [(9,)]),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_gradients_are_those_of_autograd(name: str) -> None:
    signature, ours, theirs, shapes = PAIRS[name]
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape) for shape in shapes]
    tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
    out = theirs(*tensors)
    cotangent = rng.normal(size=tuple(out.shape))
    expected = torch.autograd.grad(out, tensors, torch.tensor(cotangent))
    found = cd.algorithm(signature)(ours).grad().run(*arrays, cotangent)
    for a, b in zip(found if isinstance(found, tuple) else (found,), expected, strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-10, atol=1e-12)


# Functions that have a derivative at 0, or the subgradient 0 in PyTorch, though a root of what is 0 has none.
ROOTS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "norm": (lambda a: cd.sqrt(cd.sum(a * a, "x")), lambda a: a.norm(dim=1)),
    "norm beside others": (lambda a: a / (1 + cd.sqrt(cd.einsum("q x, q x -> q", a, a))),
                           lambda a: a / (1 + a.norm(dim=1, keepdim=True))),
    "standard deviation": (lambda a: cd.sqrt(cd.sum((a - cd.mean(a, "x")) ** 2, "x") / (cd.size("x") - 1)),
                           lambda a: a.std(1)),
    "powers": (lambda a: cd.abs(a) ** 1.5 + (a * a) ** 2.5, lambda a: a.abs() ** 1.5 + (a * a) ** 2.5),
}  # fmt: skip


@pytest.mark.parametrize("name", ROOTS)
def test_gradients_of_roots_are_those_of_autograd_where_they_are_zero(name: str) -> None:
    ours, theirs = ROOTS[name]
    program = cd.algorithm("q x")(ours)
    array = np.array([[0.0, 0.0, 0.0], [0.0, -0.5, 2.0]])
    tensor = torch.tensor(array, requires_grad=True)
    out = theirs(tensor)
    cotangent, tangent = np.random.default_rng(0).normal(size=tuple(out.shape)), np.ones((2, 3))
    (expected,) = torch.autograd.grad(out, tensor, torch.tensor(cotangent))
    np.testing.assert_allclose(program.grad().run(array, cotangent), expected.numpy(), rtol=1e-10, atol=1e-12)
    pushed = (program.jvp().run(array, tangent) * cotangent).sum()
    np.testing.assert_allclose(pushed, (expected.numpy() * tangent).sum())


def test_a_norm_that_is_only_divided_by_has_no_case_at_zero() -> None:
    assert "where" not in cd.algorithm("x")(lambda a: a / cd.sqrt(cd.sum(a * a, "x"))).grad().code("pseudocode")


def test_second_derivatives_have_values_where_rows_are_masked_whole() -> None:
    def ours(Q: Any, K: Any, V: Any, M: Any) -> Any:
        weights = cd.softmax(cd.where(M, cd.einsum("q d, x d -> q x", Q, K), -cd.inf), "x")
        return cd.where(cd.any(M, "x"), cd.einsum("q x, x d -> q d", weights, V), 0)

    rng = np.random.default_rng(0)
    mask = np.array([[1, 0, 1, 1], [0, 0, 0, 0], [0, 1, 1, 0]]) > 0
    arrays = [rng.normal(size=shape) for shape in ((3, 2), (4, 2), (4, 2))]
    Q, K, V = tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
    some = torch.tensor(mask.any(-1, keepdims=True))
    scores = (Q @ K.T).masked_fill(~torch.tensor(mask), -torch.inf).masked_fill(~some, 0.0)
    out = torch.where(some, torch.softmax(scores, -1) @ V, 0.0)
    cotangent = rng.normal(size=(3, 2))
    first = torch.autograd.grad(out, tensors, torch.tensor(cotangent), create_graph=True)
    again = [rng.normal(size=a.shape) for a in arrays]
    expected = torch.autograd.grad(first, tensors, [torch.tensor(a) for a in again])
    program = cd.algorithm("q d, x d, x d, bool[q x] -> q d")(ours).grad(wrt="Q K V")
    found = program.grad(wrt="Q K V").run(*arrays, mask, cotangent, *again)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-9, atol=1e-11)


MODULES: dict[str, tuple[Callable[[], Any], list[tuple[int, ...]]]] = {
    "convolution": (lambda: torch.nn.Conv2d(2, 3, 3, padding=1, stride=2), [(1, 2, 6, 6)]),
    "max pool": (lambda: torch.nn.MaxPool2d(2), [(1, 2, 4, 4)]),
    "encoder layer": (lambda: torch.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), [(2, 3, 4)]),
}


@pytest.mark.parametrize("name", MODULES)
def test_gradients_of_imported_modules_are_those_of_autograd(name: str) -> None:
    make, shapes = MODULES[name]
    torch.manual_seed(0)
    module = make().double().train()
    rng = np.random.default_rng(1)
    inputs = [torch.tensor(rng.normal(size=shape), requires_grad=True) for shape in shapes]
    program = cd.from_torch(module, *[x.detach() for x in inputs])
    out = module(*inputs)
    cotangent = rng.normal(size=tuple(out.shape))
    torch.autograd.backward(out, torch.tensor(cotangent))
    example, parameters = program.example, dict(module.named_parameters())
    arrays = [a.detach().numpy() if isinstance(a, torch.Tensor) else a for a in example.arrays]
    shape = program.run(*arrays, sizes=example.sizes).shape
    found = program.grad().run(*arrays, cotangent.reshape(shape), sizes=example.sizes)
    found = found if isinstance(found, tuple) else (found,)
    real = [source for source, ty in zip(example.sources, program.dom, strict=True) if ty.element == "real"]
    for got, source in zip(found, real, strict=True):
        leaf = inputs[source] if isinstance(source, int) else parameters[source]
        np.testing.assert_allclose(got.ravel(), leaf.grad.numpy().ravel(), rtol=1e-9, atol=1e-11)


def test_a_product_with_a_logarithm_has_a_derivative_where_it_is_zero() -> None:
    a, b = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in ([0.0, 2.0, 0.0], [3.0, 0.5, 1.0]))
    program = cd.from_torch(torch.xlogy, a.detach(), b.detach())
    wanted = torch.autograd.grad(torch.xlogy(a, b).sum(), (a, b))
    found = program.grad().run(a.detach().numpy(), b.detach().numpy(), np.ones(3))
    for got, gradient in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, gradient.numpy())
    assert program.run(np.zeros(1), np.zeros(1)) == [0]


def test_derivatives_of_imported_programs_have_the_sizes_of_the_example() -> None:
    x = torch.randn(1, 4, 2, 2, dtype=torch.float64)
    function = cd.from_torch(lambda a: F.pixel_shuffle(a, 2) ** 2, x)
    tangent = torch.randn(1, 4, 2, 2, dtype=torch.float64)
    _, wanted = torch.func.jvp(lambda a: F.pixel_shuffle(a, 2) ** 2, (x,), (tangent,))
    np.testing.assert_allclose(function.jvp().run(x.numpy(), tangent.numpy()), wanted.numpy())


def test_a_cotangent_that_is_at_one_position_is_summed_without_a_loop() -> None:
    both = cd.library.cross_entropy.forward_and_backward()
    assert not both.theorem.conditional
    written = cd.Program(both.backward).code("pseudocode")
    assert "Σ" not in written and "where(0 ≤ label, where(label < v, " in written
    rng = np.random.default_rng(0)
    scores, labels, cotangent = rng.normal(size=(4, 5)), np.array([0, 4, 2, 2]), rng.normal(size=4)
    tensor = torch.tensor(scores, requires_grad=True)
    F.cross_entropy(tensor, torch.tensor(labels), reduction="none").backward(torch.tensor(cotangent))
    found = cd.library.cross_entropy.grad().run(scores, labels, cotangent)
    np.testing.assert_allclose(found, tensor.grad.numpy(), rtol=1e-10, atol=1e-12)


def test_gradients_of_halves_read_the_other_half_and_sum_nothing() -> None:
    """The rotation of pairs as models write it: halves of an axis concatenated in the other order."""

    def rotated(a: Any, cos: Any, sin: Any) -> Any:
        half = a.shape[-1] // 2
        return a * cos + torch.cat([-a[..., half:], a[..., :half]], -1) * sin

    given = [torch.randn(*shape, dtype=torch.float64) for shape in ((2, 5, 8), (5, 8), (5, 8))]
    back = cd.from_torch(rotated, *given).grad(wrt=[0])
    assert "Σ" not in back.code("pseudocode")
    tensor, cotangent = given[0].requires_grad_(), torch.randn(2, 5, 8, dtype=torch.float64)
    (wanted,) = torch.autograd.grad(rotated(tensor, *given[1:]), tensor, cotangent)
    found = back.run(*(a.detach().numpy() for a in given), cotangent.numpy())
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-12, atol=1e-12)


def test_powers_by_arrays_have_values_and_derivatives_where_the_base_is_zero() -> None:
    class Power(torch.nn.Module):  # type: ignore[misc, unused-ignore]
        def forward(self, base: Any, exponent: Any) -> Any:
            return base**exponent

    arrays = np.array([0.0, 0.0, 0.0, 0.5, 2.0, 3.0]), np.array([2.0, 0.0, 1.5, 1.3, -1.0, 0.0])
    tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
    program = cd.from_torch(Power(), *(t.detach() for t in tensors))
    out = Power()(*tensors)
    np.testing.assert_allclose(program.run(*arrays), out.detach().numpy())
    expected = torch.autograd.grad(out, tensors, torch.ones_like(out))
    for a, b in zip(program.grad().run(*arrays, np.ones(6)), expected, strict=True):
        np.testing.assert_allclose(a, b.numpy(), atol=1e-12)
