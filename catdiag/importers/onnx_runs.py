"""What was imported from ONNX, run by ONNX's reference evaluator on other arrays than those of the example."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from catdiag.importers.example import NotRun, Result


@dataclass(frozen=True)
class OnnxRun:
    """A model: called with arrays in place of the inputs of its program, `names` in the model: what is passed in, and
    initializers. `arrays` are those of the example."""

    model: Any
    names: Sequence[str]
    arrays: Sequence[Any]

    def __call__(self, arrays: Sequence[Any]) -> list[Result]:
        """Its results on NumPy arrays, one for each input. Raises NotRun, saying why it has none."""
        import numpy as np

        onnx = import_module("onnx")
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        kinds = [np.asarray(known).dtype for known in self.arrays]
        given = {n: np.asarray(a).astype(kind) for n, a, kind in zip(self.names, arrays, kinds, strict=True)}
        initial = {tensor.name: tensor for tensor in model.graph.initializer}
        for name in initial.keys() & given.keys():
            initial[name].CopyFrom(onnx.numpy_helper.from_array(given.pop(name), name))
        try:
            evaluator = import_module("onnx.reference").ReferenceEvaluator(model)
            with np.errstate(all="ignore"):
                found = evaluator.run(None, given)
        except Exception as error:  # of many kinds, those of NumPy among them
            raise NotRun(f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}") from error
        return [_result(np.asarray(value)) for value in found]


def _result(value: Any) -> Result:
    import numpy as np

    real = value.dtype.kind == "f"
    return Result(value.astype(np.float64), float(np.finfo(value.dtype).eps) if real else 0.0)
