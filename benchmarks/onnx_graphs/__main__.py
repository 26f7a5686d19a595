"""Which ONNX graphs are imported, and whether they give what onnxruntime does.

    python -m benchmarks.onnx_graphs [PAGE]

writes docs/results/onnx_graphs.md. Needs `pip install 'catdiag[torch,onnx]' onnxruntime onnxscript`; nothing is
downloaded, no GPU is needed. With `--check` it writes nothing, and fails where a program gives other numbers.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch

import catdiag as cd
from benchmarks.onnx_graphs import operators
from benchmarks.onnx_graphs.exported import MODELS

ROOT = Path(__file__).resolve().parents[2]
PAGE = Path("docs/results/onnx_graphs.md")
EQUAL, REFUSED, DIFFERENT = "equal", "refused", "different"
Found = tuple[str, str]
"""What became of a graph, and why."""


def exported(name: str) -> operators.Graph:
    """A model of PyTorch as torch.onnx.export writes it, and the arrays of its example."""
    module, example = MODELS[name]()
    made = torch.onnx.export(module, example, dynamo=True, opset_version=20, verbose=False).model_proto
    return made, [a.numpy() for a in example]


def graphs() -> dict[str, Callable[[], operators.Graph]]:
    """All graphs: those that PyTorch exports, then those of operators."""
    return {**{n: lambda n=n: exported(n) for n in MODELS}, **operators.GRAPHS}  # type: ignore[misc]


def outcome(model: Any, arrays: list[Any]) -> Found:
    """Whether a model is imported and gives what onnxruntime does, and the first line of why not."""
    try:
        program = cd.from_onnx(model, *arrays)
        given = [np.asarray(a, float) if np.asarray(a).dtype.kind == "f" else a for a in program.example.arrays]
        found = program.run(*given, sizes=program.example.sizes)
    except cd.errors.CatdiagError as error:
        lines = [line.strip() for line in str(error).replace(f"{ROOT}/", "").splitlines()]
        return REFUSED, "; ".join(line for line in lines[1:-1] or lines[:1])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, dict(zip((v.name for v in session.get_inputs()), arrays, strict=True)))
    found = found if isinstance(found, tuple) else (found,)
    same = len(found) == len(wanted) and all(
        np.shape(a) == np.shape(b) and np.allclose(np.asarray(a, float), np.asarray(b, float), rtol=1e-4, atol=1e-5)
        for a, b in zip(found, wanted, strict=True)
    )
    return (EQUAL, "") if same else (DIFFERENT, "")


def page(found: dict[str, Found]) -> str:
    """The page, of what became of each graph."""
    counts = Counter(verdict for verdict, _ in found.values())
    said = ", ".join(f"{n} {verdict}" for verdict, n in counts.most_common())
    return "\n".join([
        "# ONNX graphs",
        "",
        "Made by `python -m benchmarks.onnx_graphs`: small models as `torch.onnx.export` writes them, then graphs of",
        "single operators, imported as in [Import an ONNX model](../how-to/import_from_onnx.md). *Equal* gives what",
        "onnxruntime does, to 1e-4 of 32-bit numbers; *refused* says why.",
        "",
        f"{len(found)} graphs: {said}.",
        "",
        "| graph | outcome | why |",
        "|---|---|---|",
        *(f"| {name} | {verdict} | {why.replace('|', '/')} |" for name, (verdict, why) in found.items()),
        "",
    ])  # fmt: skip


def main(arguments: list[str]) -> int:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    found = {}
    for name, make in graphs().items():
        found[name] = outcome(*make())
        print(name, *found[name], file=sys.stderr, flush=True)
    if "--check" not in arguments:
        (Path(arguments[0]) if arguments else PAGE).write_text(page(found))
    return int(any(verdict == DIFFERENT for verdict, _ in found.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
