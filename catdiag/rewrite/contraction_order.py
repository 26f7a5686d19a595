"""Contraction order: products of several arrays, summed over axes, in the order that multiplies least.

`Σ_b,c A[a b] · B[b c] · C[c d]` as one box multiplies a·b·c·d times. As (A·B)·C it is two matrix products of a·b·c and
a·c·d multiplications. A *region* is a part of a diagram that is one product of arrays, summed over some axes:
contractions in a row, with the scalings, sums, casts and renamings between them. Its orders are the binary trees over
its factors. The best depends on the sizes. It is found by dynamic programming over the subsets of the factors, which
moves factors that do not have a summed axis out of the sum too. (QKᵀ)V becomes Q(KᵀV) where there are more keys than
features.

The equation is one of real numbers. Sums are taken in another order, which changes their rounding, and casts inside of
a region are dropped with the arrays that they were of.

>>> import catdiag as cd
>>> chain = cd.algorithm("a b, b c, c d -> a d")(lambda A, B, C: cd.einsum("a b, b c, c d -> a d", A, B, C))
>>> def pairs(**sizes):
...     return [str(box.cod) for box in reassociated(chain, sizes).diagram.boxes]
>>> pairs(a=4, b=4, c=4, d=99), pairs(a=99, b=4, c=4, d=4)
(['[a c]', '[a d]'], ['[b d]', '[a d]'])
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import combinations
from typing import Final, Literal

from catdiag.category.diagram import Diagram, Graph, of_graph, reachable
from catdiag.category.op_facts import cast_dtype, monoid_of, new_names, scalar_function, transposes
from catdiag.category.ops import ARITHMETIC, Box, Einsum, Rename, bodies
from catdiag.category.scalars import Cast
from catdiag.category.substitution import inline
from catdiag.category.traversal import all_boxes
from catdiag.category.types import Axis, Size, size_value
from catdiag.kernel.terms import KernelError
from catdiag.prover.api import Interrupted
from catdiag.prover.composites import OpenPart, certify_through
from catdiag.prover.proof_search import OpenGoal
from catdiag.rewrite.coproduct_sums import by_terms
from catdiag.rewrite.derivation import Derivation, NotProved, titled
from catdiag.rewrite.hash_consed_graph import HashConsedGraph
from catdiag.rewrite.merge_axes import MergingGraph
from catdiag.rewrite.pairwise_contractions import pairwise_order
from catdiag.rewrite.steps import Reassociate
from catdiag.solvers.child_process import SolverInterrupted
from catdiag.util.errors import CatdiagError

MOST = 8
"""The most factors of a region: the search goes over all subsets of them."""
GAIN = 0.9
"""An order is changed where that leaves at most this part of a region's multiplications."""
FIRST: Final = "first"
LAST: Final = "last"
"""When scales of blocks are applied: before the blocks are multiplied with others, or after."""
WORTH = 0.98
"""Other orders are given where they leave at most this part of all multiplications."""

Pairs = tuple[tuple[int, int], ...]
"""Wires of one diagram with those of another that carry the same."""


class _Shared(Enum):
    """Which arrays that are read more than once regions go through."""

    NONE = "none"
    ALL = "all"
    DEAD = "those that nothing reads then"


@dataclass(frozen=True)
class Reassociation:
    """A diagram with its regions in other orders, or with merged axes (`action`); nothing is proved here.

    `opened` is the source with the named boxes opened that hold products. `stages` pairs wires of its graph with those
    of the diagram's, in order: what a changed part reads, and what it makes. `image` has the wire of the diagram for
    each wire of `opened` that is still there. `work` are the multiplications before and after.
    """

    source: Diagram
    opened: Diagram
    diagram: Diagram
    stages: tuple[Pairs, ...]
    image: Mapping[int, int] = field(repr=False)
    work: tuple[int, int]
    action: Reassociate
    shared: _Shared = _Shared.NONE
    """Which arrays that are read more than once a region goes through."""


def reassociate(derivation: Derivation, sizes: Mapping[str, int]) -> Derivation:
    """With the products of each region in the order that multiplies least at these sizes; the same derivation where
    that saves less than a tenth. The theorem holds for all sizes.

    Named boxes that hold such products are opened; loops and groups are left as they are: call it before `stream` and
    `group`. Raises SizeError for a size that is missing, CatdiagError where the equation is not proved.

    >>> import catdiag as cd
    >>> linear = cd.algorithm("q d, x d, x v -> q v")(
    ...     lambda Q, K, V: cd.einsum("q x, x v -> q v", cd.einsum("q d, x d -> q x", Q, K), V))
    >>> made = reassociate(cd.Program(linear).derivation, {"q": 4096, "x": 4096, "d": 64, "v": 64})
    >>> [str(box.cod) for box in made.diagram.boxes], made.theorem.conditional
    (['[v d]', '[q v]'], False)
    """
    found = reassociated(derivation.diagram, sizes)
    if found is None:
        return derivation
    return ordered(derivation, found)


