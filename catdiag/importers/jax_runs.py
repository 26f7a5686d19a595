"""What was imported from JAX, run by JAX on other arrays than those of the example."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from catdiag.importers.example import NotRun, Result


@dataclass(frozen=True)
class JaxRun:
    """A function of the leaves of its arguments: called with arrays in place of the inputs of its program.

    `places` are, of each input, the position among the leaves, or the name of a constant that the function closes over.
    `arrays` are the inputs of the example.
    """

    function: Callable[..., Any]
    places: Sequence[int | str]
    arrays: Sequence[Any]

    def __call__(self, arrays: Sequence[Any]) -> list[Result]:
        """Its results on NumPy arrays, one for each input. Raises NotRun, saying why it has none."""
        import numpy as np

        jax = import_module("jax")
        leaves: dict[int, Any] = {}
        for place, array, known in zip(self.places, arrays, self.arrays, strict=True):
            if isinstance(place, int):
                leaves[place] = _like(known, array)
            elif not np.array_equal(array, np.asarray(known).astype(array.dtype)):
                raise NotRun("a constant of the program holds other numbers than these")
        try:
            # As a whole: an operation by itself is compiled at each shape.
            found = jax.jit(self.function)(*(leaves[k] for k in range(len(leaves))))
        except Exception as error:  # of many kinds, the user's among them
            raise NotRun(f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}") from error
        return [_result(jax, leaf) for leaf in jax.tree_util.tree_leaves(found)]


def _like(known: Any, array: Any) -> Any:
    """An array of the type of one of the example; a number of Python stays one, whose type gives way to arrays'."""
    import numpy as np

    if isinstance(known, (bool, int, float)):
        return type(known)(array.item())
    return np.asarray(array).astype(known.dtype)


def _result(jax: Any, value: Any) -> Result:
    """A result as a NumPy array, with what its type rounds to."""
    import numpy as np

    if jax.numpy.issubdtype(value.dtype, jax.numpy.complexfloating):
        return Result(np.asarray(value).astype(np.complex128), float(jax.numpy.finfo(value.dtype).eps))
    real = jax.numpy.issubdtype(value.dtype, jax.numpy.floating)
    return Result(np.asarray(value).astype(np.float64), float(jax.numpy.finfo(value.dtype).eps) if real else 0.0)
