"""Arrays as Python expressions that evaluate to the same array, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from catdiag.prover.refute.counterexample_data import Counterexample

_SHORT = 16
"""Arrays of up to this many elements are written out even where a shorter expression exists."""


def pasted(array: Any) -> str:
    """An expression for an array: its exact values, shape and type.

    >>> pasted(np.array([[0.1, -0.0], [-np.inf, 3]], np.float32))
    'np.array([[0.1, -0.0], [-np.inf, 3.0]], dtype=np.float32)'
    >>> pasted(np.zeros((2, 3))), pasted(np.array(True)), pasted(np.ones((0, 2), np.int64))
    ('np.zeros((2, 3))', 'np.array(True)', 'np.zeros((0, 2), dtype=np.int64)')
    """
    a = np.asarray(array)
    plain = a.dtype.kind in "fiub"
    named = "" if a.dtype in (np.float64, np.bool_) else f"{'np.' if plain else 'ml_dtypes.'}{a.dtype.name}"
    kind = f", dtype={named}" if named else ""
    if a.size == 0 or (a.ndim and a.size > 1 and not a.any() and not _signed(a)):
        of = ", dtype=np.bool_" if a.dtype == np.bool_ else kind
        return f"np.zeros({a.shape}{of})"
    if a.size > _SHORT and (a == a.flat[0]).all() and not _signed(a):
        return f"np.full({a.shape}, {_number(a.flat[0])}{kind})"
    if a.size > _SHORT and a.dtype.kind != "b" and np.array_equal(a, (np.arange(a.size) % 4).reshape(a.shape)):
        shape = f".reshape({a.shape})" if a.ndim > 1 else ""
        return f"(np.arange({a.size}) % 4){shape}.astype({named or 'np.float64'})"
    return f"np.array({_nested(a)}{kind})"


def _signed(a: Any) -> bool:
    return bool(a.dtype.kind not in "iub" and np.signbit(np.asarray(a, np.float64)).any())


def _nested(a: Any) -> str:
    if a.ndim == 0:
        return _number(a[()])
    return "[" + ", ".join(_nested(part) for part in a) + "]"


def _number(x: Any) -> str:
    if isinstance(x, (bool, np.bool_, int, np.integer)):
        return str(x.item() if isinstance(x, np.generic) else x)
    value = float(x)
    if not np.isfinite(value):
        return "np.nan" if np.isnan(value) else "np.inf" if value > 0 else "-np.inf"
    kind = np.asarray(x).dtype
    # The shortest decimal that is read back as this number, in its own type where NumPy has it.
    return repr(float(str(x))) if kind in (np.float16, np.float32) else repr(value)


def counterexample(found: Counterexample) -> str:
    """A counterexample of `cd.prove` as text: the values of both sides, and its arrays to paste, rounded to floats."""
    lines = [found.verdict]
    sizes = ", ".join(f"{s}={n}" for s, n in {**found.sizes, **found.blocks}.items())
    lines.append(f"at {sizes}:" if sizes else "at:")
    lines.append(assignments(found.numpy()))
    lines += [f"    # {name} is {function}" for name, function in found.functions.items()]
    lines += [f"    # {name} = {_exact(value)}" for name, value in found.arrays.items() if "/" in _exact(value)]
    return "\n".join(line for line in lines if line)


def _exact(value: Any) -> str:
    return "[" + ", ".join(map(_exact, value)) + "]" if isinstance(value, list) else str(value)


def assignments(arrays: Mapping[str, Any]) -> str:
    """Lines that define the arrays."""
    return "\n".join(f"    {name} = {pasted(a)}" for name, a in arrays.items())