def ordered(derivation: Derivation, found: Reassociation) -> Derivation:
    """A derivation with its products in an order that was found, proved. Raises CatdiagError where it is not."""
    title = derivation.diagram.title or "it"
    made = titled(found.diagram, f"{title}.reassociate()")
    try:
        if derivation.steps:
            theorem = derivation.prove(made)
        else:
            theorem = certify_through(derivation.ask, found.opened, made, found.stages)
    except (OpenPart, OpenGoal, KernelError, NotProved) as error:
        raise CatdiagError(f"another order of the products of {title} was not proved to be equal: {error}") from error
    except SolverInterrupted as error:
        raise Interrupted(f"a proof was interrupted: {error}") from error
    return replace(derivation.then(found.action, made, theorem), ungrouped=made, unchanged=None)


def reassociated(diagram: Diagram, sizes: Mapping[str, int]) -> Reassociation | None:
    """The diagram with each region in its best order; None where no region gains.

    A region ends at arrays that are read more than once, or, if less is multiplied so, goes through those that nothing
    needs then. It goes through others only where that leaves less than `WORTH` of it: a norm's result that other
    products read is made once. Raises SizeError for an axis of a product without a size.
    """
    plain, every, dead = (_Reassociation(diagram, sizes, shared).made() for shared in _Shared)
    best: Reassociation | None = None
    for made in (plain, dead, every):
        worth = WORTH if made is every and made is not None else 1
        if made is not None and (best is None or made.work[1] < worth * best.work[1]):
            best = made
    return best


def equal_forms(diagram: Diagram, sizes: Mapping[str, int]) -> list[Reassociation]:
    """Diagrams that may need less than this one, not proved: its regions in their best orders; that, or the diagram,
    with summed axes merged (`catdiag.rewrite.merge_axes`); and where blocks of a product's factors have scales, what
    is scaled first and what is scaled last (`_Reassociation._units`). None, or up to four. Raises SizeError as above.

    >>> import catdiag as cd
    >>> heads = cd.algorithm("t h d, h d m -> t m")(lambda A, W: cd.einsum("t h d, h d m -> t m", A, W))
    >>> [str(form.action) for form in equal_forms(heads, {"t": 4096, "h": 32, "d": 128, "m": 4096})]
    ['merge (h d)']
    """
    best = reassociated(diagram, sizes)
    shared = _Shared.NONE if best is None else best.shared
    merged = _Reassociation(diagram, sizes, shared, reorder=best is not None, merge=True).made()
    scaled = [_Reassociation(diagram, sizes, shared, scales=scales).made() for scales in (FIRST, LAST)]
    others = [form for form in scaled if form is not None and (best is None or form.diagram != best.diagram)]
    return [*(form for form in (best, merged) if form is not None), *others]


def form_by_terms(diagram: Diagram, sizes: Mapping[str, int]) -> Reassociation | None:
    """The diagram with reductions over concatenated arrays taken term by term (`catdiag.rewrite.coproduct_sums`), and
    of that the last of the `equal_forms`, not proved; None where there are no such reductions. Raises SizeError as
    above.

    >>> import catdiag as cd
    >>> total = cd.algorithm("q x, q y -> q")(lambda A, B: cd.sum(cd.concat([A, B], "x+y"), "x+y"))
    >>> str(form_by_terms(total.diagram, {"q": 4, "x": 4, "y": 4}).action)
    'x+y by terms'
    """
    made = by_terms(diagram)
    if made is None:
        return None
    action = Reassociate(reordered=False, by_terms=made.axes)
    form = Reassociation(diagram, made.opened, made.diagram, made.stages, made.image, (0, 0), action)
    for then in [form for form in equal_forms(made.diagram, sizes) if not form.action.scales][-1:]:
        if then.opened.graph == made.diagram.graph:
            image = {w: then.image[v] for w, v in made.image.items() if v in then.image}
            pairs = ([(w, then.image[v]) for w, v in stage if v in then.image] for stage in made.stages)
            stages = tuple(tuple(stage) for stage in pairs if stage)
            action = replace(then.action, by_terms=made.axes)
            form = Reassociation(diagram, made.opened, then.diagram, stages, image, then.work, action, then.shared)
    return form


