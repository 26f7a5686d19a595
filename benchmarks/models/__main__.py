"""Which public architectures catdiag imports, runs, plans, proves and compiles.

    python -m benchmarks.models run RESULTS.json [NAME...] [--limit SECONDS] [--on CHIP]
    python -m benchmarks.models page RESULTS.json docs/results/models.md

Needs `pip install 'catdiag[torch]' transformers`; nothing is downloaded, no GPU is needed. Results are written after
each model, so that a run may be stopped and go on.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.models.page import page

_WORKER = "import sys; from benchmarks.models.worker import run; run(sys.argv[1], sys.argv[2])"


def measured(name: str, chip: str, limit: int) -> list[dict[str, Any]]:
    """The stages of a model that ended before `limit` CPU seconds were over, and which one did not."""
    done = subprocess.run(
        [sys.executable, "-c", _WORKER, name, chip],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5)),
    )
    stages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode < 0:
        stages.append({"stage": "end", "failed": f"not in {limit} CPU seconds"})
    elif done.returncode:
        stages.append({"stage": "end", "failed": "the model could not be made or exported"})
    return stages


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("results", type=Path)
    run.add_argument("names", nargs="*")
    run.add_argument("--limit", type=int, default=120)
    run.add_argument("--on", default="h200")
    made = commands.add_parser("page")
    made.add_argument("results", type=Path)
    made.add_argument("page", type=Path)
    given = parser.parse_args()
    found = json.loads(given.results.read_text()) if given.results.exists() else {"models": {}}
    if given.command == "page":
        given.page.write_text(page(found))
        return
    from benchmarks.models.architectures import MODELS

    found.update(limit=given.limit, chip=given.on)
    for name in given.names or [n for n in MODELS if n not in found["models"]]:
        found["models"][name] = measured(name, given.on, given.limit)
        given.results.write_text(json.dumps(found, indent=1) + "\n")
        print(name, found["models"][name][-1], flush=True)


if __name__ == "__main__":
    main()
