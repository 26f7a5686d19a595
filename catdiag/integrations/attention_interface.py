"""Attention of Hugging Face's transformers by kernels of catdiag: `attn_implementation="catdiag"`.

    from catdiag.integrations.attention_interface import register

    register()
    model = AutoModelForCausalLM.from_pretrained(…, attn_implementation="catdiag")

Each combination of shapes is imported and planned once, when it is first called, for the GPU that is there; the plan
has a theorem. On the CPU, in training, and where there is no plan, PyTorch's own attention is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from catdiag.chip import hardware
from catdiag.integrations.compiled_module import CompiledModule, compile_module, local_chip
from catdiag.util.errors import require

NAME = "catdiag"
_PLANS = 64
"""Combinations of shapes that are known at once; past it, PyTorch's own attention is called for new ones."""


_CHANGING = ("softcap", "position_bias", "cache", "s_aux")
"""Options that change what attention means, or where its keys are: PyTorch's own attention takes them, or refuses."""


def _function(scale: float | None, causal: bool) -> Callable[..., Any]:
    """Attention of queries over `batch keys' heads, group, length, width`, of keys and values over one group, and of a
    mask if there is one."""
    attend = import_module("torch.nn.functional").scaled_dot_product_attention

    def attention(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        return attend(query, key, value, mask, is_causal=causal, scale=scale)

    return attention


@dataclass(eq=False)
class PlannedAttention:
    """The function that transformers calls for attention: planned once for each combination of shapes and types."""

    chip: str | None = None
    known: dict[Any, CompiledModule] = field(default_factory=dict, repr=False)

    def __call__(
        self,
        module: Any,
        query: Any,
        key: Any,
        value: Any,
        attention_mask: Any = None,
        dropout: float = 0.0,
        scaling: float | None = None,
        is_causal: bool | None = None,
        **options: Any,
    ) -> tuple[Any, None]:
        """The results over `batch length heads width`, and no weights.

        `query`, `key` and `value` are over `batch heads length width`, with fewer heads of keys where queries are in
        groups; `attention_mask` is of truth values (True takes part) or is added to the scores.
        """
        asked = getattr(module, "is_causal", True) if is_causal is None else is_causal
        causal = bool(asked) and attention_mask is None and query.shape[2] > 1
        groups = query.unflatten(1, (key.shape[1], query.shape[1] // key.shape[1]))
        given = [groups, key.unsqueeze(2), value.unsqueeze(2)]
        if attention_mask is not None:
            given.append(attention_mask.unsqueeze(2))
        plain = not dropout and all(options.get(name) is None for name in _CHANGING)
        heads = attention_mask is None or attention_mask.shape[1] == 1
        function = self._planned(given, scaling, causal) if plain and heads else None
        if function is None:
            own = import_module("transformers.integrations.sdpa_attention").sdpa_attention_forward
            found: tuple[Any, None] = own(
                module, query, key, value, attention_mask, dropout, scaling, is_causal, **options
            )
            return found
        return function(*given).flatten(1, 2).transpose(1, 2).contiguous(), None

    def _planned(self, given: Sequence[Any], scale: float | None, causal: bool) -> CompiledModule | None:
        """The planned function for these arrays; None where PyTorch's own is called."""
        torch = import_module("torch")
        if not self._runs_on(given[0].device) or torch.compiler.is_compiling():
            return None
        if torch.is_grad_enabled() and any(a.requires_grad for a in given):
            return None
        key = (scale, causal, *((tuple(a.shape), a.dtype, str(a.device)) for a in given))
        if key not in self.known:
            if len(self.known) == _PLANS:
                return None
            self.known[key] = compile_module(_function(scale, causal), given, {}, self.chip or local_chip())
        found = self.known[key]
        return None if found.plan is None or found.reason else found

    def _runs_on(self, device: Any) -> bool:
        return bool(device.type == "cuda")


def register(chip: str | None = None, name: str = NAME) -> PlannedAttention:
    """Registers attention with transformers under a name; `chip` is by default that of this machine's GPU.

    Masks are made as for PyTorch's own attention. Raises ImportError without transformers, CatdiagError for an unknown
    chip, and TypeMismatch for a name that is no text.
    """
    require(isinstance(name, str), "name", name, "a text, as set_attn_implementation takes it")
    if chip is not None:
        hardware.get(chip)
    try:
        transformers = import_module("transformers")
        masks = import_module("transformers.masking_utils")
    except ImportError as error:
        raise ImportError("attention for transformers needs it: pip install transformers") from error
    made = PlannedAttention(chip)
    transformers.AttentionInterface.register(name, made)
    masks.AttentionMaskInterface.register(name, masks.sdpa_mask)
    return made
