"""Screening at random sizes: which stationary points may be optima, and whether they may cover all sizes.

This saves work before anything is proved. Nothing is concluded from it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import sympy
from sympy import Expr, Symbol

from catdiag.optimum.active_constraints import Choice, binding
from catdiag.optimum.optimality_certificate import BOUND, FREE, PowerProgram, Stationary, derivative
from catdiag.optimum.posynomial import Powers, powers, value_at

_POINTS = 400
_SLACK = 1e-9


class ScreeningSample:
    """Random sizes of a program, the same in each run: sizes up to ten thousand, capacities up to 10⁹.

    Both are uniform in their logarithms.
    """

    def __init__(self, program: PowerProgram, at: Mapping[Symbol, float] | None = None) -> None:
        """Random sizes, or those that are given alone. Raises KeyError where one is missing there."""
        import numpy as np

        self._program = program
        self.names: list[Symbol] = sorted(program.symbols, key=lambda s: (s.name, str(s.sort_key())))
        self._count = _POINTS if at is None else 1
        if at is not None:
            self.columns = [np.array([at[s]]) for s in self.names]
            return
        draw = random.Random(0)
        limits = frozenset[Symbol]().union(*(c.free_symbols for _, c in program.memory))
        self.columns = [
            np.array([10 ** draw.uniform(0, 9 if s in limits else 4) for _ in range(_POINTS)]) for s in self.names
        ]

    @property
    def empty_mask(self) -> Any:
        """The mask of none of the sizes."""
        import numpy as np

        return np.zeros(self._count, dtype=bool)

    def too_small(self, memory: int) -> Any:
        """The mask of the sizes at which a memory is below what tiles of one need."""
        import numpy as np

        holds, capacity = self._program.memory[memory]
        ones = tuple((powers({v: 1}), sympy.S.One) for v, _ in self._program.tiles)
        return _all(self._values([value_at(holds, ones), capacity], np))

    def binding(
        self, monomials: Sequence[Powers], ends: Sequence[Expr | None], options: Sequence[Sequence[str]]
    ) -> list[Choice | None]:
        """The active constraints at each size, found numerically; `None` where nothing fits or it did not converge."""
        import numpy as np

        program = self._program
        shared = [*(t.coefficient for t in program.terms), *(c for _, c in program.memory)]
        values = self._values([*shared, *(sympy.oo if e is None else e for e in ends)], np)
        rows = np.array([np.asarray(v, dtype=float) for v in values]).reshape(len(values), self._count)
        terms = len(program.terms)
        return binding(program, monomials, rows[:terms], rows[terms : len(shared)], rows[len(shared) :], options)

    def feasible_mask(self, certificate: Stationary) -> Any:
        """The mask of the sizes at which the point is feasible and its multipliers have the right signs."""
        import numpy as np

        program, tiles = certificate.program, certificate.tiles
        monomials = [c.monomial for c in certificate.coordinates]
        above: list[Any] = []  # pairs: the first must be at least the second
        for i, c in enumerate(certificate.coordinates):
            if c.status == FREE:
                above += [(c.size, sympy.S.One), *([(c.bound, c.size)] if c.bound is not None else [])]
                continue
            slope = value_at(derivative(program.transfers, monomials, i), tiles)
            for k in certificate.full:
                inner = value_at(derivative(program.memory[k][0], monomials, i), tiles)
                slope += certificate.multipliers[k] * inner
            if slope != 0:  # a tile that nothing depends on may have any size
                above.append((sympy.S.Zero, slope) if c.status == BOUND else (slope, sympy.S.Zero))
        for k, (memory, capacity) in enumerate(program.memory):
            pair = (certificate.multipliers[k], sympy.S.Zero) if k in certificate.full else None
            above.append(pair or (capacity, value_at(memory, tiles)))
        return np.broadcast_to(_all(self._values([side for pair in above for side in pair], np)), (self._count,))

    def _values(self, expressions: Sequence[Any], np: Any) -> Any:
        shared, reduced = sympy.cse(expressions, order="none")
        values: dict[Symbol, Any] = dict(zip(self.names, self.columns, strict=True))
        with np.errstate(all="ignore"):
            for name, e in shared:
                values[name] = _evaluate(e, values, np)
            return [np.broadcast_to(_evaluate(e, values, np), (self._count,)) for e in reduced]


def _all(sides: Sequence[Any]) -> Any:
    """Where each first side exceeds its second by more than rounding; false for NaN."""
    holds = True
    for more, less in zip(sides[::2], sides[1::2], strict=True):
        holds = holds & (more > less + _SLACK * abs(less))
    return holds


def _evaluate(e: Any, values: dict[Symbol, Any], np: Any) -> Any:
    if e.is_Symbol:
        return values[e]
    if e.is_number:
        return float(e) if e.is_real else np.nan
    parts = [_evaluate(argument, values, np) for argument in e.args]
    if e.is_Pow:
        return parts[0] ** parts[1]
    total = parts[0]
    for part in parts[1:]:
        if e.is_Add:
            total = total + part
        elif e.is_Mul:
            total = total * part
        else:
            total = (np.maximum if isinstance(e, sympy.Max) else np.minimum)(total, part)
    return total
