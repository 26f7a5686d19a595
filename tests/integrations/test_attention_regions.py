"""Attention as models of transformers write it: its region makes the mask itself, of positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from catdiag.integrations.graph_regions import Region, exported, imported, replaced
from catdiag.integrations.region_operator import operator_of
from catdiag.integrations.torch_backend import plan_region

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
BATCH, TOKENS, HEADS, WIDTH = 2, 64, 3, 16


class Layer(torch.nn.Module):
    """Two attentions with one mask: causal, of one sequence in a row, and of tokens that are no padding."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = torch.nn.ModuleList(torch.nn.Linear(HEADS * WIDTH, 3 * HEADS * WIDTH) for _ in range(2))
        self.out = torch.nn.Linear(HEADS * WIDTH, HEADS * WIDTH)

    def forward(self, x: Any, keep: Any) -> Any:
        at = torch.arange(x.shape[1]).unsqueeze(0).expand(x.shape[0], -1)
        sequence = (torch.diff(at, prepend=at[:, :1] - 1, dim=-1) != 1).cumsum(-1)
        row = torch.arange(x.shape[0])[:, None, None, None]
        query, key = torch.arange(x.shape[1])[None, None, :, None], torch.arange(x.shape[1])[None, None, None, :]
        mask = (sequence[row, query] == sequence[row, key]) & keep.bool()[row, key] & (key <= query)
        for project in self.qkv:
            q, k, v = (a.unflatten(2, (HEADS, WIDTH)).transpose(1, 2) for a in project(x).split(HEADS * WIDTH, 2))
            made = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            x = self.out(made.transpose(1, 2).reshape(x.shape))
        return x


def found(decide: Callable[[Region], bool]) -> tuple[Any, tuple[Any, ...], Any]:
    """A model, what it takes, and its graph in which the regions of attention are taken for which `decide` holds."""
    torch.manual_seed(0)
    model = Layer().eval()
    keep = torch.ones(BATCH, TOKENS, dtype=torch.long)
    keep[1, 40:] = 0
    given = (torch.randn(BATCH, TOKENS, HEADS * WIDTH), keep)

    def decided(region: Region) -> bool:
        region.taken = "." in region.name and "scaled_dot_product_attention" in region.operations and decide(region)
        return region.taken

    with torch.no_grad():
        made, _ = replaced(
            exported(model, given), decided, lambda region: operator_of(region, reference=True, check=True)
        )
    return model, given, made


def test_a_region_makes_its_mask_of_positions_and_of_the_tokens_that_are_no_padding() -> None:
    regions: list[Region] = []

    def decide(region: Region) -> bool:
        plan_region(imported(region), "H200", None)
        regions.append(region)
        return region.program is not None

    model, given, made = found(decide)
    (region,) = regions  # the second layer's is equal
    assert sorted(tuple(a.shape) for a in region.example) == [(BATCH, TOKENS), (BATCH, TOKENS, 3 * HEADS * WIDTH)]
    with torch.no_grad():
        assert torch.allclose(made(*given)[0], model(*given), atol=1e-5)
    plan = region.plan
    assert plan is not None and plan.module is not None and not plan.theorem.conditional
    assert "d" in plan.source.cod[0].names  # a kernel writes tiles of heads, which are merged in memory only
    sizes = plan.compile().at(sizes=plan.sizes).options  # no shape shows how many heads there are, and how wide
    assert sizes["d"] * next(size for name, size in sizes.items() if name != "d") == HEADS * WIDTH
