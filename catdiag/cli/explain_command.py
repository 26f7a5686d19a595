"""`catdiag explain`: what is found in a module of PyTorch, which is only read."""

from __future__ import annotations

from catdiag.chip import hardware
from catdiag.cli.exit_status import require_limit
from catdiag.cli.operator_loading import arguments, module
from catdiag.cli.standard_streams import working


def run_explain(name: str, example: str, on: str | None, limit: float | None) -> None:
    """Prints the report of a module. Raises CatdiagError for wrong use, and where it cannot be exported."""
    from catdiag.integrations.module_report import module_report

    require_limit(limit)
    chip = None if on is None else hardware.get(on).name
    found, given = module(name), arguments(example)
    with working("reading"):
        report = module_report(found, given, {}, chip, limit)
    for line in report.lines():
        print(line)
