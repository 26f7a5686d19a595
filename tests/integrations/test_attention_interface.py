"""Attention of transformers by catdiag: models give what they give with PyTorch's own."""

from __future__ import annotations

import warnings
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from catdiag.errors import CatdiagError
from catdiag.integrations.attention_interface import PlannedAttention, register

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


def arrays(queries: int = 64, keys: int = 64) -> tuple[Any, ...]:
    return torch.randn(2, 4, queries, 16), torch.randn(2, 2, keys, 16), torch.randn(2, 2, keys, 16)


def expected(query: Any, key: Any, value: Any, mask: Any = None, **options: Any) -> Any:
    attend = torch.nn.functional.scaled_dot_product_attention
    return attend(query, key, value, mask, enable_gqa=True, **options).transpose(1, 2)


@pytest.mark.parametrize("queries", [64, 1])
def test_on_the_cpu_it_is_pytorchs(queries: int) -> None:
    attention, given = PlannedAttention("h200"), arrays(queries)
    found, weights = attention(SimpleNamespace(is_causal=True, num_key_value_groups=2), *given, scaling=0.5)
    torch.testing.assert_close(found, expected(*given, is_causal=queries > 1, scale=0.5))
    assert weights is None and not attention.known


def test_each_combination_of_shapes_is_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    attention, given = PlannedAttention("h200"), arrays()
    monkeypatch.setattr(PlannedAttention, "_runs_on", lambda self, device: True)
    module = SimpleNamespace(is_causal=True, num_key_value_groups=2)
    with torch.no_grad(), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            found, _ = attention(module, *given)
    assert len([w for w in said if "runs in PyTorch" in str(w.message) and "no GPU" in str(w.message)]) == 1
    torch.testing.assert_close(found, expected(*given, is_causal=True))
    (planned,) = attention.known.values()
    assert planned.plan is not None and not planned.theorem.vacuous
    attention(module, given[0].requires_grad_(), *given[1:])
    attention(module, *given, dropout=0.1)
    with pytest.raises(ValueError, match="softcap"):
        attention(module, *given, softcap=30.0)
    assert len(attention.known) == 1


def test_an_unknown_chip_is_named_when_it_is_registered() -> None:
    with pytest.raises(CatdiagError, match="unknown hardware 'h900'"):
        register("h900")


def test_a_model_of_transformers_calls_it() -> None:
    transformers = import_module("transformers")
    register(name="catdiag_test")
    sizes = {"vocab_size": 53, "hidden_size": 24, "intermediate_size": 22, "num_hidden_layers": 1}
    config = transformers.LlamaConfig(**sizes, num_attention_heads=6, num_key_value_heads=3, head_dim=8)
    model = transformers.LlamaForCausalLM(config).eval()
    ids, mask = torch.randint(0, 53, (2, 7)), torch.tensor([[1] * 7, [0, 0, *[1] * 5]])
    results = []
    for name in ("sdpa", "catdiag_test"):
        model.set_attn_implementation(name)
        with torch.no_grad():
            results.append(model(input_ids=ids, attention_mask=mask).logits)
    torch.testing.assert_close(*results)