def _holds_products(box: Box) -> bool:
    return any(isinstance(inner.op, Einsum) for body in bodies(box.op) for inner in all_boxes(body))


@dataclass(frozen=True)
class RegionFactor:
    """A wire of the source as a factor of a region: the index of the region along each of its axes; `below` where it is
    divided by."""

    wire: int
    at: Mapping[str, int]
    below: bool = False


@dataclass
class ProductRegion:
    """A product of factors, summed over all indices but those of the result. `sizes` are those of its indices, `names`
    what they are called; `inside` are the places of the boxes that it is made of."""

    result: Mapping[str, int]
    sizes: list[Size]
    names: list[str]
    factors: list[RegionFactor] = field(default_factory=list)
    inside: list[int] = field(default_factory=list)

    def index(self, axis: Axis) -> int:
        """A new index."""
        name, number = axis.name, 2
        while name in self.names:
            name, number = f"{axis.name}{number}", number + 1
        self.names.append(name)
        self.sizes.append(axis.size)
        return len(self.names) - 1


_Regions = dict[int, tuple[ProductRegion, Sequence[tuple[int, int]]]]


class _Reassociation:
    """Rebuilds a flat diagram: its regions in their best orders (`reorder`), with summed axes merged (`merge`), or with
    blocks that have scales scaled first or last (`scales`)."""

    def __init__(
        self, source: Diagram, sizes: Mapping[str, int], shared: _Shared, reorder: bool = True, merge: bool = False,
        scales: Literal["", "first", "last"] = "",
    ) -> None:  # fmt: skip
        self.source, self.sizes, self.shared, self.reorder, self.merge = source, sizes, shared, reorder, merge
        self.scales = scales
        self.graph = reachable(inline(source, keep=lambda box: not _holds_products(box)).graph)
        self.maker, self.first, self.types = self.graph.makers(), self.graph.first_wires(), self.graph.wire_types()
        self.uses = Counter(w for node in self.graph.nodes for w in node.inputs)
        self.uses.update(self.graph.outputs)
        self.ends = set(self.graph.outputs)
        several = {w for w in range(len(self.types)) if self.uses[w] > 1} | self.ends
        self.stops: set[int] = several if shared is _Shared.NONE else set()

    def made(self) -> Reassociation | None:
        """The rebuilt diagram, if it multiplies less, or has merged axes where that is asked for."""
        regions = self._chosen_regions() if self.reorder else {}
        if not (any(self._units(region) for region, _ in regions.values()) if self.scales else regions or self.merge):
            return None
        graph = self.graph
        terms = MergingGraph(graph.dom, self.sizes) if self.merge else HashConsedGraph(graph.dom)
        names: Sequence[str] = terms.merged if isinstance(terms, MergingGraph) else ()
        image = {w: w for w in range(len(graph.dom))}
        marked: list[list[tuple[int, int]]] = []
        for place, node in enumerate(graph.nodes):
            root = self.first[place]
            if root in regions:
                region, order = regions[root]
                image[root] = _Emitter(terms, region, image, order, node.box).wire()
                marked += [[(f.wire, image[f.wire]) for f in region.factors], [(root, image[root])]]
            elif all(w in image for w in node.inputs):
                already = len(names)
                start = terms.add(node.box, [image[w] for w in node.inputs])
                image.update({root + k: start + k for k in range(len(node.box.cod))})
                if isinstance(terms, MergingGraph) and self.uses[root] == 1 and root not in self.ends:
                    terms.read_once.add(start)
                if len(names) > already:
                    marked += [[(w, image[w]) for w in node.inputs], [(root, start)]]
        outputs = tuple(image[w] for w in graph.outputs)
        kept = terms.renumbered(outputs)
        made = of_graph(
            reachable(Graph(graph.dom, tuple(terms.nodes), outputs)), self.source.cod, self.source.names,
            self.source.title,
        )  # fmt: skip
        before, after = self._work(graph), self._work(made.graph)
        many = any(_many(graph.nodes[p].box) for region, _ in regions.values() for p in region.inside)
        if not names if self.merge else after > WORTH * before and not (many or self.scales):
            return None
        stages = [tuple((a, kept[b]) for a, b in dict.fromkeys(stage) if b in kept) for stage in marked]
        still = {w: kept[v] for w, v in image.items() if v in kept}
        opened = of_graph(graph, self.source.cod, self.source.names, self.source.title)
        action = Reassociate(tuple(dict.fromkeys(names)), bool(regions), scales=self.scales)
        changed = tuple(stage for stage in stages if stage)
        return Reassociation(self.source, opened, made, changed, still, (before, after), action, self.shared)

    def _work(self, graph: Graph) -> int:
        return sum(self._multiplications(node.box) for node in graph.nodes)

    def _multiplications(self, box: Box) -> int:
        """Those of a contraction or a product; of a sum, its additions; else 0."""
        if not _multilinear(box) or isinstance(box.op, Rename) or cast_dtype(box.op):
            return 0
        points = math.prod(
            size_value(s, self.sizes) for s in {a.name: a.size for ty in box.dom for a in ty.axes}.values()
        )
        return points * max(1, len(box.dom) - 1)

    # -- regions --------------------------------------------------------------------------------------------------

    def _chosen_regions(self) -> _Regions:
        """The regions. Where they are to go only through arrays that are dead then, they stop at those that something
        else reads."""
        while True:
            regions, needed = self._regions()
            within = {self.first[p] for region, _ in regions.values() for p in region.inside} - set(regions)
            again = (within & needed) - self.stops
            if self.shared is not _Shared.DEAD or not again:
                return regions
            self.stops |= again

    def _regions(self) -> tuple[_Regions, set[int]]:
        """The regions whose order changes by the wires that they make, each with the pairs to contract in order; and
        the wires that are still needed."""
        graph = self.graph
        needed = set(graph.outputs)
        found: _Regions = {}
        for place in range(len(graph.nodes) - 1, -1, -1):
            node, root = graph.nodes[place], self.first[place]
            if not any(root + k in needed for k in range(len(node.box.cod))):
                continue
            region = self._region(place) if _multilinear(node.box) and not cast_dtype(node.box.op) else None
            if region is not None:
                arrays = tuple(frozenset(f.at.values()) for f in region.factors)
                lengths = tuple(size_value(s, self.sizes) for s in region.sizes)
                units = tuple(self._units(region))
                work, order = pairwise_order(arrays, frozenset(region.result.values()), lengths, units)
                boxes = [graph.nodes[p].box for p in region.inside]
                if units or any(map(_many, boxes)) or work <= GAIN * sum(map(self._multiplications, boxes)):
                    found[root] = region, order
                    needed.update(f.wire for f in region.factors)
                    continue
            needed.update(node.inputs)
        return found, needed

    def _units(self, region: ProductRegion) -> list[int]:
        """The factors of a region (bit sets) that are multiplied with each other before others, if there is a choice
        of `scales`: where two factors are multiplied block by block of an axis along which they have scales, with these
        (first), or with each other (last). Matrix units read what is scaled last as it is stored, in 8 bits, say."""
        result, factors = set(region.result.values()), [set(f.at.values()) for f in region.factors]
        for pair in combinations(range(len(factors)), 2) if self.scales else ():
            one, two = (factors[k] for k in pair)
            rest = [k for k in range(len(factors)) if k not in pair]
            inner, others = (one & two) - result, set().union(*(factors[k] for k in rest))
            scaled = all(factors[k] - result <= inner for k in rest if factors[k] & inner)  # no further products
            if scaled and (one - two) & result and (two - one) & result and inner & others and inner - others:
                if self.scales == LAST:
                    return [1 << pair[0] | 1 << pair[1]]
                scales = [sum(1 << n for n in rest if factors[n] <= factors[k]) for k in pair]
                scales[1] &= ~scales[0]  # what fits both is applied once
                return [1 << k | own for k, own in zip(pair, scales, strict=True)]
        return []

    def _region(self, place: int) -> ProductRegion | None:
        """The largest region whose result a box makes; None where it has one factor, or sums over nothing."""
        root = self.graph.nodes[place].box
        if not isinstance(root.op, ARITHMETIC):
            return None
        region = ProductRegion({a.name: k for k, a in enumerate(root.cod[0].axes)}, [], [])
        for axis in root.cod[0].axes:
            region.index(axis)
        todo: list[tuple[int, Mapping[str, int]]] = []
        count = self._opened(region, place, region.result, todo)
        while todo:
            wire, at = todo.pop(0)
            inner = self.maker[wire]
            box = self.graph.nodes[inner].box if inner >= 0 else None
            if box is not None and wire not in self.stops and _multilinear(box) and count + len(box.dom) - 1 <= MOST:
                count += self._opened(region, inner, at, todo) - 1
            else:
                region.factors.append(RegionFactor(wire, at))
        summed = len(region.names) > len(region.result)
        return region if summed and 2 <= len(region.factors) <= MOST else None

    def _opened(
        self, region: ProductRegion, place: int, at: Mapping[str, int], todo: list[tuple[int, Mapping[str, int]]]
    ) -> int:
        """Adds a box's operands to what a region is made of, its result being at these indices; how many there are."""
        node, op = self.graph.nodes[place], self.graph.nodes[place].box.op
        if place not in region.inside:
            region.inside.append(place)
        old = {new: name for name, new in new_names(op).items()}
        here = {old.get(name, name): index for name, index in at.items()}
        for wire in node.inputs:
            for axis in self.types[wire].axes:
                if axis.name not in here:
                    here[axis.name] = region.index(axis)
        for k, wire in enumerate(node.inputs):
            inner = {name: here[name] for name in self.types[wire].names}
            if k == 1 and scalar_function(op) == "div":
                region.factors.append(RegionFactor(wire, inner, True))
            else:
                todo.append((wire, inner))
        return len(node.inputs)


