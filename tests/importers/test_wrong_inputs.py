"""What people hand to importers by mistake: one error that names it, the user's line, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import catdiag as cd

torch = pytest.importorskip("torch")
jax, onnx = pytest.importorskip("jax"), pytest.importorskip("onnx")
nn, jnp = torch.nn, jax.numpy
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
X = torch.randn(2, 6)


@dataclass
class Both:
    one: Any
    other: Any


def branching(a: Any) -> Any:
    return a if a.sum() > 0 else -a


def several(a: Any) -> Any:
    b = torch.special.bessel_j0(a)
    return b + torch.special.bessel_j1(a)


def chosen(a: Any) -> Any:
    return torch.cond(a.sum() > 0, torch.sin, torch.cos, (a,))


def scaled(a: Any, *, scale: Any) -> Any:
    return a * scale


def line_of(function: Any, after: int) -> str:
    return f"inputs.py:{function.__code__.co_firstlineno + after}]"


FROM_TORCH: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "names as a list": (lambda: cd.from_torch(nn.ReLU(), X, names=["b t"]), ["names is ['b t']", "axes by input"]),
    "a class": (lambda: cd.from_torch(nn.ReLU, X), ["not the class ReLU: make one"]),
    "no example": (lambda: cd.from_torch(nn.ReLU()), ["could not export ReLU on ()", "an example of each argument"]),
    "an array of NumPy": (lambda: cd.from_torch(nn.ReLU(), np.ones((2, 3))), ["(ndarray [2, 3])", "torch.from_numpy"]),
    "a keyword left out": (lambda: cd.from_torch(scaled, X), ["'scale'", "kwargs="]),
    "a branch on values": (lambda: cd.from_torch(branching, X), ["torch.where", "return a if a.sum() > 0"]),
    "torch.cond": (lambda: cd.from_torch(chosen, X), ["control flow on values", "torch.where", line_of(chosen, 1)]),
    "two unknown operations": (
        lambda: cd.from_torch(several, X),
        ["bessel_j0 has no rule", line_of(several, 1), "bessel_j1 has no rule", line_of(several, 2)],
    ),
    "training": (lambda: cd.from_torch(nn.BatchNorm1d(6), X), ["'running_mean' is written", "module.eval() first"]),
    "dynamic as text": (lambda: cd.from_torch(nn.ReLU(), X, dynamic="yes"), ["dynamic is True, None, or"]),
    "other widths": (
        lambda: cd.from_torch(nn.Linear(7, 4), X),
        ["PyTorch does not run Linear on ([2, 6])", "2x6 and 7x4"],
    ),
    "a tuple": (lambda: cd.from_torch(nn.ReLU(), (X,)), ["does not run", "one after the other"]),
    "TorchScript": (
        lambda: cd.from_torch(torch.jit.script(nn.Linear(6, 4)), X),
        ["import the module that it was made"],
    ),
    "a nested tensor": (
        lambda: cd.from_torch(nn.ReLU(), torch.nested.nested_tensor([X, X[:1]])),
        ["NestedTensor", "a padded one and a mask"],
    ),
    "a result in a dataclass": (lambda: cd.from_torch(lambda x: Both(x, x), X), ["register_dataclass"]),
}
FROM_JAX: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "a branch on values": (lambda: cd.from_jax(branching, jnp.ones(3)), ["jnp.where", "return a if a.sum() > 0"]),
    "NumPy": (lambda: cd.from_jax(lambda a: np.linalg.inv(a), jnp.ones((3, 3))), ["jax.numpy", "np.linalg.inv(a)"]),
    "truth values": (lambda: cd.from_jax(lambda a: a[a > 0], jnp.ones(3)), ["length depends on values", "a[a > 0]"]),
    "a number": (lambda: cd.from_jax(3, jnp.ones(3)), ["a function of arrays, not 3"]),
    "a tensor": (lambda: cd.from_jax(jnp.exp, X), ["is [2, 6], and no array of JAX or NumPy", "a.numpy()"]),
    "a complex array": (lambda: cd.from_jax(jnp.exp, jnp.ones(3) + 1j), ["'x' is complex", "as a.real and a.imag"]),
    "no result": (lambda: cd.from_jax(lambda a: None, jnp.ones(3)), ["returns no array: expected one"]),
    "a number of an array": (lambda: cd.from_jax(lambda a: a * float(a[0]), jnp.ones(3)), ["as an array of no dim"]),
    "a count": (
        lambda: cd.from_jax(lambda a, n: sum(a for _ in range(n)), jnp.ones(3), 2),
        ["range(n)", "functools.partial"],
    ),
    "a long scan": (
        lambda: cd.from_jax(lambda a: jax.lax.scan(lambda c, r: (c + r, c), 0.0, a)[1], jnp.ones(99)),
        ["a scan of 99 steps: expected 64 at most", "jnp.cumsum"],
    ),
    "dynamic as text": (lambda: cd.from_jax(jnp.exp, jnp.ones(3), dynamic="yes"), ["dynamic is 'yes': expected True"]),
}


def relu(*inputs: list[Any], operation: str = "Relu", **attributes: Any) -> Any:
    """A model of one node, with inputs of these shapes."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    given = [helper.make_tensor_value_info(f"x{k}", kind, shape) for k, shape in enumerate(inputs)]
    node = helper.make_node(operation, [v.name for v in given], ["y"], "this one", **attributes)
    graph = helper.make_graph([node], "g", given, [helper.make_tensor_value_info("y", kind, inputs[0])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


FROM_ONNX: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "no file": (lambda: cd.from_onnx("none.onnx"), ["'none.onnx' cannot be read: No such file"]),
    "another file": (lambda: cd.from_onnx(Path(__file__)), ["is no ONNX model"]),
    "another length": (lambda: cd.from_onnx(relu(["n", 3]), ones(2, 4)), ["[n, 3], the example [2, 4]: expected 3"]),
    "another rank": (lambda: cd.from_onnx(relu(["n", 3]), ones(2, 3, 4)), ["[n, 3], the example [2, 3, 4]"]),
    "two lengths": (
        lambda: cd.from_onnx(relu(["n"], ["n"], operation="Add"), ones(2), ones(5)),
        ["'x1' has shape [n], the example [5]: expected 2 for n"],
    ),
    "another size": (
        lambda: cd.from_onnx(relu(["n", 3]), sizes={"m": 2}),
        ["no dimension is called 'm': expected of n"],
    ),
    "a size of none": (lambda: cd.from_onnx(relu(["n", 3]), sizes={"n": 0}), ["'n' is 0: expected a positive integer"]),
    "a dict": (
        lambda: cd.from_onnx(relu([2, 3]), {"x0": ones(2, 3)}),
        ["'x0' is an array of float32, the example a dict"],
    ),
    "integers": (lambda: cd.from_onnx(relu([2, 3]), np.ones((2, 3), int)), ["of float32, the example one of int64"]),
    "an axis": (lambda: cd.from_onnx(relu([2, 3], operation="Softmax", axis=7)), ["this one", "must be in [-2 , 1]"]),
    "an order": (lambda: cd.from_onnx(relu([2, 3], operation="Transpose", perm=[0, 1, 2])), ["this one", "perm"]),
    "an input left out": (lambda: cd.from_onnx(relu([2, 3], operation="Where")), ["this one", "input size 1"]),
    "an attribute left out": (
        lambda: cd.from_onnx(relu([2, 3], operation="Concat")),
        ["'axis' is missing", "this one"],
    ),
    "lengths that differ": (
        lambda: cd.from_onnx(relu([2, 3], [4, 5], operation="MatMul")),
        ["Incompatible dimensions", "this one"],
    ),
}


@pytest.mark.parametrize(
    "case",
    [*FROM_TORCH.values(), *FROM_JAX.values(), *FROM_ONNX.values()],
    ids=[*FROM_TORCH, *(f"{n} in JAX" for n in FROM_JAX), *FROM_ONNX],
)
def test_an_error_says_what_is_wrong_and_where(case: tuple[Callable[[], Any], list[str]]) -> None:
    with pytest.raises(cd.errors.NotImported) as caught:
        case[0]()
    for words in case[1]:
        assert words in str(caught.value)
    assert "test_wrong_inputs.py:" in str(caught.value)


def test_keywords_of_a_module_are_passed_by_name() -> None:
    for importer in (cd.from_torch, cd.from_jax):
        with pytest.raises(cd.errors.TypeMismatch, match=r"no option 'scale': .* in kwargs=\{'scale': …\}"):
            importer(scaled, X, scale=X)


def test_nothing_is_printed_beside_the_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(cd.errors.NotImported):
        cd.from_torch(branching, X)
    assert capfd.readouterr() == ("", "")


def test_modules_that_are_no_programs_are_pointed_to_their_comparison() -> None:
    with pytest.raises(cd.errors.TypeMismatch, match="assert_equivalent compares two PyTorch modules"):
        cd.prove(nn.ReLU(), nn.ReLU())


def test_tensors_that_require_gradients_are_run() -> None:
    program = cd.from_torch(nn.Linear(6, 4), X)
    assert program.run(*program.example.arrays).shape == (2, 4)


ON_NAMED_AXES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a length": (lambda a: len(a) * a, r"has no length: cd\.size"),
    "an axis by number": (lambda a: a.sum(axis=1), r"a\.sum\(\) over axis 1: axes have names"),
    "a reduction of a ufunc": (lambda a: np.add.reduce(a), r"np\.add\.reduce does not work .* cd\.sum"),
    "a function of a module": (lambda a: np.linalg.norm(a), r"np\.linalg\.norm does not work"),
    "a length to split by": (lambda a: cd.rearrange(a, "i j -> j i", i=3), r'declare the input .*"\(i=3 d\)"'),
}


@pytest.mark.parametrize("case", ON_NAMED_AXES.values(), ids=ON_NAMED_AXES)
def test_what_named_axes_do_not_have(case: tuple[Callable[[Any], Any], str]) -> None:
    with pytest.raises(cd.errors.CatdiagError, match=case[1]):
        cd.algorithm("i j -> i j")(case[0])
