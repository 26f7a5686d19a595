"""Costs over a hierarchy of memories: transfers at each level, each with its memory, weighted and added.

At leading order the transfers of a diagram are a sum of powers of the memory that a group may use,
`H(M) = sum_t alpha_t M**(-beta_t)` (`Optimum.power_form`). A *tier* is an edge of the hierarchy with the memory below
it: each value that crosses costs something (seconds, joules). The laws of "FlashAttention on a Napkin" (Abbott and
Zardini, TMLR 2025, section 4) are operations on such models:

- equation 2: `Model.total`, the sum over tiers of the cost of a value times `H` at the tier's memory;
- equation 3: `Model.quantized`, where a value takes `q` bytes and tiers are in bytes: each term gets `q**(1 + beta)`;
- theorem 2: `Model.cached`, where a level keeps its results in its children, so that it counts as large as they all;
- theorem 3: `Model.clustered`, where children pass on to each other what one of them has loaded.

>>> import catdiag as cd
>>> product = cd.algorithm("a b, b c")(lambda A, B: cd.einsum("a b, b c -> a c", A, B))
>>> optimum = product.stream("b").group("a c").io().optimum()
>>> model = Model.of(optimum, [Tier("L2", 2**24, 4), Tier("SMEM", 2**16, 1)])
>>> print(model.parts["SMEM"], "|", model.total)
a*b*c/128 + a*c | 5*a*b*c/512 + 5*a*c

The weights are added, as if nothing overlapped. Everything is at leading order: it leaves out what is small beside the
largest terms of memory (streamed blocks, statistics), and tiles are taken to be shorter than their axes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from catdiag.chip.hierarchy import Hierarchy
from catdiag.optimum.minimize import Optimum
from catdiag.optimum.power_form import PowerForm
from catdiag.util import argument_checks
from catdiag.util.argument_checks import formula
from catdiag.util.errors import CatdiagError, require

if TYPE_CHECKING:
    from fractions import Fraction

    from catdiag.chip.hardware import Hardware

Expr = Any
Number = Any
_STEEPEST = 64
"""A number, or a sympy expression declared positive."""


@dataclass(frozen=True)
class Tier:
    """An edge down into a memory: how much of it one group may use, and what it costs to move one unit across.

    `memory` is in the unit of the model's form (values or bytes) and `cost` is for one such unit, both numbers or
    sympy expressions. Raises CatdiagError for a memory that is not positive, or a cost below 0.
    """

    name: str
    memory: Number
    cost: Number

    def __post_init__(self) -> None:

        if formula(self.memory, "the memory of a tier").is_positive is not True:
            raise CatdiagError(
                f"tier {self.name!r} has memory {self.memory!r}: expected a positive number of values or bytes, or a "
                "sympy symbol declared positive"
            )
        if formula(self.cost, "the cost of a tier").is_negative:
            raise CatdiagError(f"tier {self.name!r} has cost {self.cost!r} a unit: expected 0 or more")


@dataclass(frozen=True)
class Caching:
    """A level that keeps results in its children: its memory in effect, and how many children one of its groups needs.

    `needed` is at most `children` where the theorem holds; `contains` is None where that depends on sizes.
    """

    memory: Expr
    needed: Expr
    children: Expr

    @property
    def contains(self) -> bool | None:
        """Whether there are children enough."""
        import sympy

        short = sympy.simplify(sympy.sympify(self.children) - self.needed)
        return None if short.is_nonnegative is None else bool(short.is_nonnegative)


@dataclass(frozen=True)
class Model:
    """A diagram's transfers, as powers of memory, over tiers from the slowest to the fastest.

    `form` gives the transfers at a memory, in the unit of `form.capacity`; `tiles` the tiles that attain them, and
    `assumed` what has to hold of sizes and that capacity. The form is the optimum only there: see `conditions`.
    """

    form: PowerForm
    tiers: tuple[Tier, ...]
    tiles: Mapping[Expr, Expr] = field(default_factory=dict, hash=False, compare=False)
    assumed: tuple[Expr, ...] = ()

    @staticmethod
    def of(optimum: Optimum, tiers: Iterable[Tier]) -> Model:
        """The model of a diagram's optimum: its power form, and its tiles at leading order.

        Raises ValueError where the optimum has no closed form in a symbol for the capacity.
        """
        require(isinstance(optimum, Optimum), "the optimum", optimum, "what .io().optimum() gives")
        require(
            isinstance(tiers, Iterable),
            "tiers",
            tiers,
            "tiers of memory, as examples.napkin.tiers gives",
        )
        tiers = tuple(tiers)
        for tier in tiers:
            require(isinstance(tier, Tier), "a tier", tier, "a Tier, as examples.napkin.tiers gives")
        first = optimum.leading is not None
        tiles = optimum.leading_tiles if first else optimum.tiles
        conditions = optimum.leading_conditions if first else optimum.conditions
        return Model(optimum.power_form, tuple(tiers), dict(tiles), tuple(conditions))

    @property
    def conditions(self) -> dict[str, tuple[Expr, ...]]:
        """For each tier what has to hold of sizes for the form to be the optimum at its memory: tiles of one at the
        least, and not longer than their axes. What holds anyway is left out; False says that it does not."""
        import sympy

        put = {t.name: [c.subs(self.form.capacity, sympy.sympify(t.memory)) for c in self.assumed] for t in self.tiers}
        return {name: tuple(c for c in found if c != sympy.true) for name, found in put.items()}

    @property
    def parts(self) -> dict[str, Expr]:
        """What each tier costs: the cost of a unit times the transfers at its memory."""
        import sympy

        return {t.name: sympy.expand(sympy.sympify(t.cost) * self.form.at(t.memory)) for t in self.tiers}

    @property
    def total(self) -> Expr:
        """The sum over tiers (equation 2 of the paper)."""
        return self.form.over([(t.cost, t.memory) for t in self.tiers])

    def tier(self, name: str) -> Tier:
        """The tier of that name. Raises CatdiagError, listing the tiers."""
        return self.tiers[self._place(name)]

    def _place(self, name: str) -> int:
        for place, tier in enumerate(self.tiers):
            if tier.name == name:
                return place
        raise CatdiagError(f"no tier {name!r}: the model has {', '.join(t.name for t in self.tiers) or 'none'}")

    def _with(self, name: str, tiers: Sequence[Tier]) -> Model:
        place = self._place(name)
        return replace(self, tiers=(*self.tiers[:place], *tiers, *self.tiers[place + 1 :]))

    def quantized(self, width: Number) -> Model:
        """A model in values, given in bytes of which a value takes `width`: the tiers' memories and costs are then
        those of bytes, and each term gets the factor `width**(1 + beta)` (equation 3).

        It holds where *everything* has that width. Where accumulators stay wide, or scales go along, take the form
        from the diagram's bytes instead: `diagram.io(dtype={...}).optimum().power_form`.

        >>> import sympy
        >>> from catdiag.optimum.power_form import power_form
        >>> n, M, q = sympy.symbols("n M q", positive=True)
        >>> model = Model(power_form(4 * n**2 / M + 2 * n, M), (Tier("SMEM", 2**17, 1),))
        >>> model.quantized(q).total
        n**2*q**2/32768 + 2*n*q
        """
        return replace(self, form=self.form.quantized(width))

    def without(self, name: str) -> Model:
        """The model without one of the tiers: what crossed the edge into it then crosses into the next one at the
        same cost a unit, and with the memory of that one.

        Raises CatdiagError for an unknown tier, and for the last one, below which nothing is.
        """
        place = self._place(name)
        if place == len(self.tiers) - 1:
            raise CatdiagError(f"{name!r} is the last tier: something has to hold what is worked on")
        lower = self.tiers[place + 1]
        return replace(
            self, tiers=(*self.tiers[:place], replace(lower, cost=self.tiers[place].cost), *self.tiers[place + 2 :])
        )

    def caching(self, memory: Number, children: Number) -> Caching:
        """What it takes that a level keeps its results in `children` children of `memory` each (theorem 2).

        Its groups are then as large as those of a memory of `children * memory`; each is worked on by as many
        children as its tile has tiles of theirs, so the ratio of the sizes of both is the number that it needs.
        """
        import sympy

        children, memory = formula(children, "children"), formula(memory, "the memory")
        whole, capacity = children * memory, self.form.capacity
        needed = sympy.S.One
        for size in self.tiles.values():
            size = sympy.sympify(size)
            needed = needed * size.subs(capacity, whole) / size.subs(capacity, memory)
        return Caching(whole, sympy.simplify(needed), children)

    def cached(self, name: str, children: Number, memory: Number | None = None) -> Model:
        """The model where the tier's level keeps its results in its children until they are complete, and counts as
        large as they all are together (theorem 2): `H` at `children * memory` in place of its own memory.

        `memory` is that of one child, by default the next tier's. The level itself then holds streamed blocks only.
        Raises CatdiagError where there are not children enough for one of its groups (`caching` says how many), or
        the tier is the last and no memory is given.

        >>> import sympy
        >>> from catdiag.optimum.power_form import power_form
        >>> n, M = sympy.symbols("n M", positive=True)
        >>> model = Model(power_form(4 * n**2 / M, M), (Tier("L2", 1000, 1), Tier("SMEM", 100, 0)))
        >>> model.cached("L2", 132).tier("L2").memory
        13200
        """
        place = self._place(name)
        if memory is None:
            if place == len(self.tiers) - 1:
                raise CatdiagError(f"{name!r} is the last tier: give the memory of one of its children")
            memory = self.tiers[place + 1].memory
        found = self.caching(memory, children)
        if found.contains is False:
            raise CatdiagError(
                f"a group of {name!r} would need {found.needed} children and there are {children}: "
                "take fewer, or leave its results in its own memory"
            )
        return self._with(name, [replace(self.tiers[place], memory=found.memory)])

    def clustered(self, name: str, children: Number, cost: Number) -> Model:
        """The model where `children` memories of the tier pass on to each other what one has loaded (theorem 3).

        Together they need `H(M)`; of that, `H(children * M)` has to come from above, and the rest crosses between
        them at `cost` a unit. That is the model with one tier more, of all their memory, at the difference of costs.
        Raises CatdiagError where passing on costs more than loading.

        >>> import sympy
        >>> from catdiag.optimum.power_form import power_form
        >>> n, M = sympy.symbols("n M", positive=True)
        >>> model = Model(power_form(4 * n**2 / M, M), (Tier("SMEM", M, 3),))
        >>> model.total, model.clustered("SMEM", 2, 1).total
        (12*n**2/M, 8*n**2/M)
        """
        import sympy

        tier = self.tier(name)
        less = sympy.sympify(tier.cost) - sympy.sympify(cost)
        if less.is_negative:
            raise CatdiagError(
                f"passing on between children costs {cost} a unit and loading {tier.cost}: a cluster buys nothing"
            )
        whole = sympy.sympify(children) * sympy.sympify(tier.memory)
        return self._with(name, [Tier(f"{name} cluster", whole, less), replace(tier, cost=cost)])

    def gain(self, other: Model) -> Expr:
        """What the other model saves against this one: the difference of the totals.

        >>> import sympy
        >>> from catdiag.optimum.power_form import power_form
        >>> alpha, M, N, h, x = sympy.symbols("alpha M N h x", positive=True)
        >>> model = Model(power_form(alpha / M, M), (Tier("SMEM", M, h + x),))
        >>> sympy.factor(model.gain(model.clustered("SMEM", N, x)))
        alpha*h*(N - 1)/(M*N)
        """
        import sympy

        return sympy.expand(self.total - other.total)


def tiers(hardware: Hardware | Hierarchy | str, *levels: str, by: str = "time") -> tuple[Tier, ...]:
    """The tiers of a chip between these levels, the slowest first, in bytes: each level below the first with its
    capacity, and what a byte costs on the edge into it: seconds (`by="time"`), or joules (`by="energy"`).

    A group is taken to have all of a level's capacity. Raises CatdiagError for unknown chips, levels and edges, for
    edges without a bandwidth or a published energy, for a level that holds anything, and for another `by`.

    >>> [(t.name, t.memory, 1 / t.cost) for t in tiers("H100", "HBM", "L2")]
    [('L2', 52428800, 3350000000000.0)]
    """
    from catdiag.chip import hardware as chips

    if by not in ("time", "energy"):
        raise CatdiagError(f"tiers by {by!r}: expected 'time' or 'energy'")
    if len(levels) < 2:
        raise CatdiagError(f"tiers lie between two levels or more, and {levels} were named")
    whole = hardware if isinstance(hardware, Hierarchy) else chips.get(hardware).hierarchy
    chain = whole.chain(*levels)
    found: list[Tier] = []
    for upper, lower in pairwise(levels):
        edge, memory = chain.edge(upper, lower), chain.level(lower).capacity
        if memory is None:
            raise CatdiagError(f"level {lower!r} of {whole.name} holds anything: a tier has to have a capacity")
        if by == "energy":
            if edge.pj_per_byte is None:
                raise CatdiagError(f"no published figure for the energy of the edge {upper} to {lower} of {whole.name}")
            found.append(Tier(lower, memory, edge.pj_per_byte * 1e-12))
        elif edge.bytes_per_s is None:
            raise CatdiagError(f"the bandwidth of the edge {upper} to {lower} of {whole.name} is not known")
        else:
            found.append(Tier(lower, memory, 1 / edge.bytes_per_s))
    return tuple(found)


def cross_transfer_gain(beta: Fraction | float, children: Number, cost: Number, cross: Number) -> Expr:
    """What a cluster of `children` saves, for each unit that a term `alpha * M**(-beta)` moves without it.

    `(cost - cross) * (1 - children**(-beta))`, theorem 3's gain; `cost` is that of a unit from above, `cross` that of
    one between children. Divided by `cost`, it is the part of the term's cost that is saved.

    >>> round(float(cross_transfer_gain(1, 2, 1 / 2.04, 1 / 3.27) * 2.04), 3)
    0.188
    """
    import sympy

    argument_checks.positive(beta, "beta")
    require(beta <= _STEEPEST, "beta", beta, f"an exponent of at most {_STEEPEST}")
    children, cost, cross = (
        argument_checks.formula(value, what)
        for value, what in ((children, "children"), (cost, "cost"), (cross, "cross"))
    )
    exponent = sympy.Rational(str(beta))
    return (cost - cross) * (1 - children**-exponent)


def quantization_gain(wide: PowerForm, narrow: PowerForm) -> dict[Fraction, Expr]:
    """How many times fewer bytes the narrow form moves in each power of memory: the ratio of the coefficients.

    Both are forms in bytes, of diagrams with their own widths of inputs, accumulators and scales, at one capacity.
    The naive factor is `(ratio of widths)**(1 + beta)`.

    >>> import sympy
    >>> from catdiag.optimum.power_form import power_form
    >>> n, M = sympy.symbols("n M", positive=True)
    >>> wide, narrow = (power_form(c * n**2 / M + w * n, M) for c, w in ((24, 4), (10, 2)))
    >>> {str(beta): factor for beta, factor in quantization_gain(wide, narrow).items()}
    {'0': 2, '1': 12/5}
    """
    import sympy

    for form, name in ((wide, "the wide form"), (narrow, "the narrow form")):
        require(isinstance(form, PowerForm), name, form, "powers of a capacity, such as .io().optimum().power_form")
    betas = [beta for _, beta in wide.terms if narrow.coefficient(beta) != 0]
    return {beta: sympy.cancel(sympy.together(wide.coefficient(beta) / narrow.coefficient(beta))) for beta in betas}
