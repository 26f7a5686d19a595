"""The page of results, docs/results/models.md: nothing on it is written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

STAGES = ("import", "run", "plan", "prove", "compile")
_HEAD = """# Public architectures

Models of transformers, one layer or two with their embedding and head, in small widths and with random weights: whether
`cd.from_torch` imports them, whether the program gives in float64 what the model gives, and whether it is planned for a
chip (here {chip}, in bf16), proved, and written for Triton. Made by

```sh
python -m benchmarks.models run RESULTS.json --limit {limit}
python -m benchmarks.models page RESULTS.json docs/results/models.md
```

Numbers behind a stage are its CPU seconds; each model has {limit} CPU seconds for all of them. The largest difference
of the results is relative to the largest result: some models compute in float32 inside.

| model | imported | boxes | runs, off by | planned | kernels | proved | Triton | what fails |
|---|---|---|---|---|---|---|---|---|
"""


def _cell(found: Mapping[str, Any] | None, text: str = "") -> str:
    if found is None:
        return "–"
    if "failed" in found:
        return "no"
    return text or f"{found['seconds']:.1f} s"


def _row(name: str, stages: Sequence[Mapping[str, Any]]) -> str:
    by = {s["stage"]: s for s in stages}
    made, run, plan, prove, text = (by.get(s) for s in STAGES)
    failed = next((s["failed"] for s in stages if "failed" in s), "")
    boxes = str(made["boxes"]) if made and "boxes" in made else "–"
    off = f"{run['difference']:.0e}, {run['seconds']:.1f} s" if run and "failed" not in run else _cell(run)
    kernels = str(plan["kernels"]) if plan and "kernels" in plan else "–"
    proved = _cell(prove, "only if" if prove and prove.get("conditional") else "yes")
    ended = [s for s in STAGES if s in by and "failed" not in by[s]]
    at = next((s for s in STAGES if s not in ended), "")
    said = f"{at}: {failed}".replace("|", "\\|") if failed and at else ""
    cells = (name, _cell(made), boxes, off, _cell(plan), kernels, proved, _cell(text, "yes"), said)
    return f"| {' | '.join(cells)} |"


def page(found: Mapping[str, Any]) -> str:
    """The page of the results of a run."""
    models = found["models"]
    rows = [_row(name, stages) for name, stages in models.items()]
    passed = {
        s: sum(any(e["stage"] == s and "failed" not in e for e in stages) for stages in models.values()) for s in STAGES
    }
    words = dict(zip(STAGES, ("imported", "run as the model does", "planned", "proved", "written"), strict=True))
    summary = ", ".join(f"{n} are {words[s]}" for s, n in passed.items())
    return _HEAD.format(**found) + "\n".join(rows) + f"\n\nOf {len(models)} models {summary}.\n"
