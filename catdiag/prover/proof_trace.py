"""Proof traces: kernel rules applied in sequence and recorded, with a bound on the work."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from catdiag.kernel.context import Context
from catdiag.kernel.polynomial import TooLarge
from catdiag.kernel.rewrite_rules import RULES, enter
from catdiag.kernel.terms import KernelError, Term, close_body, rebuild

Path = tuple[int, ...]
Change = Callable[[Context, Term, Path], Term]
WORK = 150_000
"""The bound on the work for all normal forms of a proof."""


class WorkBudget:
    """The remaining amount of rewriting, counted in subterms, so that the bound does not depend on the machine.

    `known` is the cache of normal forms: by term, context and mode, with the steps to each.
    """

    def __init__(self, parts: int = WORK) -> None:
        self.left = parts
        self.known: dict[tuple[Hashable, Context, Term], tuple[Term, list[list[Any]]]] = {}

    def spend(self, parts: int) -> None:
        """Subtracts an amount. Raises TooLarge when nothing is left."""
        self.left -= parts
        if self.left < 0:
            raise TooLarge("the normal form takes too much work")


class ProofTrace:
    """Applies rules at positions of a term and records them in `.steps`; `work` bounds all traces that share it."""

    def __init__(self, work: WorkBudget | None = None) -> None:
        self.steps: list[list[Any]] = []
        self.work = work or WorkBudget()

    def step(self, ctx: Context, t: Term, path: Path, rule: str, *args: Any) -> Term:
        """Applies a kernel rule at the subterm t, recorded if it changes the term."""
        self.work.spend(t.weight)
        result = RULES[rule](ctx, t, *args)
        if result != t:
            self.steps.append([rule, list(path), *args])
        return result

    def attempt(self, ctx: Context, t: Term, path: Path, rule: str, *args: Any) -> Term:
        """Applies a rule if the kernel allows it; else the term as it is."""
        try:
            return self.step(ctx, t, path, rule, *args)
        except TooLarge:
            raise
        except KernelError:
            return t

    def part(self, ctx: Context, t: Term, path: Path, k: int, change: Change) -> Term:
        """A term with its part k rewritten, under the facts that hold there."""
        inner, child, name = enter(ctx, t, k)
        new = change(inner, child, (*path, k))
        if new is child:
            return t
        if name is not None:
            new = close_body(new, name)
        return rebuild(t, (*t.args[:k], new, *t.args[k + 1 :]))

    def parts(self, ctx: Context, t: Term, path: Path, change: Change) -> Term:
        """A term with each of its parts rewritten, one after the other."""
        for k in range(len(t.args)):
            t = self.part(ctx, t, path, k, change)
        return t

    def under(self, ctx: Context, t: Term, path: Path, change: Change) -> Term:
        """A reduction with its body rewritten."""
        return self.part(ctx, t, path, 1, change)


def pruned(record: Any) -> Any:
    """A proof record without its empty parts."""
    if isinstance(record, dict):
        kept = {k: pruned(v) for k, v in record.items()}
        return {k: v for k, v in kept.items() if v not in ({}, []) or k in ("zero", "more", "yes", "no", "equal")}
    if isinstance(record, list):
        return [pruned(v) for v in record]
    return record
