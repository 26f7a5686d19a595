"""Architectures of transformers, each with one layer or two and random weights; nothing is downloaded.

Lengths are those of small models, all unlike each other where the architecture allows it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers as tf

BATCH, TOKENS, WORDS = 2, 128, 512
WIDTH = {"vocab_size": WORDS, "hidden_size": 192, "intermediate_size": 320, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 3}
GROUPED = {"num_attention_heads": 6, "num_key_value_heads": 3}
IMAGE = {"image_size": 32, "patch_size": 4}
Made = tuple[Any, dict[str, Any]]
MODELS: dict[str, Callable[[], Made]] = {}


def words(tokens: int = TOKENS) -> Any:
    return torch.randint(0, WORDS, (BATCH, tokens))


def image(size: int = 32) -> Any:
    return torch.randn(BATCH, 3, size, size)


def _made(kind: Any, config: Any) -> Any:
    for implementation in ("sdpa", "eager"):
        try:
            return kind.from_config(config, attn_implementation=implementation)
        except ValueError:  # an architecture without the one or the other
            continue
    raise ValueError(f"{type(config).__name__} has no attention that is known")


def causal(name: str, config: str, **options: Any) -> None:
    MODELS[name] = lambda: (
        _made(tf.AutoModelForCausalLM, getattr(tf, config)(**options)),
        {"input_ids": words(), "use_cache": False},
    )


def base(name: str, config: str, given: Callable[[], dict[str, Any]], **options: Any) -> None:
    MODELS[name] = lambda: (_made(tf.AutoModel, getattr(tf, config)(**options)), given())


def of_words() -> dict[str, Any]:
    return {"input_ids": words()}


def of_images() -> dict[str, Any]:
    return {"pixel_values": image()}


causal("Llama", "LlamaConfig", **WIDTH, **GROUPED, head_dim=64)
causal("GPT-2", "GPT2Config", vocab_size=WORDS, n_embd=192, n_layer=1, n_head=3, n_positions=256)
base("BERT", "BertConfig", of_words, **WIDTH, **HEADS, max_position_embeddings=256)
base("ViT", "ViTConfig", of_images, hidden_size=192, intermediate_size=320, num_hidden_layers=1, **HEADS, **IMAGE)
causal(
    "Mamba-2", "Mamba2Config", vocab_size=WORDS, hidden_size=192, num_hidden_layers=1, num_heads=6, head_dim=64,
    state_size=32, n_groups=2, chunk_size=TOKENS, expand=2,
)  # fmt: skip
causal("Gemma-2", "Gemma2Config", **{**WIDTH, "num_hidden_layers": 2}, **GROUPED, head_dim=64, sliding_window=32)
causal("Qwen2", "Qwen2Config", **WIDTH, **GROUPED)
causal("Qwen3", "Qwen3Config", **WIDTH, **GROUPED, head_dim=64)
causal(
    "Mixtral", "MixtralConfig", **WIDTH, **GROUPED, num_local_experts=4, num_experts_per_tok=2,
    experts_implementation="batched_mm",
)  # fmt: skip
causal(
    "DeepSeek-V3", "DeepseekV3Config", **WIDTH, **HEADS, num_key_value_heads=3, kv_lora_rank=48, q_lora_rank=80,
    qk_rope_head_dim=32, qk_nope_head_dim=64, v_head_dim=64, first_k_dense_replace=1,
)  # fmt: skip
causal("RWKV", "RwkvConfig", vocab_size=WORDS, hidden_size=192, num_hidden_layers=2, context_length=256)
causal(
    "OPT", "OPTConfig", vocab_size=WORDS, hidden_size=192, ffn_dim=320, num_hidden_layers=1, **HEADS,
    max_position_embeddings=256,
)  # fmt: skip
causal("GPT-NeoX", "GPTNeoXConfig", **WIDTH, **HEADS, max_position_embeddings=256)
causal("Falcon", "FalconConfig", vocab_size=WORDS, hidden_size=192, num_hidden_layers=1, **HEADS)
causal("Phi-3", "Phi3Config", **WIDTH, **GROUPED, pad_token_id=0)
base("DINOv2", "Dinov2Config", of_images, hidden_size=192, num_hidden_layers=1, **HEADS, **IMAGE)
base("ConvNeXt", "ConvNextConfig", of_images, hidden_sizes=[48, 80], depths=[1, 1], num_stages=2, patch_size=4)
base("ResNet", "ResNetConfig", of_images, embedding_size=48, hidden_sizes=[64, 80], depths=[1, 1])
base(
    "Swin", "SwinConfig", of_images, image_size=32, patch_size=2, embed_dim=48, depths=[2], num_heads=[3],
    window_size=4,
)  # fmt: skip
MODELS["T5 encoder"] = lambda: (
    tf.T5EncoderModel(tf.T5Config(vocab_size=WORDS, d_model=192, d_kv=64, d_ff=320, num_layers=1, num_heads=3)),
    of_words(),
)
MODELS["CLIP text"] = lambda: (
    tf.CLIPTextModel(tf.CLIPTextConfig(**WIDTH, **HEADS, max_position_embeddings=256, eos_token_id=2)),
    of_words(),
)
MODELS["SAM vision"] = lambda: (
    tf.SamVisionModel(
        tf.SamVisionConfig(
            hidden_size=192, num_hidden_layers=1, num_attention_heads=3, window_size=4, global_attn_indexes=[],
            output_channels=64, **IMAGE,
        )
    ),
    of_images(),
)  # fmt: skip
MODELS["Whisper"] = lambda: (
    tf.WhisperModel(
        tf.WhisperConfig(
            vocab_size=WORDS, d_model=192, encoder_layers=1, decoder_layers=1, encoder_attention_heads=3,
            decoder_attention_heads=3, encoder_ffn_dim=320, decoder_ffn_dim=256, num_mel_bins=80,
            max_source_positions=64, max_target_positions=256, pad_token_id=0, bos_token_id=1, eos_token_id=2,
            decoder_start_token_id=1,
        )
    ),
    {"input_features": torch.randn(BATCH, 80, 128), "decoder_input_ids": words(96), "use_cache": False},
)  # fmt: skip
causal("BLOOM", "BloomConfig", vocab_size=WORDS, hidden_size=192, n_layer=1, n_head=3)
causal("GPT-J", "GPTJConfig", vocab_size=WORDS, n_embd=192, n_layer=1, n_head=3, rotary_dim=16, n_positions=256)
causal("MPT", "MptConfig", vocab_size=WORDS, d_model=192, n_layers=1, n_heads=3, max_seq_len=256)
causal("StableLM", "StableLmConfig", **WIDTH, **GROUPED)
causal("Cohere", "CohereConfig", **WIDTH, **GROUPED, pad_token_id=0)
causal("OLMo-2", "Olmo2Config", **WIDTH, **GROUPED, pad_token_id=0)
causal("Granite", "GraniteConfig", **WIDTH, **GROUPED)
causal("Mamba", "MambaConfig", vocab_size=WORDS, hidden_size=96, num_hidden_layers=1, state_size=8)
base(
    "DistilBERT", "DistilBertConfig", of_words, vocab_size=WORDS, dim=192, hidden_dim=320, n_layers=1, n_heads=3,
    max_position_embeddings=256,
)  # fmt: skip
base("ELECTRA", "ElectraConfig", of_words, **WIDTH, **HEADS, embedding_size=64, max_position_embeddings=256)
base("ALBERT", "AlbertConfig", of_words, **WIDTH, **HEADS, embedding_size=64, max_position_embeddings=256)
base(
    "DeBERTa-v2", "DebertaV2Config", of_words, **WIDTH, **HEADS, relative_attention=True, pos_att_type=["p2c", "c2p"],
    position_buckets=32, max_position_embeddings=256,
)  # fmt: skip
base(
    "ModernBERT", "ModernBertConfig", of_words, **{**WIDTH, "num_hidden_layers": 2}, **HEADS, pad_token_id=0,
    local_attention=32, max_position_embeddings=256,
)  # fmt: skip
base(
    "Gemma-3", "Gemma3TextConfig", of_words, **{**WIDTH, "num_hidden_layers": 2}, **GROUPED, head_dim=64,
    sliding_window=32,
)  # fmt: skip
base("DeiT", "DeiTConfig", of_images, hidden_size=192, intermediate_size=320, num_hidden_layers=1, **HEADS, **IMAGE)
base(
    "CLIP vision", "CLIPVisionConfig", of_images, hidden_size=192, intermediate_size=320, num_hidden_layers=1, **HEADS,
    **IMAGE,
)  # fmt: skip
base(
    "Wav2Vec2", "Wav2Vec2Config", lambda: {"input_values": torch.randn(BATCH, 4000)}, **WIDTH, **HEADS,
    conv_dim=[32, 48], conv_stride=[5, 2], conv_kernel=[10, 3], num_feat_extract_layers=2, num_conv_pos_embeddings=16,
    num_conv_pos_embedding_groups=4,
)  # fmt: skip
base(
    "Perceiver", "PerceiverConfig", lambda: {"inputs": torch.randn(BATCH, 50, 64)}, num_latents=40, d_latents=96,
    d_model=64, num_self_attends_per_block=1, num_self_attention_heads=4, num_cross_attention_heads=4, num_blocks=1,
)  # fmt: skip


class FirstResult(torch.nn.Module):
    """A model, of whose results the first is returned."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, **named: Any) -> Any:
        return self.model(**named, return_dict=True)[0]


def architecture(name: str) -> tuple[FirstResult, dict[str, Any]]:
    """A model in float64 with random weights, in evaluation, and the arguments of a call."""
    tf.logging.set_verbosity_error()
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    model, given = MODELS[name]()
    return FirstResult(model.double()).eval(), given
