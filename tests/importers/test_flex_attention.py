"""FlexAttention: functions of scores and positions are read as what they compute of all scores."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
flex = pytest.importorskip("torch.nn.attention.flex_attention")

import catdiag as cd  # noqa: E402

attend = torch.nn.functional.scaled_dot_product_attention
QUERY, KEY, VALUE = torch.randn(2, 4, 5, 16), torch.randn(2, 4, 7, 16), torch.randn(2, 4, 7, 16)


def scored(score: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return lambda q, k, v: flex.flex_attention(q, k, v, score_mod=score, **options)


def causal(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    return torch.where(j <= i, s, -math.inf)


def run_as_torch(function: Any, *arrays: Any) -> Any:
    """The program, which gives what PyTorch gives."""
    program = cd.from_torch(function, *arrays)
    wide = [a.double() if a.is_floating_point() else a for a in program.example.arrays]
    found = program.run(*wide, sizes=program.example.sizes)
    module = function.double() if isinstance(function, torch.nn.Module) else function
    wanted = module(*(a.double() if a.is_floating_point() else a for a in arrays))
    found, wanted = ([*x] if isinstance(x, tuple) else [x] for x in (found, wanted))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one), other.detach().numpy(), rtol=1e-9, atol=1e-9)
    return program


@pytest.mark.parametrize(
    "score",
    [causal, lambda s, b, h, i, j: 20 * torch.tanh(s / 20), lambda s, b, h, i, j: s + (j - i) * 2.0 ** -(h + 1)],
    ids=["causal", "capped", "alibi"],
)
def test_functions_of_scores_are_applied_to_all(score: Any) -> None:
    run_as_torch(scored(score), QUERY, KEY, VALUE)


def test_a_parameter_is_read_at_positions_and_heads_of_keys_are_shared() -> None:
    class Biased(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.bias = torch.nn.Parameter(torch.randn(4, 12))

        def forward(self, q: Any, k: Any, v: Any) -> Any:
            return flex.flex_attention(
                q, k, v, score_mod=lambda s, b, h, i, j: s + self.bias[h, i - j + 7], enable_gqa=True
            )

    program = run_as_torch(Biased(), QUERY, KEY[:, :2], VALUE[:, :2])
    assert "bias" in program.names


def test_a_mask_of_documents_makes_no_lists_of_blocks() -> None:
    def function(q: Any, k: Any, v: Any, document: Any) -> Any:
        mask = flex.create_block_mask(
            lambda b, h, i, j: (document[b, i] == document[b, j]) & (j <= i), 2, None, 128, 128, device="cpu"
        )
        return flex.flex_attention(q, k, v, block_mask=mask)

    arrays = [torch.randn(2, 3, 128, 16) for _ in range(3)]
    program = run_as_torch(function, *arrays, torch.randint(0, 3, (2, 128)))
    text = program.code("algorithm")
    assert "sort" not in text and 'cd.index("k_2") <= cd.index("q_2")' in text


def test_logarithms_of_sums_are_given() -> None:
    run_as_torch(scored(causal, return_lse=True), QUERY, KEY, VALUE)


def test_it_is_proved_to_be_attention_and_told_apart() -> None:
    example = QUERY, KEY[:, :, :5], VALUE[:, :, :5]
    cd.testing.assert_equivalent(scored(causal), lambda q, k, v: attend(q, k, v, is_causal=True), example=example)
    with pytest.raises(AssertionError, match="is false"):
        cd.testing.assert_equivalent(scored(causal), lambda q, k, v: attend(q, k, v), example=example)
