"""What catdiag finds in a module of PyTorch, without changing it: regions, and bytes moved eagerly and as planned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catdiag.importers.torch_export import operation_of
from catdiag.integrations.graph_regions import MOVES_NOTHING, Region, bytes_of, counted, imported, replaced
from catdiag.integrations.torch_backend import export_quietly, within_total


@dataclass(frozen=True)
class ModuleReport:
    """The regions of a module, the operations that are in none, and the bytes that all operations read and write."""

    regions: tuple[Region, ...]
    others: tuple[str, ...]
    eager_bytes: int

    def lines(self) -> Iterator[str]:
        """What it says, a line for each region."""
        yield from (str(region) for region in self.regions)
        if self.others:
            yield f"in no region: {len(self.others)} ({counted(self.others)})"
        taken = [r for r in self.regions if r.taken and r.plan is not None]
        total = f"{self.eager_bytes:,} bytes moved eagerly"
        if taken:
            planned = self.eager_bytes - sum(r.eager_bytes - r.plan.hbm_bytes for r in taken if r.plan is not None)
            total += f", {planned:,} with the regions that are taken as they are planned"
        yield total


def module_report(
    module: Any, example: Sequence[Any], kwargs: Mapping[str, Any], chip: str | None, limit: float | None
) -> ModuleReport:
    """The report of a module or function on an example: of regions that are planned for a chip, or of those that are
    programs here, without one. Planning may take `limit` seconds for all regions together. Raises CatdiagError where
    the module cannot be exported, or writes to what it is given."""
    graph = export_quietly(module, example, kwargs)
    calls = [n for n in graph.graph.nodes if n.op == "call_function" and operation_of(n) not in MOVES_NOTHING]
    total = sum(bytes_of(n) for n in calls)

    def known(region: Region) -> bool:
        imported(region)
        region.taken = region.program is not None
        region.reason = region.reason or "it is a program here; a chip says whether it is quicker"
        return region.taken

    decide = known if chip is None else within_total(chip, limit)
    rest, regions = replaced(graph, decide, lambda region: _stands_for)
    left = [n for n in rest.graph.nodes if n.op == "call_function" and n.target is not _stands_for]
    names = [operation_of(n) for n in left]
    return ModuleReport(tuple(regions), tuple(n for n in names if n not in MOVES_NOTHING), total)


def _stands_for(*arrays: Any) -> Any:
    """In a graph that is read only: the call of a region."""
    raise NotImplementedError
