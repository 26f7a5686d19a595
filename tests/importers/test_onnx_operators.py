"""Each operator of ONNX that is imported means what ONNX's reference evaluator computes, in float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import catdiag as cd
from tests.importers.inputs import integers, positive, real

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402


def model(
    nodes: Sequence[Any], inputs: Mapping[str, Any], constants: Mapping[str, Any], outputs: Sequence[str] = ("y",),
    dims: Mapping[str, Sequence[Any]] | None = None, opset: int = 23,
) -> Any:  # fmt: skip
    """A model of these nodes; `dims` are symbolic shapes of inputs."""
    graph = helper.make_graph(
        nodes,
        "model",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), (dims or {}).get(n, a.shape))
            for n, a in inputs.items()
        ],
        [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def compare(made: Any, inputs: Mapping[str, Any], error: float = 1e-10) -> cd.Program:
    """Asserts that the program of a model gives what the reference evaluator does; gives the program."""
    program = cd.from_onnx(made, *inputs.values())
    found = program.run(*map(np.asarray, program.example.arrays), sizes=program.example.sizes)
    wanted = ReferenceEvaluator(made).run(None, dict(inputs))
    found = found if isinstance(found, tuple) else (found,)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert np.shape(one) == np.shape(other)
        np.testing.assert_allclose(np.asarray(one, float), np.asarray(other, float), rtol=error, atol=error / 100)
    return program


A, B, P, T = real(3, 4), real(4, 5), positive(3, 4), real(3, 4) > 0
UNARY = (
    "Abs", "Neg", "Exp", "Sin", "Cos", "Tan", "Sinh", "Cosh", "Tanh", "Sigmoid", "Erf", "Floor", "Ceil", "Round",
    "Sign", "Relu", "LeakyRelu", "Elu", "Celu", "Selu", "HardSigmoid", "HardSwish", "Mish", "Softplus", "Softsign",
    "ThresholdedRelu", "Identity", "Softmax", "LogSoftmax", "Gelu", "IsNaN",
)  # fmt: skip
NARROW = dict.fromkeys(
    ("Erf", "LeakyRelu", "Selu", "HardSigmoid", "HardSwish", "Gelu", "GroupNormalization", "Attention"), 2e-6
)  # fmt: skip
"""Operators of which the reference evaluator has an attribute, or computes, in 32 bits."""
Case = tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]
"""An operator, the arrays that are inputs, those that are constants (in the order of `inputs` then these), and
attributes."""
i64 = np.int64
CASES: list[Case] = [
    ("Log", {"a": P}, {}, {}), ("Sqrt", {"a": P}, {}, {}), ("Reciprocal", {"a": P}, {}, {}), ("Not", {"a": T}, {}, {}),
    ("Gelu", {"a": A}, {}, {"approximate": "tanh"}), ("PRelu", {"a": A}, {"s": real(4)}, {}),
    *[(n, {"a": A, "b": real(4)}, {}, {}) for n in ("Add", "Sub", "Mul", "Div", "Equal", "Less", "GreaterOrEqual")],
    *[(n, {"a": T, "b": T[::-1].copy()}, {}, {}) for n in ("And", "Or", "Xor", "Equal")],
    *[(n, {"a": A, "b": real(4), "c": real(3, 1)}, {}, {}) for n in ("Max", "Min", "Sum")],
    ("Div", {"a": integers(0, 9, 5) - 4}, {"b": i64(3)}, {}), ("Mod", {"a": integers(0, 9, 5)}, {"b": i64(3)}, {}),
    ("Pow", {"a": A}, {"e": np.float64(3)}, {}), ("Pow", {"a": P}, {"e": np.float64(0.3)}, {}),
    ("Pow", {"a": P, "e": A}, {}, {}), ("Where", {"c": T, "a": A, "b": real(4)}, {}, {}),
    ("Clip", {"a": A}, {"low": np.float64(-0.5), "high": np.float64(0.25)}, {}),
    ("Cast", {"a": 3 * A}, {}, {"to": TensorProto.INT64}), ("Cast", {"a": T}, {}, {"to": TensorProto.DOUBLE}),
    ("MatMul", {"a": real(2, 3, 4), "b": B}, {}, {}), ("MatMul", {"a": real(4), "b": B}, {}, {}),
    ("Gemm", {"a": A.T.copy(), "b": B.T.copy(), "c": real(5)}, {},
     {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0}),
    ("Einsum", {"a": A, "b": B}, {}, {"equation": "ij,jk->ki"}),
    ("Softmax", {"a": A}, {}, {"axis": 0}), ("Transpose", {"a": real(2, 3, 4)}, {}, {"perm": [2, 0, 1]}),
    ("Transpose", {"a": A}, {}, {}), ("Flatten", {"a": real(2, 3, 4)}, {}, {"axis": 2}),
    ("Reshape", {"a": real(2, 3, 4)}, {"s": np.array([0, -1, 2])}, {}),
    ("Reshape", {"a": A}, {"s": np.array([-1])}, {}),
    ("Unsqueeze", {"a": A}, {"x": np.array([0, -1])}, {}), ("Squeeze", {"a": real(1, 3, 1)}, {"x": np.array([0])}, {}),
    ("Expand", {"a": real(3, 1)}, {"s": np.array([2, 1, 4])}, {}), ("Tile", {"a": A}, {"n": np.array([2, 1])}, {}),
    ("Concat", {"a": A, "b": real(2, 4)}, {}, {"axis": 0}),
    ("Slice", {"a": real(5, 7)}, {"s": np.array([1, -3]), "e": np.array([4, 99]), "x": np.array([0, 1])}, {}),
    ("Slice", {"a": real(5, 6)}, {"s": np.array([1]), "e": np.array([9]), "x": np.array([-1]), "d": np.array([2])}, {}),
    ("Slice", {"a": real(5)}, {"s": np.array([-1]), "e": np.array([-9]), "x": np.array([0]), "d": np.array([-1])}, {}),
    ("Gather", {"a": A, "i": integers(0, 3, 2, 5)}, {}, {}), ("Gather", {"a": A}, {"i": i64(-1)}, {"axis": 1}),
    ("Gather", {"a": A}, {"i": np.array([2, 0])}, {"axis": 1}),
    ("GatherElements", {"a": A, "i": integers(0, 4, 3, 2)}, {}, {"axis": 1}),
    ("Pad", {"a": A}, {"p": np.array([0, 1, 2, 0]), "v": np.float64(1.5)}, {}),
    ("Pad", {"a": A}, {"p": np.array([1, 2]), "v": np.float64(0), "x": np.array([-1])}, {}),
    ("Trilu", {"a": real(4, 5)}, {"k": i64(1)}, {"upper": 1}), ("Trilu", {"a": real(4, 5)}, {}, {"upper": 0}),
    ("OneHot", {"i": integers(0, 5, 3)}, {"n": i64(5), "v": np.array([0.0, 2.0])}, {}),
    *[(n, {"a": real(2, 3, 4)}, {"x": np.array([0, -1])}, {"keepdims": k}) for k, n in enumerate(
        ("ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp")) for k in (k % 2,)],
    ("ReduceMax", {"a": A}, {}, {}), ("ReduceMin", {"a": A}, {"x": np.array([1])}, {"keepdims": 0}),
    ("ReduceProd", {"a": A}, {"x": np.array([0])}, {}), ("ReduceLogSum", {"a": P}, {"x": np.array([0])}, {}),
    ("ReduceSum", {"a": A}, {}, {"noop_with_empty_axes": 1}),
    ("ArgMax", {"a": A}, {}, {"axis": 1, "keepdims": 0}), ("ArgMin", {"a": A}, {}, {}),
    ("CumSum", {"a": A}, {"x": i64(1)}, {}), ("CumSum", {"a": A}, {"x": i64(0)}, {"reverse": 1}),
    ("LayerNormalization", {"a": real(2, 3, 4)}, {"w": real(4), "b": real(4)}, {}),
    ("LayerNormalization", {"a": real(2, 3, 4)}, {"w": real(3, 4)}, {"axis": 1, "epsilon": 1e-3}),
    ("RMSNormalization", {"a": A}, {"w": real(4)}, {"epsilon": 1e-6}),
    ("GroupNormalization", {"a": real(2, 6, 5)}, {"w": real(6), "b": real(6)}, {"num_groups": 3}),
    ("BatchNormalization", {"a": real(2, 3, 4)}, {n: positive(3) for n in "wbmv"}, {}),
    ("Conv", {"a": real(2, 3, 9)}, {"w": real(5, 3, 2), "b": real(5)}, {"pads": [1, 0], "strides": [2]}),
    ("Conv", {"a": real(2, 4, 9)}, {"w": real(4, 1, 3)}, {"group": 4, "dilations": [2]}),
    ("Conv", {"a": real(1, 3, 8, 12)}, {"w": real(5, 3, 4, 4)}, {"strides": [4, 4]}),
    ("MaxPool", {"a": real(1, 2, 8)}, {}, {"kernel_shape": [2], "strides": [2]}),
    ("AveragePool", {"a": real(1, 2, 8)}, {}, {"kernel_shape": [2], "strides": [2]}),
    ("GlobalAveragePool", {"a": real(1, 2, 3, 5)}, {}, {}),
    ("Attention", {"q": real(2, 4, 5, 6), "k": real(2, 2, 7, 6), "v": real(2, 2, 7, 3)}, {}, {}),
    ("Attention", {"q": real(2, 5, 12), "k": real(2, 5, 6), "v": real(2, 5, 6)}, {},
     {"q_num_heads": 4, "kv_num_heads": 2, "is_causal": 1, "scale": 0.3}),
    ("Attention", {"q": real(2, 4, 5, 6), "k": real(2, 4, 7, 6), "v": real(2, 4, 7, 3), "m": real(5, 7)}, {}, {}),
    ("RotaryEmbedding", {"x": real(2, 3, 5, 8), "c": real(2, 5, 4), "s": real(2, 5, 4)}, {}, {}),
    ("RotaryEmbedding", {"x": real(2, 3, 5, 8), "c": real(7, 2), "s": real(7, 2), "i": integers(0, 7, 2, 5)}, {},
     {"rotary_embedding_dim": 4, "interleaved": 1}),
    ("RotaryEmbedding", {"x": real(2, 5, 24), "c": real(2, 5, 4), "s": real(2, 5, 4)}, {}, {"num_heads": 3}),
]  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_functions(name: str) -> None:
    compare(model([helper.make_node(name, ["a"], ["y"])], {"a": A}, {}), {"a": A}, NARROW.get(name, 1e-10))


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda k: f"{k}-{CASES[k][0]}")
def test_operators(number: int) -> None:
    name, inputs, constants, attributes = CASES[number]
    made = model([helper.make_node(name, [*inputs, *constants], ["y"], **attributes)], inputs, constants)
    compare(made, inputs, NARROW.get(name, 1e-10))


def test_operators_with_several_results() -> None:
    a = real(3, 6)
    for name, more, attributes in (
        ("Split", {}, {"num_outputs": 2, "axis": 1}), ("Split", {"n": np.array([4, 2])}, {"axis": 1}),
        ("TopK", {"k": np.array([2])}, {}),
    ):  # fmt: skip
        node = helper.make_node(name, ["a", *more], ["y", "z"], **attributes)
        compare(model([node], {"a": a}, more, ("y", "z")), {"a": a})


def test_a_cache_of_attention() -> None:
    inputs = {n: real(2, 3, t, 4) for n, t in (("q", 2), ("k", 2), ("v", 2), ("pk", 5), ("pv", 5))}
    node = helper.make_node("Attention", ["q", "k", "v", "", "pk", "pv"], ["y", "nk", "nv"])
    compare(model([node], inputs, {}, ("y", "nk", "nv")), inputs)


def test_shapes_that_are_computed_are_of_sizes() -> None:
    """A reshape to lengths that the model computes, positions up to a length, and a division by a size."""
    node = helper.make_node
    nodes = [
        node("Shape", ["a"], ["s"]), node("Gather", ["s", "one"], ["t"]), node("Gather", ["s", "zero"], ["b"]),
        node("Unsqueeze", ["b", "axis"], ["b1"]), node("Concat", ["b1", "rest"], ["target"], axis=0),
        node("Range", ["zero", "t", "one"], ["at"]), node("Cast", ["at"], ["position"], to=TensorProto.DOUBLE),
        node("Cast", ["t"], ["length"], to=TensorProto.DOUBLE), node("Div", ["position", "length"], ["part"]),
        node("Add", ["a", "part"], ["moved"]), node("Reshape", ["moved", "target"], ["y"]),
    ]  # fmt: skip
    constants = {"zero": i64(0), "one": i64(1), "axis": np.array([0]), "rest": np.array([-1])}
    made = model(nodes, {"a": real(2, 7)}, constants, dims={"a": ["batch", "length"]})
    program = compare(made, {"a": real(2, 7)})
    assert str(program) == "model: [batch length] → [batch length]"
    other = real(3, 4)
    (wanted,) = ReferenceEvaluator(made).run(None, {"a": other})
    np.testing.assert_allclose(program.run(other), wanted, rtol=1e-12)


def test_lengths_that_nobody_gives_are_chosen_apart() -> None:
    made = model(
        [helper.make_node("MatMul", ["a", "w"], ["y"])], {"a": A}, {"w": real(4, 35)}, dims={"a": ["n", 4]}
    )  # fmt: skip
    program = cd.from_onnx(made)
    assert program.example.sizes["n"] == 11 and program.names == ("a", "w")
    assert cd.from_onnx(made, sizes={"n": 3}, names={"w": "k out"}).example.sizes == {"n": 3, "k": 4, "out": 35}


@pytest.mark.parametrize(
    ("name", "inputs", "constants", "attributes"),
    [
        ("Flatten", {"a": real(2, 3, 4)}, {}, {"axis": -1}),
        ("OneHot", {"a": np.array([0, 2, -1, -3])}, {"depth": i64(3), "values": np.array([5.0, 7.0])}, {"axis": 0}),
        ("Cast", {"a": np.array([3.0, 200.0, -129.0])}, {}, {"to": TensorProto.INT8}),
        ("ReduceSumSquare", {"a": real(2, 3)}, {}, {"noop_with_empty_axes": 1}),
        ("ReduceLogSum", {"a": positive(2, 3)}, {"axes": np.array([], dtype=np.int64)}, {"noop_with_empty_axes": 1}),
    ],
)
def test_corners(name: str, inputs: Any, constants: Any, attributes: Any) -> None:
    """Axes and indices from the end, integers of few bits, and reductions over no axis."""
    node = helper.make_node(name, [*inputs, *constants], ["y"], **attributes)
    compare(model([node], inputs, constants), inputs)


def test_an_empty_slice_is_refused() -> None:
    node = helper.make_node("Slice", ["a", "from", "to"], ["y"])
    with pytest.raises(cd.errors.NotImported, match="which is empty"):
        cd.from_onnx(model([node], {"a": A}, {"from": np.array([3]), "to": np.array([2])}))


def test_two_models_are_run_after_a_verdict() -> None:
    def added(weight: Any, *nodes: Any) -> Any:
        return cd.from_onnx(model([helper.make_node("Add", ["a", "w"], ["b"]), *nodes], {"a": A}, {"w": weight}), A)

    twice, once = helper.make_node("Add", ["b", "b"], ["y"]), helper.make_node("Identity", ["b"], ["y"])
    theorem = cd.prove(added(B[0, :4], twice), added(B[1, :4], twice))
    assert theorem.verdict == "proved" and not theorem.notes
    with pytest.raises(cd.Refuted):
        cd.prove(added(B[0, :4], twice), added(B[0, :4], once))
    beyond = added(B[0, :4], once).example.original([A, B[0, :4]])  # type: ignore[union-attr]
    np.testing.assert_allclose(beyond[0].value, A + B[0, :4])


def test_what_is_refused_is_listed() -> None:
    nodes = [helper.make_node("Det", ["a"], ["b"], name="one"), helper.make_node("NonZero", ["b"], ["y"], name="two")]
    with pytest.raises(cd.errors.NotImported) as raised:
        cd.from_onnx(model(nodes, {"a": A}, {}))
    assert "onnx.Det has no rule [one]" in str(raised.value) and "onnx.NonZero has no rule [two]" in str(raised.value)
    with pytest.raises(cd.errors.NotImported, match="opset 12: expected 13"):
        cd.from_onnx(model([helper.make_node("Relu", ["a"], ["y"])], {"a": A}, {}, opset=12))
    with pytest.raises(cd.errors.NotImported, match="takes a model or the path of one, not int"):
        cd.from_onnx(3)
