"""What a backward pass reads of the forward pass: inputs, results, and statistics, as few as there are.

From each array that the backward pass needs, going back, the first that is an input, a result, or a statistic (one
number for a row: `catdiag.schedule.full_precision`) is read from memory, and what is between is recomputed. So that of
RMSNorm reads the root of each row. What is a scalar function of other arrays that are read is not read itself.

A product or a scatter-add that takes longer to compute again than to write and read is saved too, if the caller says
which these are.

Statistics of a row that are read together only are one statistic. In a sum, its terms that are statistics are added up
first: `u − m − log z` is `u − (m + log z)`. A quotient `exp(u − m)/z` is `exp(u − (m + log z))`, where z is positive.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce

from catdiag.category.diagram import Graph
from catdiag.category.op_facts import contracts
from catdiag.category.ops import Box, Einsum, Map
from catdiag.category.scalars import ScalarFunction
from catdiag.rewrite.differentiate.linear_maps import Guarded
from catdiag.rewrite.hash_consed_graph import HashConsedGraph
from catdiag.schedule.full_precision import statistics
from catdiag.schedule.live_ranges import rematerialized
from catdiag.schedule.scatter_add import one_hot_sum

_DEPTH = 6
"""How many operations deep a sum or a product is read: one of shared operands has many terms."""


IsExpensive = Callable[[Box], bool]
"""Whether what a contraction or a scatter-add makes is saved, since to compute it again takes longer than to write and
read it."""


def read_arrays(
    graph: HashConsedGraph, results: Sequence[int], roots: Sequence[int], count: int, expensive: IsExpensive
) -> list[int]:
    """What is read of the forward pass to make the roots, given cotangents; `count` are the program's inputs."""
    whole = Graph(graph.dom, tuple(graph.nodes), tuple(results))
    free, small = rematerialized(whole, [False] * len(graph.dom)), statistics(whole)
    saved = {*results, *small, *expensive_arrays(graph, expensive)}
    found: set[int] = set()
    seen: set[int] = set()
    todo = list(roots)
    while todo:
        w = todo.pop()
        if w in seen:
            continue
        seen.add(w)
        node = graph.node(w)
        if w < count or (node is not None and not graph.late[w] and not free[w] and w in saved):
            found.add(w)
        elif node is not None:
            todo += node.inputs
    for w in sorted(found, reverse=True):
        of = _operands_of(graph, w, found) if w >= count else None
        if of is not None:
            found = (found - {w}) | of
    return sorted(found)


def expensive_arrays(graph: HashConsedGraph, expensive: IsExpensive) -> frozenset[int]:
    """The products of the forward pass that are saved, and its sums of rows that integers place (scatter-adds)."""
    whole, found = Graph(graph.dom, tuple(graph.nodes), ()), set[int]()
    for place, wire in enumerate(graph.first):
        box = graph.nodes[place].box
        if not graph.late[wire] and (contracts(box) or one_hot_sum(whole, wire) is not None) and expensive(box):
            found.add(wire)
    return frozenset(found)


def _operands_of(graph: HashConsedGraph, wire: int, known: Collection[int]) -> set[int] | None:
    """Those of known wires, and of inputs with fewer axes, of which a wire is a scalar function; None if of none."""
    found: set[int] = set()
    node = graph.node(wire)
    todo = [wire]
    while todo:
        w = todo.pop()
        node = graph.node(w)
        if w != wire and (w in known or (node is None and len(graph.names(w)) < len(graph.names(wire)))):
            found.add(w)
        elif node is None or (node.inputs and not isinstance(node.box.op, Map)):
            return None
        else:
            todo += node.inputs
    return found


