"""Rewrites as pairs of small programs on one signature, each with what `cd.prove` should say of it.

A suite is a module `suite_<theme>` that makes a `Suite` and adds to it; `SUITES` names the themes. Those rewrites that
`prove` leaves undecided so far are listed in `undecided`, with the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from undecided import UNDECIDED

import catdiag as cd
from catdiag.prover.api import prove_with
from catdiag.util.errors import CatdiagError

Program = Callable[..., Any]
Case = tuple[str, Program, Program]

SUITES = (
    "elementwise",
    "order",
    "shapes",
    "products",
    "reductions",
    "normalisers",
    "optimisers",
    "parts",
    "windows",
    "positions",
    "blocks",
)


class Weaker(AssertionError):
    """`prove` says less than it should: undecided, or proved with conditions that it could drop."""


@dataclass(frozen=True)
class Rewrite:
    """Two programs, assumptions on sizes, and the expected verdict: proved, conditional, refuted or refused."""

    suite: str
    name: str
    signature: str
    left: Program
    right: Program
    expected: str
    assume: tuple[str, ...] = ()

    @property
    def true(self) -> bool:
        """Whether the two programs mean the same, where they are defined."""
        return self.expected in ("proved", "conditional")

    @property
    def open(self) -> str:
        """Why `prove` says less than it should, where it does."""
        return next((why for why, names in UNDECIDED.items() if f"{self.suite}: {self.name}" in names), "")

    def programs(self) -> tuple[cd.category.Diagram, cd.category.Diagram]:
        """The two programs as diagrams."""
        return cd.algorithm(self.signature)(self.left), cd.algorithm(self.signature)(self.right)


@dataclass
class Suite:
    """Rewrites of one theme, each case a name and two programs."""

    theme: str
    rewrites: list[Rewrite] = field(default_factory=list)

    def _add(self, expected: str, signature: str, assume: Sequence[str], cases: Sequence[Case]) -> None:
        known = {r.name for r in self.rewrites}
        for name, left, right in cases:
            if name in known:
                raise ValueError(f"{self.theme} has {name!r} twice")
            known.add(name)
            self.rewrites.append(Rewrite(self.theme, name, signature, left, right, expected, tuple(assume)))

    def same(self, signature: str, *cases: Case, assume: Sequence[str] = ()) -> None:
        """Rewrites that hold wherever the left program is defined."""
        self._add("proved", signature, assume, cases)

    def partly(self, signature: str, *cases: Case, assume: Sequence[str] = ()) -> None:
        """Rewrites whose right program needs more than the left one to be defined."""
        self._add("conditional", signature, assume, cases)

    def differ(self, signature: str, *cases: Case, assume: Sequence[str] = ()) -> None:
        """Rewrites that change the meaning."""
        self._add("refuted", signature, assume, cases)

    def refused(self, signature: str, *cases: Case, assume: Sequence[str] = ()) -> None:
        """Rewrites that cannot even be asked: ill-formed programs, two types, assumptions that nothing meets."""
        self._add("refused", signature, assume, cases)


def rewrites(suites: Sequence[str] = SUITES) -> list[Rewrite]:
    """All rewrites of some suites."""
    return [r for name in suites for r in import_module(f"suite_{name}").SUITE.rewrites]


def verdict(rewrite: Rewrite, ask: Any) -> tuple[str, float, str]:
    """What `prove` says of a rewrite, the seconds that it took, and the goal at which it stopped if it did."""
    start = time.perf_counter()
    detail = ""
    try:
        f, g = rewrite.programs()
        theorem = prove_with(ask, f, g, rewrite.assume)
        said = "conditional" if theorem.conditional else "proved"
        detail = "; ".join(theorem.conditions)
    except cd.Refuted as error:
        # Where the left side of a true rewrite is defined, the right one need not be.
        said = "undefined" if rewrite.true and error.counterexample.undefined else "refuted"
        detail = str(error)
    except cd.Undecided as error:
        said, detail = "undecided", error.goal
    except cd.errors.Interrupted as error:
        said, detail = "interrupted", str(error)
    except CatdiagError as error:
        said, detail = "refused", str(error)
    return said, time.perf_counter() - start, detail


LESS = {"proved": ("conditional", "undecided"), "conditional": ("undecided", "undefined"), "refuted": ("undecided",)}
"""What is less than expected, and not wrong."""
