"""Graphs of one or a few operators of ONNX, as other exporters and converters write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Graph = tuple[Any, list[Any]]
GRAPHS: dict[str, Callable[[], Graph]] = {}
"""By name, a model and arrays to run it on."""
_RANDOM = np.random.default_rng(0)


def real(*shape: int) -> Any:
    return _RANDOM.normal(size=shape).astype(np.float32)


X, IMAGE, SEQUENCE = real(3, 4), real(2, 4, 6, 9), real(5, 2, 4)
INT = np.array([2, 0], np.int64)


def _array(name: str, kind: int, *shape: int) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def _model(
    nodes: Sequence[Any], inputs: Mapping[str, Any], constants: Mapping[str, Any], outputs: Sequence[str] = ("y",)
) -> Any:
    graph = helper.make_graph(
        list(nodes), "model",
        [_array(n, helper.np_dtype_to_tensor_dtype(a.dtype), *a.shape) for n, a in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )  # fmt: skip
    found = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]))
    found.ir_version = 9
    return found


def _add(name: str, nodes: Sequence[Any], inputs: Mapping[str, Any], **constants: Any) -> None:
    GRAPHS[name] = lambda: (_model(nodes, inputs, constants), list(inputs.values()))


def _one(operator: str, value: Any, *constants: Any, name: str = "", **attributes: Any) -> None:
    """A graph of one operator on an input and constants; None is an input that is left out."""
    names = [f"c{k}" if c is not None else "" for k, c in enumerate(constants)]
    given = {n: c for n, c in zip(names, constants, strict=True) if n}
    _add(name or operator, [helper.make_node(operator, ["x", *names], ["y"], **attributes)], {"x": value}, **given)


for _operator in ("Acos", "Asin", "Atan", "Asinh", "Atanh"):
    _one(_operator, np.tanh(X))
_one("Acosh", np.abs(X) + 1.5)
_one("BatchNormalization", IMAGE, *(np.abs(real(4)) for _ in range(4)))
_one("InstanceNormalization", IMAGE, real(4), real(4))
_one("LRN", IMAGE, size=3)
_one("MeanVarianceNormalization", IMAGE)
_one("LpNormalization", X, axis=1, p=2)
_one("DepthToSpace", IMAGE, blocksize=2)
_one("DepthToSpace", IMAGE, name="DepthToSpace by columns", blocksize=2, mode="CRD")
_one("SpaceToDepth", IMAGE, blocksize=3)
_one("ConvTranspose", IMAGE, real(4, 3, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1])
_one("Conv", IMAGE, real(3, 4, 3, 3), name="Conv with auto_pad", auto_pad="SAME_UPPER", strides=[2, 2])
_one("MaxPool", IMAGE, name="MaxPool with the ceiling", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
_one("AveragePool", IMAGE, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
_one("AveragePool", IMAGE, name="AveragePool with auto_pad", kernel_shape=[2, 2], auto_pad="SAME_UPPER")
_one("LpPool", IMAGE, kernel_shape=[2, 2])
_one("GlobalLpPool", IMAGE)
_one("Resize", IMAGE, None, np.array([1, 1, 2, 2], np.float32), name="Resize, nearest", mode="nearest",
     coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip
_one("Resize", IMAGE, None, np.array([1, 1, 2, 2], np.float32), name="Resize, linear", mode="linear",
     coordinate_transformation_mode="half_pixel")  # fmt: skip
_one("Resize", IMAGE, None, None, np.array([2, 4, 3, 3]), name="Resize to lengths", mode="linear",
     coordinate_transformation_mode="align_corners")  # fmt: skip
_one("Pad", X, np.array([1, 1, 1, 2]), name="Pad by reflection", mode="reflect")
_one("Pad", X, np.array([1, 0, 1, 2]), name="Pad by the edge", mode="edge")
_one("CumSum", X, np.array(1), name="CumSum, exclusive", exclusive=1)
_one("CumSum", X, np.array(1), name="CumSum, reversed", reverse=1)
_one("Hardmax", X, axis=1)
_one("Shrink", X, lambd=0.5, bias=0.1)
_one("EyeLike", X)
_one("GatherND", X, np.array([[2, 1], [0, 3]]))
_one("GatherElements", X, np.array([[2, 1, 0, 0]]), axis=0)
_one("ScatterND", X, np.array([[2], [0]]), real(2, 4))
_one("ScatterND", X, np.array([[2], [2]]), real(2, 4), name="ScatterND that adds", reduction="add")
_one("ScatterElements", X, np.array([[2, 1, 0, 0]]), real(1, 4), axis=0)
_one("ScatterElements", X, np.array([[2, 1, 0, 0], [2, 1, 0, 1]]), real(2, 4), name="ScatterElements that adds", axis=0,
     reduction="add")  # fmt: skip
_one("ReverseSequence", SEQUENCE, np.array([5, 3]), time_axis=0, batch_axis=1)
_one("Mod", X, np.array(0.7, np.float32), name="Mod with fmod", fmod=1)
_one("BitShift", np.array([1, 4], np.uint32), np.array([1, 2], np.uint32), direction="LEFT")
_one("Slice", X, np.array([-1]), np.array([-4]), np.array([0]), np.array([-2]), name="Slice backwards by two")
_one("ReduceLogSumExp", X, np.array([1]))
_one("ReduceL2", X, np.array([1]))
_one("Einsum", real(2, 3, 4), real(2, 4, 5), equation="bij,bjk->bik")
_one("Softmax", IMAGE, axis=1)
_one("SoftmaxCrossEntropyLoss", X, np.array([0, 3, 1]))
_one("SoftmaxCrossEntropyLoss", X, np.array([0, 3, 1]), np.abs(real(4)), name="SoftmaxCrossEntropyLoss with weights")
_one("NegativeLogLikelihoodLoss", X, np.array([0, 3, 1]))
_one("NonZero", X)
_one("Compress", X, np.array([True, False, True]), axis=0)
_one("Unique", np.array([2, 1, 1, 3], np.int64))
_one("QuantizeLinear", X, np.array(0.1, np.float32), np.array(3, np.uint8))
_one("DequantizeLinear", np.array([[3, 200]], np.uint8), np.array(0.1, np.float32), np.array(3, np.uint8))
_one("MatMulInteger", np.array([[3, 200]], np.uint8), np.array([[3], [200]], np.uint8))
_one("LSTM", SEQUENCE, real(1, 12, 4), real(1, 12, 3), real(1, 24), hidden_size=3)
_one("GRU", SEQUENCE, real(1, 9, 4), real(1, 9, 3), real(1, 18), hidden_size=3)
_one("RNN", SEQUENCE, real(1, 3, 4), real(1, 3, 3), real(1, 6), hidden_size=3)
_one("RNN", SEQUENCE, real(2, 3, 4), real(2, 3, 3), real(2, 6), name="RNN both ways", hidden_size=3,
     direction="bidirectional")  # fmt: skip
_one("Det", real(3, 3))
_one("GridSample", IMAGE, np.tanh(real(2, 3, 5, 2)), mode="linear")
_one("Col2Im", real(1, 9, 4), np.array([4, 4]), np.array([3, 3]))
_one("RoiAlign", IMAGE, np.array([[0, 0, 4, 4]], np.float32), np.array([1]), output_height=2, output_width=2)
_add("Mean", [helper.make_node("Mean", ["a", "b"], ["y"])], {"a": X, "b": real(3, 4)})
_add("a quantized product", [
    helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
    helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
    helper.make_node("MatMul", ["d", "w"], ["y"]),
], {"x": X}, s=np.array(0.1, np.float32), z=np.array(0, np.int8), w=real(4, 2))  # fmt: skip
_add("shapes computed for a reshape", [
    helper.make_node("Shape", ["x"], ["s"]),
    helper.make_node("Gather", ["s", "zero"], ["n"]),
    helper.make_node("Concat", ["n", "rest"], ["t"], axis=0),
    helper.make_node("Reshape", ["x", "t"], ["y"]),
], {"x": real(2, 3, 4)}, zero=np.array([0]), rest=np.array([-1]))  # fmt: skip
_add("a loop", [
    helper.make_node("Loop", ["count", "", "x"], ["y"], body=helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Mul", ["a", "half"], ["b"])], "body",
        [_array("k", TensorProto.INT64), _array("go", TensorProto.BOOL),
         _array("a", TensorProto.FLOAT, 3, 4)],
        [_array("on", TensorProto.BOOL), _array("b", TensorProto.FLOAT, 3, 4)],
    )),
], {"x": X}, count=np.array(3), half=np.array(0.5, np.float32))  # fmt: skip
_add("a scan", [
    helper.make_node("Scan", ["start", "x"], ["last", "y"], num_scan_inputs=1, body=helper.make_graph(
        [helper.make_node("Add", ["a", "row"], ["b"]), helper.make_node("Identity", ["b"], ["out"])], "body",
        [_array("a", TensorProto.FLOAT, 4), _array("row", TensorProto.FLOAT, 4)],
        [_array("b", TensorProto.FLOAT, 4), _array("out", TensorProto.FLOAT, 4)],
    )),
], {"x": X}, start=np.zeros(4, np.float32))  # fmt: skip