@dataclass
class RowStatistics:
    """The wires of a backward pass with the statistics of a row put together.

    `terms` are the terms, not of a row alone, of sums that were changed.
    """

    graph: HashConsedGraph
    results: Sequence[int]
    terms: dict[int, None] = field(default_factory=dict)
    becomes: dict[int, int] = field(default_factory=dict)
    """What each wire has become."""

    def __post_init__(self) -> None:
        self._small = statistics(Graph(self.graph.dom, tuple(self.graph.nodes), tuple(self.results)))

    def of(self, roots: Sequence[int]) -> list[int]:
        """The roots with the changes."""
        made = self.becomes
        made.update((w, w) for w in self.results)
        for wire in self.graph.cone(roots, self.results):
            if wire not in made:
                now = self.graph.substitute(wire, made)
                found = self._quotient(now)
                found = self._sum(now) if found is None else found
                made[wire] = now if found is None else found
        return [made[w] for w in roots]

    def _quotient(self, wire: int) -> int | None:
        """`rest·exp(u − (m + log z))` for `rest·exp(u − m)/z`, also where these are factors of a sum of products; None
        for what is none."""
        graph, node = self.graph, self.graph.node(wire)
        if node is not None and isinstance(node.box.op, Einsum):
            products = self._divided([Product.of(graph, w, self.results) for w in node.inputs])
            if products is None:
                return None
            return graph.einsum([p.made(graph) for p in products], graph.names(wire), node.box.line)
        products = self._divided([Product.of(graph, wire, self.results)])
        return None if products is None else products[0].made(graph)

    def _divided(self, products: list[Product]) -> list[Product] | None:
        """The factors of a product with one exponential in them divided by a statistic; None where there is none."""
        for k, one in enumerate(products):
            for place, power in enumerate(one.factors):
                exponent = operands(self.graph, power, "exp")
                for j, other in enumerate(products) if exponent else ():
                    for z in other.divisors:
                        sums = z in self._small and any(
                            self.graph.function_of(w) == "exp" for w in self.graph.cone([z])
                        )
                        made = self._together(exponent[0], self.graph.names(z), z) if sums else None
                        if made is not None:
                            found = list(products)
                            found[j] = other.times(z)
                            found[k] = found[k].with_factor(place, self.graph.map("exp", made))
                            return found
        return None

    def _sum(self, wire: int) -> int | None:
        """`u − (m + n)` for `u − m − n` with two statistics m and n; None for what is none."""
        names = set(self.graph.names(wire))
        small = [w for _, w in terms(self.graph, wire) if w in self._small and set(self.graph.names(w)) < names]
        if self.graph.late[wire] or len(small) < 2:
            return None
        return self._together(wire, max((self.graph.names(w) for w in small), key=len))

    def _together(self, wire: int, row: Collection[str], z: int | None = None) -> int | None:
        """A sum `u − m` as `u − (m + log z)`, with all its statistics over the axes of a row in m; None without any."""
        graph = self.graph
        found = terms(graph, wire)
        small = [(c, w) for c, w in found if self._is_statistic(w) and set(graph.names(w)) <= set(row)]
        rest = [term for term in found if term not in small]
        if not small or not rest or any(graph.late[w] for _, w in found):
            return None
        self.terms.update(dict.fromkeys(w for _, w in rest))
        logarithm = [] if z is None else [(Fraction(1), graph.map("log", z))]
        return graph.map("sub", summed(graph, rest), summed(graph, [*((-c, w) for c, w in small), *logarithm]))

    def _is_statistic(self, wire: int) -> bool:
        """Whether a wire is a statistic, or one times or divided by a number."""
        node = self.graph.node(wire)
        if wire in self._small or node is None or self.graph.function_of(wire) not in ("mul", "div"):
            return wire in self._small
        axes = set(self.graph.names(wire))
        return any(self._is_statistic(w) for w in node.inputs if set(self.graph.names(w)) == axes) and all(
            w in self._small or not self.graph.names(w) for w in node.inputs
        )


