"""Posynomial programs (geometric programs), and certificates of their optima that are checked independently.

A `Problem` asks for the least `transfers` over real tiles of at least one, with every branch of `memory` at most
`capacity`; all are posynomials. Transfers and memory are in the same unit (values, or bytes if the coefficients carry
the width of an element).

Nothing here searches. A `Certificate` states an optimum and a proof of it. *Reductions* map each feasible point to
another that costs no more. A *proof* of the reduced problem is one of `Weights` (the dual of a geometric program:
Duffin, Peterson, Zener, *Geometric Programming*, 1967, chapter 3), `Shifted` and `Monotone` (both derived here).
`check_certificate` replays both with fractions and identities of algebraic functions. The claim also rests on
inequalities: that a block fits, and that a tile is at least one and at most its axis. These are not decided here;
`requirements` returns them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import sympy
from sympy import Expr, Symbol

from catdiag.optimum.posynomial import (
    CertificateError,
    Posynomial,
    PosynomialTerm,
    Powers,
    Tiles,
    collect,
    combination,
    dominates,
    number,
    power,
    powers,
    settled,
    times,
    value_at,
    vanishes,
)


@dataclass(frozen=True)
class Problem:
    """Minimizes `transfers` over real tiles between one and their `bounds`, each `memory` at most `capacity`."""

    transfers: Posynomial
    memory: tuple[Posynomial, ...]
    capacity: Expr
    bounds: tuple[tuple[Symbol, Expr], ...] = ()


@dataclass(frozen=True)
class Absorb:
    """The reduction that sets `variable` to one and multiplies each other tile `u` by `variable ** into[u]`."""

    variable: Symbol
    into: Powers = ()


@dataclass(frozen=True)
class Fill:
    """The reduction that sets `variable`, on which no memory depends, to its bound."""

    variable: Symbol


@dataclass(frozen=True)
class Drop:
    """The reduction that drops branch `branch` of the memory, which branch `by` dominates."""

    branch: int
    by: int


@dataclass(frozen=True)
class Weights:
    """Dual weights of the varying transfers (which sum to one) and of the varying memory terms, in their order.

    With terms `u_i` and weights `delta_i`, `sum u_i >= prod (u_i / delta_i)**delta_i`, and likewise for the memory with
    `lambda = sum mu_k`. Where all exponents of tiles cancel, the product bounds every feasible point from below.
    """

    transfers: tuple[Fraction, ...]
    memory: tuple[Fraction, ...]

    @property
    def multiplier(self) -> Fraction:
        """`lambda`: minus the elasticity of the varying transfers with respect to the room for tiles."""
        return sum(self.memory, Fraction(0))


@dataclass(frozen=True)
class Shifted:
    """Transfers `A/x + B/y + C/(x*y)` under `alpha*x*y + beta*x + gamma*y <= S`, x and y monomials.

    With `u = 1/x`, `v = 1/y` the constraint is `alpha + beta*v + gamma*u <= S*u*v`. Hence `C*u*v` is at least `C/S`
    times its left side. With `A' = A + C*gamma/S`, `B' = B + C*beta/S` transfers are therefore at least `C*alpha/S +
    A'*u + B'*v`. The constraint is also `U*V >= alpha*S + beta*gamma` where `U = S*u - beta > 0`, `V = S*v - gamma >
    0`, and `A'*U + B'*V >= 2*sqrt(A'*B'*U*V)`. So transfers are at least `(C*alpha + A'*beta + B'*gamma + 2*root) / S`,
    `root**2 = A'*B'*(alpha*S + beta*gamma)`. Derived here.
    """

    x: Powers
    y: Powers
    root: Expr


@dataclass(frozen=True)
class Monotone:
    """Transfers decrease and every memory increases with one monomial, which each branch bounds by its root.

    A point is feasible exactly if the monomial is at most the smallest root. The transfers there are the largest of
    those at the roots.
    """

    monomial: Powers
    roots: tuple[Expr, ...]
    values: tuple[Expr, ...]


@dataclass(frozen=True)
class Certificate:
    """The claim that `value` is the optimum of `problem`, attained at `tiles`, and its proof.

    `tiles` gives monomials of tiles and their sizes; where only a product is determined, the product. Without `proof`,
    the reductions alone must leave a constant.
    """

    problem: Problem
    value: Expr
    tiles: Tiles
    proof: Weights | Shifted | Monotone | None
    reductions: tuple[Absorb | Fill | Drop, ...] = ()


def reduce(problem: Problem, step: Absorb | Fill | Drop) -> Problem:
    """The problem after one reduction. Raises `CertificateError` where the reduction is not sound."""
    if isinstance(step, Drop):
        if step.branch == step.by or not dominates(problem.memory[step.by], problem.memory[step.branch]):
            raise CertificateError(f"branch {step.by} of the memory is not shown to dominate {step.branch}")
        return replace(problem, memory=tuple(b for i, b in enumerate(problem.memory) if i != step.branch))
    if isinstance(step, Fill):
        bound = dict(problem.bounds).get(step.variable)
        if bound is None:
            raise CertificateError(f"{step.variable} has no bound: expected one, to set it to")
        grows = any(t.exponents.get(step.variable, 0) > 0 for t in problem.transfers.terms)
        if grows or any(step.variable in b.variables for b in problem.memory):
            raise CertificateError(f"memory depends on {step.variable}, or transfers grow with it")
        return replace(problem, transfers=_set(problem.transfers, step.variable, bound))
    targets = dict(step.into)
    if step.variable in targets or any(e < 0 for e in targets.values()):
        raise CertificateError(f"{step.variable} cannot be absorbed by {step.into}")
    for term in (t for p in (problem.transfers, *problem.memory) for t in p.terms):
        e = term.exponents
        if sum((r * e.get(u, Fraction(0)) for u, r in step.into), Fraction(0)) > e.get(step.variable, 0):
            raise CertificateError(f"absorbing {step.variable} may raise {term.expr}")
    return Problem(
        _set(problem.transfers, step.variable, sympy.Integer(1)),
        tuple(_set(b, step.variable, sympy.Integer(1)) for b in problem.memory),
        problem.capacity,
        # A tile that absorbs another may exceed its bound, so the bound may no longer be used.
        tuple((v, b) for v, b in problem.bounds if v not in targets),
    )


def _set(p: Posynomial, variable: Symbol, size: Expr) -> Posynomial:
    sizes = [power(size, term.exponents.get(variable, 0)) for term in p.terms]
    rests = [tuple(pair for pair in term.powers if pair[0] != variable) for term in p.terms]
    return collect(PosynomialTerm(t.coefficient * e, rest) for t, e, rest in zip(p.terms, sizes, rests, strict=True))


def _same(left: Expr, right: Expr, what: str, problem: Problem, branch: Posynomial | None = None) -> None:
    free = sympy.Dummy(positive=True)  # the room for tiles, positive by `requirements`
    constant = branch.constant if branch is not None else sympy.Integer(0)
    room = {problem.capacity: free + constant} if problem.capacity.is_Symbol else {}
    if not vanishes((left - right).subs(room)):
        raise CertificateError(f"{what}: {left} is not shown to equal {right}")


def reduced_problem(certificate: Certificate) -> Problem:
    """The problem of a certificate after its reductions, each of them checked."""
    problem = certificate.problem
    for step in certificate.reductions:
        problem = reduce(problem, step)
    return problem


def check_certificate(certificate: Certificate) -> bool:
    """`True` where a certificate shows its claim under `requirements`; raises `CertificateError` otherwise."""
    problem, proof, bounds = reduced_problem(certificate), certificate.proof, dict(certificate.problem.bounds)
    keys = [key for key, _ in certificate.tiles]
    if any(combination(keys[:i], key) is not None for i, key in enumerate(keys)):
        raise CertificateError("the size of a tile is stated twice")
    for step in certificate.reductions:
        if not isinstance(step, Drop):
            size = sympy.Integer(1) if isinstance(step, Absorb) else bounds[step.variable]
            if dict(certificate.tiles).get(powers({step.variable: 1})) != size:
                raise CertificateError(f"the reductions set {step.variable} to {size}, the tiles do not")
    if proof is None:
        if problem.transfers.varying or any(b.varying for b in problem.memory):
            raise CertificateError("tiles are left, and no proof about them")
        _same(problem.transfers.constant, certificate.value, "the value and the constant left", problem)
        return True
    if isinstance(proof, Monotone):
        return _check_monotone(problem, proof, certificate)
    if len(problem.memory) != 1:
        raise CertificateError(
            f"the proof is about one branch of the memory, and {len(problem.memory)} are left: drop the others first"
        )
    branch, tiles = problem.memory[0], certificate.tiles
    bound = _weighted(problem, proof) if isinstance(proof, Weights) else _shifted(problem, proof)
    claimed = problem.transfers.constant + bound
    _same(certificate.value, claimed, "the value and the dual value", problem, branch)
    _same(value_at(problem.transfers, tiles), certificate.value, "transfers at the tiles", problem, branch)
    _same(value_at(branch, tiles), problem.capacity, "memory at the tiles", problem, branch)
    return True


def _weighted(problem: Problem, proof: Weights) -> Expr:
    transfers, memory = problem.transfers.varying, problem.memory[0].varying
    if len(proof.transfers) != len(transfers) or len(proof.memory) != len(memory):
        raise CertificateError("there must be one weight for each varying term")
    if any(w < 0 for w in (*proof.transfers, *proof.memory)) or sum(proof.transfers) != 1:
        raise CertificateError("weights must be non-negative, and those of transfers sum to one")
    weighted = [*zip(transfers, proof.transfers, strict=True), *zip(memory, proof.memory, strict=True)]
    if unbalanced := times(*((term.powers, weight) for term, weight in weighted)):
        raise CertificateError(f"the exponents do not balance: {unbalanced} is left")
    room = problem.capacity - problem.memory[0].constant
    scales = [1] * len(transfers) + [number(proof.multiplier) / room] * len(memory)
    scaled = zip(scales, weighted, strict=True)
    return sympy.Mul(*(power(scale * t.coefficient / number(w), w) for scale, (t, w) in scaled if w))


def two_tiles(problem: Problem, x: Powers, y: Powers) -> tuple[Expr, ...]:
    """`(A', B', C, alpha, beta, gamma, S)` of `Shifted`. Raises `CertificateError` for a problem of another form."""
    if len(problem.memory) != 1:
        raise CertificateError("two tiles need one branch of memory")
    found = []
    for terms, keys in (
        (problem.transfers.varying, (times((x, -1)), times((y, -1)), times((x, -1), (y, -1)))),
        (problem.memory[0].varying, (times((x, 1), (y, 1)), x, y)),
    ):
        by_powers = {t.powers: t.coefficient for t in terms}
        if not set(by_powers) <= set(keys) or len(set(keys)) != 3 or len(by_powers) != len(terms):
            raise CertificateError("terms other than those of two tiles and their product")
        found += [by_powers.get(key, sympy.Integer(0)) for key in keys]
    a, b, c, alpha, beta, gamma = found
    if (alpha, beta) == (0, 0) or (alpha, gamma) == (0, 0):
        raise CertificateError("memory does not limit both tiles")
    room = problem.capacity - problem.memory[0].constant
    return a + c * gamma / room, b + c * beta / room, c, alpha, beta, gamma, room


def _shifted(problem: Problem, proof: Shifted) -> Expr:
    a, b, c, alpha, beta, gamma, room = two_tiles(problem, proof.x, proof.y)
    square = a * b * (alpha * room + beta * gamma)
    _same(proof.root**2, square, "the square of the root", problem, problem.memory[0])
    return (c * alpha + a * beta + b * gamma + 2 * proof.root) / room


def _check_monotone(problem: Problem, proof: Monotone, certificate: Certificate) -> bool:
    limiting = [b for b in problem.memory if b.varying]
    if not len(limiting) == len(proof.roots) == len(proof.values) or not limiting:
        raise CertificateError("there must be one root and one value for each branch that limits the tile")
    for p, sign in ((problem.transfers, -1), *((b, 1) for b in limiting)):
        steps = [combination([proof.monomial], t.powers) for t in p.varying]
        if not steps or any(s is None or s[0] * sign <= 0 for s in steps):
            raise CertificateError(f"{p.expr} is not monotone in {proof.monomial}")
    for branch, root, value in zip(limiting, proof.roots, proof.values, strict=True):
        at = ((proof.monomial, root),)
        _same(value_at(branch, at), problem.capacity, "memory at the root", problem, branch)
        _same(value_at(problem.transfers, at), value, "transfers at the root", problem, branch)
    tile = dict(certificate.tiles).get(proof.monomial)
    if (certificate.value, tile) != (sympy.Max(*proof.values), sympy.Min(*proof.roots)):
        raise CertificateError("the value is not the greatest of the values, or the tile not the least root")
    return True


def requirements(certificate: Certificate) -> tuple[sympy.core.relational.Relational, ...]:
    """Inequalities under which a checked certificate gives the optimum, without those known to be true.

    Where monomials share a tile that stays free, they are those with that tile at one: sufficient conditions.
    """
    problem, needed = reduced_problem(certificate), []
    for term in (t for p in (certificate.problem.transfers, *certificate.problem.memory) for t in p.terms):
        unsure = (f for f in sympy.Mul.make_args(term.coefficient) if not f.is_positive)
        needed.append(sympy.Gt(sympy.Mul(*unsure), 0))
    if any(isinstance(step, Drop) for step in certificate.reductions):  # `dominates` takes sizes to be >= 1
        sizes = {v for b in certificate.problem.memory for t in b.terms for v in t.coefficient.free_symbols}
        needed += [sympy.Ge(v, 1) for v in sorted(sizes, key=str)]
    for b in problem.memory:
        needed.append((sympy.Gt if b.varying else sympy.Ge)(problem.capacity, b.constant))
    bounds, tiles = dict(certificate.problem.bounds), settled(certificate.tiles)
    for key, size in tiles:
        others = {v for other, _ in tiles if other != key for v, _ in other}
        key = key[:1] if any(v in others or e < 0 for v, e in key) else key
        needed.append(sympy.Ge(size, 1))
        if all(v in bounds for v, _ in key):
            needed.append(sympy.Le(size, sympy.Mul(*(power(bounds[v], e) for v, e in key))))
    return tuple(dict.fromkeys(n for n in needed if n != sympy.true))