def _multilinear(box: Box) -> bool:
    """Whether a box is a product of its inputs, summed over axes, in any layout: of real numbers."""
    if len(box.cod) != 1 or any(ty.element != "real" for ty in (*box.dom, *box.cod)):
        return False
    fn = scalar_function(box.op)
    return transposes(box) or monoid_of(box.op) == "sum" or fn in ("mul", "div") or isinstance(fn, Cast)


def _many(box: Box) -> bool:
    return isinstance(box.op, Einsum) and 2 < len(box.dom) <= MOST


# -- the order, and its boxes ------------------------------------------------------------------------------------------


class _Emitter:
    """The boxes of a region in an order."""

    def __init__(
        self,
        terms: HashConsedGraph,
        region: ProductRegion,
        image: Mapping[int, int],
        order: Sequence[tuple[int, int]],
        root: Box,
    ) -> None:
        self.terms, self.region, self.image, self.order, self.root = terms, region, image, order, root

    def wire(self) -> int:
        """The wire of the region's result."""
        region, line = self.region, self.root.line
        made: dict[int, tuple[int, bool]] = {}
        for k, factor in enumerate(region.factors):
            names = {axis: region.names[index] for axis, index in factor.at.items()}
            pairs = {axis: name for axis, name in names.items() if axis != name}
            wire = self.terms.rename(self.image[factor.wire], pairs)
            wire, below = self._turned(wire, factor.below and set(self._remaining(1 << k)) != set(names.values()))
            for name in names.values():
                if name not in self._remaining(1 << k):
                    wire = self.terms.reduce("sum", name, wire, line)
            made[1 << k] = wire, factor.below and not below
        for left, right in self.order:
            made[left | right] = self._pair(*made[left], *made[right], self._remaining(left | right))
        wire, below = made[(1 << len(region.factors)) - 1]
        return self.terms.cast(self._turned(wire, below)[0], self.root.cod[0])

    def _turned(self, wire: int, below: bool) -> tuple[int, bool]:
        """The wire, or one over it; and whether it is that."""
        return (self.terms.map("div", self.terms.const(1), wire, line=self.root.line), True) if below else (wire, False)

    def _remaining(self, taken: int) -> list[str]:
        """Those indices of the factors in `taken` (a bit set) that the other factors or the result still need."""
        own = [i for k, f in enumerate(self.region.factors) if taken >> k & 1 for i in f.at.values()]
        rest = {i for k, f in enumerate(self.region.factors) if not taken >> k & 1 for i in f.at.values()}
        rest.update(self.region.result.values())
        return [self.region.names[i] for i in dict.fromkeys(own) if i in rest]

    def _pair(self, a: int, a_below: bool, b: int, b_below: bool, names: Sequence[str]) -> tuple[int, bool]:
        """The product of two wires, summed over the axes that are not named; and whether it is divided by."""
        terms, line = self.terms, self.root.line
        mine, theirs = set(terms.names(a)), set(terms.names(b))
        if mine | theirs == set(names) and (mine <= theirs or theirs <= mine):
            if a_below == b_below:
                return terms.map("mul", a, b, line=line), a_below
            return terms.map("div", *((b, a) if a_below else (a, b)), line=line), False
        a, b = (self._turned(w, below)[0] for w, below in ((a, a_below), (b, b_below)))
        wanted = [n for n in self.root.cod[0].names if n in names]
        last = set(wanted) == set(names) == set(self.root.cod[0].names)
        return terms.einsum((a, b), wanted if last else names, line), False