@dataclass(frozen=True)
class Product:
    """`number · Π factors / Π divisors` where the guards hold, else 0; a guard is a condition with its value."""

    number: Fraction
    factors: tuple[int, ...]
    divisors: tuple[int, ...]
    guards: tuple[tuple[int, bool], ...] = ()

    @staticmethod
    def of(graph: HashConsedGraph, wire: int, stop: Collection[int], depth: int = _DEPTH) -> Product:
        """A wire as a product, whatever it is; wires in `stop` are factors."""
        if wire in stop:
            return Product(Fraction(1), (wire,), ())
        plain = Guarded.of(graph, wire)
        value, fn, node = graph.const_value(plain.wire), graph.function_of(plain.wire), graph.node(plain.wire)
        if value is not None:
            return Product(plain.number * value, (), (), plain.guards)
        found = Product(Fraction(1), (plain.wire,), ())
        if node is not None and depth:
            if fn in ("mul", "div"):
                found = Product._quotient(graph, node.inputs, fn, stop, depth - 1)
            elif fn in ("add", "sub"):
                found = Product._sum(graph, plain.wire, stop, depth - 1)
            elif contracts(node.box):
                found = Product._contraction(graph, plain.wire, stop, depth - 1)
        guards = tuple(dict.fromkeys((*plain.guards, *found.guards)))
        return replace(found, number=plain.number * found.number, guards=guards)

    @staticmethod
    def _quotient(
        graph: HashConsedGraph, wires: Sequence[int], fn: ScalarFunction, stop: Collection[int], depth: int
    ) -> Product:
        one, two = (Product.of(graph, w, stop, depth) for w in wires)
        if fn == "div" and (two.number == 0 or two.guards):
            return replace(one, divisors=(*one.divisors, wires[1]))
        other = two if fn == "mul" else Product(1 / two.number, two.divisors, two.factors)
        factors, divisors = one.factors + other.factors, one.divisors + other.divisors
        return Product(one.number * other.number, factors, divisors, one.guards + other.guards)

    @staticmethod
    def _sum(graph: HashConsedGraph, wire: int, stop: Collection[int], depth: int) -> Product:
        """`(a ± b)/z` for `a/z ± b/z`."""
        node = graph.node(wire)
        assert node is not None
        one, two = (Product.of(graph, w, stop, depth) for w in node.inputs)
        common = [z for z in one.divisors if z in two.divisors]
        if not common or one.guards or two.guards:
            return Product(Fraction(1), (wire,), ())
        for z in common:
            one, two = one.times(z), two.times(z)
        made = graph.map(graph.function_of(wire), one.made(graph), two.made(graph))
        return Product(Fraction(1), (made,), tuple(common))

    @staticmethod
    def _contraction(graph: HashConsedGraph, wire: int, stop: Collection[int], depth: int) -> Product:
        """`Σ a·b/z` for `Σ (a/z)·b` with a z that the sum does not run over."""
        node, names = graph.node(wire), set(graph.names(wire))
        assert node is not None
        products = [Product.of(graph, w, stop, depth) for w in node.inputs]
        common = [z for p in products if not p.guards for z in p.divisors if set(graph.names(z)) <= names]
        if not common:
            return Product(Fraction(1), (wire,), ())
        for k, p in enumerate(products):
            for z in () if p.guards else common:
                products[k] = products[k].times(z) if z in products[k].divisors else products[k]
        made = graph.einsum([p.made(graph) for p in products], graph.names(wire), node.box.line)
        return Product(Fraction(1), (made,), tuple(common))

    def times(self, divisor: int) -> Product:
        """Without one divisor."""
        k = self.divisors.index(divisor)
        return replace(self, divisors=self.divisors[:k] + self.divisors[k + 1 :])

    def with_factor(self, place: int, wire: int) -> Product:
        """With another factor in the place of one."""
        return replace(self, factors=(*self.factors[:place], wire, *self.factors[place + 1 :]))

    def made(self, graph: HashConsedGraph) -> int:
        """The wire that it means: what has fewer axes is divided before it is multiplied."""
        factors = list(self.factors)
        for d in self.divisors:
            fits = [k for k, w in enumerate(factors) if set(graph.names(d)) <= set(graph.names(w))]
            k = min(fits, key=lambda k: len(graph.names(factors[k])), default=None)
            if k is None:
                factors.insert(0, graph.map("div", graph.const(1), d))
            else:
                factors[k] = graph.map("div", factors[k], d)
        wire = reduce(lambda a, b: graph.map("mul", a, b), factors) if factors else graph.const(1)
        return Guarded(self.number, self.guards, wire).made(graph)


