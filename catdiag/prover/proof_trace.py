"""Kernel steps, applied one after the other and written down, with a bound on the work."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from catdiag.kernel.context import Context
from catdiag.kernel.polynomial import TooLarge
from catdiag.kernel.rewrite_rules import RULES, enter
from catdiag.kernel.terms import KernelError, Term, close_body, rebuild

Path = tuple[int, ...]
Change = Callable[[Context, Term, Path], Term]


class WorkBudget:
    """How much may still be rewritten, in parts of terms: a count, so that the limit does not depend on the machine.

    `known` are the normal forms found so far: of a term in a context, in a mode, with the steps to it.
    """

    def __init__(self, parts: int = 150_000) -> None:
        self.left = parts
        self.known: dict[tuple[Hashable, Context, Term], tuple[Term, list[list[Any]]]] = {}

    def spend(self, parts: int) -> None:
        """Takes parts away. Raises TooLarge when there are none left."""
        self.left -= parts
        if self.left < 0:
            raise TooLarge("the normal form takes too much work")


class ProofTrace:
    """Rules applied at places of a term, in `.steps`; `work` bounds what this and others that share it do."""

    def __init__(self, work: WorkBudget | None = None) -> None:
        self.steps: list[list[Any]] = []
        self.work = work or WorkBudget()

    def step(self, ctx: Context, t: Term, path: Path, rule: str, *args: Any) -> Term:
        """One kernel rule at the subterm t, recorded if it changes it."""
        self.work.spend(t.weight)
        result = RULES[rule](ctx, t, *args)
        if result != t:
            self.steps.append([rule, list(path), *args])
        return result

    def attempt(self, ctx: Context, t: Term, path: Path, rule: str, *args: Any) -> Term:
        """A step if the kernel allows it, else the term as it is."""
        try:
            return self.step(ctx, t, path, rule, *args)
        except TooLarge:
            raise
        except KernelError:
            return t

    def part(self, ctx: Context, t: Term, path: Path, k: int, change: Change) -> Term:
        """A term with its part k changed, where what is known there is known."""
        inner, child, name = enter(ctx, t, k)
        new = change(inner, child, (*path, k))
        if new is child:
            return t
        if name is not None:
            new = close_body(new, name)
        return rebuild(t, (*t.args[:k], new, *t.args[k + 1 :]))

    def parts(self, ctx: Context, t: Term, path: Path, change: Change) -> Term:
        """A term with each of its parts changed, one after the other."""
        for k in range(len(t.args)):
            t = self.part(ctx, t, path, k, change)
        return t

    def under(self, ctx: Context, t: Term, path: Path, change: Change) -> Term:
        """A reduction with its body changed."""
        return self.part(ctx, t, path, 1, change)
