"""The graphs of `benchmarks/onnx_graphs`: those that are imported give what onnxruntime does, others are refused."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")
import numpy as np  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402

import catdiag as cd  # noqa: E402
from benchmarks.onnx_graphs import operators  # noqa: E402
from benchmarks.onnx_graphs.__main__ import EQUAL, REFUSED, graphs, outcome  # noqa: E402
from tests.importers.test_onnx_operators import model, real  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
NOT_IMPORTED = {
    "samples of a grid", "what is not zero", "a triangle of distances", "Acos", "Asin", "Atan", "LRN",
    "MeanVarianceNormalization", "LpPool", "ReverseSequence", "BitShift", "NonZero", "Compress", "Unique", "Det",
    "GridSample", "RoiAlign",
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [n if n in operators.GRAPHS else pytest.param(n, marks=pytest.mark.slow) for n in graphs()]
)
def test_gives_what_onnxruntime_does(name: str) -> None:
    verdict, why = outcome(*graphs()[name]())
    assert verdict == (REFUSED if name in NOT_IMPORTED else EQUAL), why
    assert "has no rule [" in why or name not in NOT_IMPORTED


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
def test_recurrent_layers_from_a_state(name: str, direction: str) -> None:
    gates, ways = {"RNN": 1, "GRU": 3, "LSTM": 4}[name], 2 if direction == "bidirectional" else 1
    inputs = {"x": real(4, 2, 5)}
    shapes = {"w": (3 * gates, 5), "r": (3 * gates, 3), "b": (6 * gates,), "h": (2, 3), "c": (2, 3)}
    weights = {n: real(ways, *s) for n, s in shapes.items() if n != "c" or name == "LSTM"}
    names = ["x", "w", "r", "b", "", "h", *(["c"] if name == "LSTM" else [])]
    outputs = ("y", "last")
    options = {"linear_before_reset": 1} if name == "GRU" else {}
    node = helper.make_node(name, names, outputs, hidden_size=3, direction=direction, **options)
    made = model([node], inputs, weights, outputs)
    given = {"x": inputs["x"].astype(np.float32)}
    for tensor in made.graph.initializer:
        tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor).astype("f"), tensor.name))
    made.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT
    made.ir_version = 9
    made.opset_import[0].version = 18
    made = onnx.shape_inference.infer_shapes(made)
    program = cd.from_onnx(made, *given.values())
    found = program.run(*(np.asarray(a, float) for a in program.example.arrays), sizes=program.example.sizes)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    for one, other in zip(found, session.run(None, given), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def _body(nodes: list[object], given: list[str], results: list[str]) -> object:
    kinds = {"k": TensorProto.INT64, "go": TensorProto.BOOL, "on": TensorProto.BOOL}

    def array(name: str) -> object:
        return helper.make_tensor_value_info(name, kinds.get(name, TensorProto.DOUBLE), [] if name in kinds else [3, 4])

    return helper.make_graph(nodes, "body", [array(n) for n in given], [array(n) for n in results])


def test_a_loop_that_collects_arrays() -> None:
    steps = [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Mul", ["a", "half"], ["b"]),
             helper.make_node("Identity", ["b"], ["c"])]  # fmt: skip
    body = _body(steps, ["k", "go", "a"], ["on", "b", "c"])
    node = helper.make_node("Loop", ["count", "", "x"], ["y", "all"], body=body)
    inputs = {"x": real(3, 4)}
    constants = {"count": np.array(3), "half": np.array(0.5)}
    program = cd.from_onnx(model([node], inputs, constants, ("y", "all")), *inputs.values())
    last, collected = program.run(inputs["x"], sizes=program.example.sizes)
    np.testing.assert_allclose(last, inputs["x"] / 8)
    np.testing.assert_allclose(collected, [inputs["x"] / n for n in (2, 4, 8)])


def test_a_loop_that_depends_on_values_is_refused() -> None:
    steps = [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Mul", ["a", "a"], ["b"])]
    body = _body(steps, ["k", "go", "a"], ["on", "b"])
    node = helper.make_node("Loop", ["n", "", "x"], ["y"], body=body, name="steps")
    inputs = {"x": real(3, 4), "n": np.array(3)}
    with pytest.raises(cd.errors.NotImported, match=r"iterations depends on values: expected a constant \[steps\]"):
        cd.from_onnx(model([node], inputs, {}), *inputs.values())
