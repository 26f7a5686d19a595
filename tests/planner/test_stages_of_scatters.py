"""Stages of programs with scatter-adds: where they may be cut."""

from __future__ import annotations

from typing import Any

import catdiag as cd
from catdiag.planner.graph_segments import StageSequence


def names(program: cd.Program) -> list[list[str]]:
    row = StageSequence(program.diagram)
    return [[row.graph.nodes[place].box.name for place in stage] for stage in row.stages]


def test_what_is_made_of_a_sum_of_rows_is_a_stage_of_its_own() -> None:
    added = cd.algorithm("int[t], t d, v -> v d")(
        lambda ids, G, like: cd.exp(cd.sum(cd.where(cd.index("v") == ids, G, 0), "t"))
    )
    summed = cd.algorithm("v t d -> v d")(lambda G: cd.exp(cd.sum(G, "t")))
    assert names(added)[-1] == ["exp"] and names(summed)[-1] == ["sum[t]", "exp"]


def test_conditions_of_inputs_are_made_again_where_they_are_read() -> None:
    def twice(ids: Any, G: Any, H: Any, like: Any) -> Any:
        hit = cd.index("v") == ids
        return tuple(cd.sum(cd.where(hit, a, 0), "t") for a in (G, H))

    stages = names(cd.algorithm("int[t], t d, t d, v -> v d, v d")(twice))
    assert not any("eq" in stage for stage in stages)
