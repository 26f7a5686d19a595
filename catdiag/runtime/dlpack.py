"""Kernels on arrays of JAX: DLPack passes them to PyTorch, and results back, without a copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from catdiag.util.errors import TypeMismatch


def is_jax_array(value: Any) -> bool:
    """Whether a value is an array of JAX; JAX is not imported for it."""
    return type(value).__module__.partition(".")[0] in ("jax", "jaxlib") and hasattr(value, "dtype")


def on_tensors(function: Callable[..., Any], arrays: Sequence[Any]) -> Any:
    """What a function of tensors gives on arrays of JAX, and on tensors and numbers beside them, as arrays of JAX.

    Raises TypeMismatch where `jax.jit` traces the call: its arrays have no values then.
    """
    jax, torch = import_module("jax"), import_module("torch")
    for k, value in enumerate(arrays):
        if isinstance(value, jax.core.Tracer):
            raise TypeMismatch(
                f"argument {k + 1} is traced by jax.jit, jax.grad or jax.vmap: expected arrays with values; call the "
                "kernel outside of them"
            )
    given = [torch.from_dlpack(a) if is_jax_array(a) else a for a in arrays]
    found = function(*given)
    if isinstance(found, tuple):
        return tuple(map(jax.dlpack.from_dlpack, found))
    return jax.dlpack.from_dlpack(found)
