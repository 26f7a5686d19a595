"""The decorator `cd.theorem`: an equation that a user claims, whose two sides are built when it is to be proved."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, overload

from catdiag.category.diagram import Diagram
from catdiag.frontend.builder import algorithm
from catdiag.prover.api import prove
from catdiag.rewrite.derivation import Derivation, derivation_of, source_of
from catdiag.util.errors import SignatureError

if TYPE_CHECKING:
    from catdiag.prover.api import Theorem


@dataclass(frozen=True)
class Claim:
    """An equation to be proved, made by `cd.theorem`; pytest collects those of a module as tests.

    `.function` gives both sides. `.signature` is the signature of its arrays, where it takes arrays. `.assume` are
    assumptions about sizes; `.limit` is the time of a proof in seconds (None: no limit).
    """

    function: Callable[..., Any]
    signature: str | None = None
    assume: tuple[str, ...] = ()
    limit: float | None = None

    @property
    def name(self) -> str:
        """The name of the function."""
        return str(getattr(self.function, "__name__", "theorem")).replace("<lambda>", "lambda")

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return self.function.__doc__

    def sides(self) -> tuple[Diagram, Diagram | Derivation]:
        """The two sides: two diagrams, or a diagram and a derivation of it.

        Raises SignatureError where the function returns anything else.
        """
        if self.signature is not None:
            return (self._side(algorithm(self.signature, name=f"left of {self.name}"), 0),
                    self._side(algorithm(self.signature, name=f"right of {self.name}"), 1))  # fmt: skip
        said = self.function()
        if not isinstance(said, (tuple, list)) and isinstance(getattr(said, "diagram", None), Diagram):
            return source_of(said), derivation_of(said)
        left, right = (getattr(side, "derivation", side) for side in self._pair(said))
        left = left.diagram if isinstance(left, Derivation) else left
        right = right.diagram if isinstance(right, Derivation) and not right.steps else right
        if not isinstance(left, Diagram) or not isinstance(right, (Diagram, Derivation)):
            raise SignatureError(
                f"{self.name} gives {_kind(left)} and {_kind(right)}: expected two diagrams, or a diagram and a "
                'derivation of it; a function of arrays needs their signature, as in @cd.theorem("q x, q")',
                self.line,
            )
        return left, right

    def _side(self, build: Callable[[Callable[..., Any]], Diagram], k: int) -> Diagram:
        @functools.wraps(self.function)
        def one(*arrays: Any) -> Any:
            return self._pair(self.function(*arrays))[k]

        return build(one)

    def _pair(self, said: Any) -> tuple[Any, Any]:
        if not isinstance(said, (tuple, list)) or len(said) != 2:
            raise SignatureError(
                f"{self.name} gives {_kind(said)}: expected its left and its right side, as `return left, right`",
                self.line,
            )
        return said[0], said[1]

    @property
    def line(self) -> str | None:
        """The file and line of the function."""
        code = getattr(self.function, "__code__", None)
        return None if code is None else f"{code.co_filename}:{code.co_firstlineno}"

    def prove(self, limit: float | None = None) -> Theorem:
        """The theorem, proved now. Raises what `cd.prove` raises: Refuted, Undecided, Interrupted, TypeMismatch.

        `limit` replaces `.limit`. A derivation that starts with the left side is proved already.
        """
        left, right = self.sides()
        if isinstance(right, Derivation):
            if right.source == left and not self.assume:
                return right.theorem
            right = right.diagram
        return prove(left, right, self.assume, self.limit if limit is None else limit)

    def __call__(self, *_: Any) -> Theorem:
        """The theorem, proved now."""
        return self.prove()


def _kind(value: Any) -> str:
    return f"{len(value)} values" if isinstance(value, (tuple, list)) else type(value).__name__


@overload
def theorem(said: Callable[..., Any], *, assume: Sequence[str] = (), limit: float | None = None) -> Claim: ...


@overload
def theorem(
    said: str | None = None, *, assume: Sequence[str] = (), limit: float | None = None
) -> Callable[[Callable[..., Any]], Claim]: ...


def theorem(
    said: Callable[..., Any] | str | None = None, *, assume: Sequence[str] = (), limit: float | None = None
) -> Claim | Callable[[Callable[..., Any]], Claim]:
    """Claims an equation, as a decorator: `@cd.theorem` or, where a signature is `said`, `@cd.theorem("q x, q")`.

    With a signature, the function takes arrays and returns both sides as two results; a side with several results is a
    tuple. Without one, it takes nothing and returns two diagrams, a diagram and a derivation of it, or a derivation
    alone, which is claimed to be equal to its source. Nothing is proved until `.prove()` is called, as pytest does;
    `assume` gives assumptions about sizes (`"x >= 1"`), `limit` the seconds of the proof.

    >>> import catdiag as cd
    >>> @cd.theorem("q x, q -> q x")
    ... def softmax_shift(X, c):
    ...     return cd.softmax(X + c, "x"), cd.softmax(X, "x") + 0 * c
    >>> softmax_shift.name, softmax_shift.prove().conditional
    ('softmax_shift', False)

    Raises SignatureError where the assumptions are a single text.
    """
    if isinstance(assume, str):
        raise SignatureError('assumptions are a list of texts: assume=["n >= 2"]')
    if callable(said):
        return Claim(said, None, tuple(assume), limit)
    blank = Claim(_nothing, said, tuple(assume), limit)
    return lambda function: replace(blank, function=function)


def _nothing() -> None:
    """A stand-in for a function that is given later."""