def terms(graph: HashConsedGraph, wire: int, depth: int = _DEPTH) -> list[tuple[Fraction, int]]:
    """A wire as a sum of terms, each with the number that it is multiplied by."""
    node, fn = graph.node(wire), graph.function_of(wire)
    if node is None or fn not in ("add", "sub", "neg", "mul", "div") or not depth:
        return [(Fraction(1), wire)]
    if fn in ("add", "sub", "neg"):
        *first, last = (terms(graph, w, depth - 1) for w in node.inputs)
        sign = 1 if fn == "add" else -1
        return [*(term for one in first for term in one), *((sign * c, w) for c, w in last)]
    for k in (0, 1) if fn == "mul" else (1,):
        value = graph.const_value(node.inputs[k])
        if value:
            number = value if fn == "mul" else 1 / value
            return [(number * c, w) for c, w in terms(graph, node.inputs[1 - k], depth - 1)]
    numerator = terms(graph, node.inputs[0], depth - 1) if fn == "div" else []
    if len(numerator) > 1 and set(graph.names(node.inputs[1])) < set(graph.names(wire)):
        return [(c, graph.map("div", w, node.inputs[1])) for c, w in numerator]
    return [(Fraction(1), wire)]


def summed(graph: HashConsedGraph, found: Sequence[tuple[Fraction, int]]) -> int:
    """The wire of a sum of terms."""
    wire: int | None = None
    for number, w in sorted(found, key=lambda term: term[0] < 0):
        term = w if abs(number) == 1 else graph.map("mul", graph.const(abs(number)), w)
        if wire is None:
            wire = graph.map("neg", term) if number < 0 else term
        else:
            wire = graph.map("add" if number > 0 else "sub", wire, term)
    return graph.const(0) if wire is None else wire


def operands(graph: HashConsedGraph, wire: int, fn: ScalarFunction) -> tuple[int, ...]:
    """What a scalar function that makes the wire is of; nothing for other wires."""
    node = graph.node(wire)
    return node.inputs if node is not None and graph.function_of(wire) == fn else ()


def bases(graph: HashConsedGraph, sums: Iterable[int]) -> set[int]:
    """Arrays of the forward pass of which statistics are made: of a term `where(c, u, −∞)` these are c and u."""
    found: set[int] = set()
    todo = list(sums)
    while todo:
        w = todo.pop()
        chosen = operands(graph, w, "where")
        if any(graph.is_bottom(branch) for branch in chosen[1:]):
            todo += [branch for branch in chosen if not graph.is_bottom(branch)]
        else:
            found.add(w)
    return found


def cut_wires(graph: HashConsedGraph, terms_of: Collection[int], roots: Sequence[int]) -> list[int]:
    """Arrays of the forward pass of which all else of the roots is made that depends on some bases, or on cotangents.
    With them in place of what they are made of, the equation between two backward passes is small."""
    inner: set[int] = set()
    cone = graph.cone(roots)
    for w in cone:
        node = graph.node(w)
        if (
            node is not None
            and w not in terms_of
            and any(i in terms_of or i in inner or graph.late[i] for i in node.inputs)
        ):
            inner.add(w)
    read = [*roots, *(i for w in cone if w in inner and (node := graph.node(w)) is not None for i in node.inputs)]
    return [w for w in dict.fromkeys(read) if w not in inner and (node := graph.node(w)) is not None and node.inputs]
