"""Equality in the category: whether two flat forms are one diagram.

A flat form is a directed graph whose edges know which output they leave and which input they enter, so
equality up to interchange, symmetry and the comonoid laws is isomorphism of such graphs over the same
inputs and outputs. It falls into two parts:

- **Live boxes**, those from which an output can be reached. The walk back from the outputs meets them in
  an order that any isomorphism must keep, so they are numbered and compared, in linear time.
- **Dead boxes**, from which none can, closed parts included. They may encode any graph. Those of both
  diagrams are colored together, and colors refined until every two boxes of one color have the same
  surroundings in colors. In a connected component a box with a color of its own is fixed: an
  isomorphism has no choice there, and what its neighbors must be is said by their colors. So the fixed
  boxes are taken out, and what is left falls into smaller components, compared as a multiset; trees,
  chains and copies of them end here, in O(n log n). Where nothing is fixed one box is individualized,
  and its partner searched for among those of its color: exact, under a bound on the work.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator, Hashable, Iterable
from itertools import accumulate
from typing import Any

from catdiag.category.graph import Box, Column, Graph, Morphism, NestingOp
from catdiag.util.errors import EqualityUndecided

WORK = 10_000_000
"""The most boxes and edges that a search examines before `EqualityUndecided`: some seconds."""


class _Canon:
    """The canonical data of a flat form that comparisons need, computed once.

    Wires are renumbered: the inputs, then the outputs of live boxes in the order of the walk. `reads` lists the inputs
    of the live boxes, one box after another, then the diagram's outputs. `which` are the places of the live boxes in
    `table`. `dead` has each dead box with its inputs: a wire's new number, or (−1 − the dead box's place here, its
    output).
    """

    __slots__ = ("dead", "fingerprint", "nested", "reads", "table", "which")

    def __init__(self, diagram: Morphism) -> None:
        graph = diagram.graph
        table, which, read = graph.lists()
        arity, ports = [b.dom._length for b in table], [b.cod._length for b in table]
        inputs = len(graph.dom)
        # The start of each node's inputs in `reads`, and its first output.
        start = list(accumulate([arity[k] for k in which], initial=0))
        first = list(accumulate([ports[k] for k in which], initial=inputs))
        producer = [-1] * inputs
        if all(p == 1 for p in ports):
            producer.extend(range(len(which)))
        else:
            for place, k in enumerate(which):
                producer.extend([place] * ports[k])
        number = list(range(inputs)) + [-1] * (len(producer) - inputs)
        count = inputs
        live = bytearray(len(which))
        order: list[int] = []
        stack = list(reversed(graph.outputs))
        while stack:
            place = producer[stack.pop()]
            if place < 0 or live[place]:
                continue
            live[place] = 1
            order.append(place)
            for wire in range(first[place], first[place + 1]):
                number[wire] = count
                count += 1
            stack.extend(read[start[place] : start[place + 1]][::-1])
        reads: list[int] = []
        for place in order:
            reads.extend([number[w] for w in read[start[place] : start[place + 1]]])
        reads.extend([number[w] for w in graph.outputs])
        self.reads = reads
        self.table = table
        self.which = [which[place] for place in order]
        self.dead: list[tuple[Box, tuple[int | tuple[int, int], ...]]] = []
        if len(order) < len(which):
            at: dict[int, int] = {}
            for place, k in enumerate(which):
                if not live[place]:
                    at[place] = len(at)
                    sources: list[int | tuple[int, int]] = []
                    for w in read[start[place] : start[place + 1]]:
                        if number[w] >= 0:
                            sources.append(number[w])
                        else:
                            sources.append((-1 - at[producer[w]], w - first[producer[w]]))
                    self.dead.append((table[k], tuple(sources)))
        ops = [table[k].op for k in dict.fromkeys(which)]
        inner = {id(body): body for op in ops if isinstance(op, NestingOp) for body in op.bodies()}
        self.nested: tuple[Morphism, ...] = tuple(inner.values())
        self.fingerprint: int | None = None


def _canon(diagram: Morphism) -> _Canon:
    found: _Canon | None = diagram._canon
    if found is None:
        found = diagram._canon = _Canon(diagram)
    return found


def _inside_out(diagrams: Iterable[Morphism], known: bool = True) -> list[Morphism]:
    """The diagrams and all bodies of boxes in them, each once, inner bodies first.

    Without `known`, those with a cached fingerprint are left out, with everything inside of them.
    """
    found: list[Morphism] = []
    seen: set[int] = set()
    stack = [(d, False) for d in diagrams]
    while stack:
        item, ready = stack.pop()
        if ready:
            found.append(item)
        elif id(item) not in seen and (known or _canon(item).fingerprint is None):
            seen.add(id(item))
            stack.append((item, True))
            stack.extend((body, False) for body in _canon(item).nested)
    return found


def fingerprint(diagram: Morphism) -> int:
    """A hash that equal diagrams share within one run of Python; cached, and computed without recursion.

    >>> from catdiag.category.diagram import box, swap
    >>> from catdiag.category.types import ArrayType
    >>> f, X = box("f", ArrayType(), ArrayType()), ArrayType()
    >>> fingerprint(f @ f) == fingerprint(swap(X, X) >> (f @ f) >> swap(X, X))
    True
    """
    known = _canon(diagram).fingerprint
    if known is not None:
        return known
    value = 0
    for item in _inside_out([diagram], known=False):
        canon = _canon(item)
        if canon.fingerprint is None:
            tokens: list[int] = []
            for b, sources in canon.dead:
                reads = tuple([s if isinstance(s, int) else (tokens[-1 - s[0]], s[1]) for s in sources])
                tokens.append(hash((b, reads)))
            # A sum, since dead boxes have no order.
            dead = sum(tokens) & 0xFFFF_FFFF_FFFF
            used = {k: hash(canon.table[k]) for k in dict.fromkeys(canon.which)}
            boxes = tuple([used[k] for k in canon.which])
            canon.fingerprint = hash((item.dom, item.cod, boxes, tuple(canon.reads), dead))
        value = canon.fingerprint
    return value  # of the last one, the diagram itself


def isomorphic(left: Morphism, right: Morphism) -> bool:
    """Whether two diagrams are equal in the category. Raises EqualityUndecided instead of guessing.

    Bodies of boxes are compared from the innermost out, without recursion.
    """
    if left.dom != right.dom or left.cod != right.cod:
        return False
    if left._canon is None or right._canon is None:
        seen = _at_sight(left.graph, right.graph)
        if seen is not None:
            return seen
    if not _canon(left).nested and not _canon(right).nested:
        return _same(left, right, {})
    classes: dict[int, int] = {}
    known: dict[Hashable, list[tuple[Morphism, int]]] = {}
    for item in _inside_out([*_canon(left).nested, *_canon(right).nested]):
        alike = known.setdefault(fingerprint(item), [])
        found = next((k for other, k in alike if _same(other, item, classes)), None)
        if found is None:
            found = len(classes)
            alike.append((item, found))
        classes[id(item)] = found
    return _same(left, right, classes)


def _at_sight(left: Graph, right: Graph) -> bool | None:
    """Equality of flat forms of the same types where no walk is needed to decide it; None where one is.

    They are equal if they are stored equally, and different if one has more boxes of some kind. Boxes with bodies are
    left to the walk, since comparing them would recurse.
    """
    if left is right:
        return True
    if len(left) != len(right):
        return False
    (mine, which, reads), (theirs, other, others) = left.common_columns(right)
    if any(isinstance(b.op, NestingOp) for table in (mine, theirs) for b in table):
        return None
    # Mostly the boxes are in the same places of both tables, except for a few: then no hash is needed.
    apart = next((k for k, (b, c) in enumerate(zip(mine, theirs, strict=False)) if b != c), None)
    if apart is None and len(mine) == len(theirs) and _equal_columns(which, other):
        return True if left.outputs == right.outputs and _equal_columns(reads, others) else None
    if apart is not None and apart in which and mine[apart] not in theirs:
        return False
    numbers: dict[Box, int] = {}
    which, other = (
        _renumbered(places, [numbers.setdefault(b, len(numbers)) for b in table])
        for table, places in ((mine, which), (theirs, other))
    )
    if not _equal_columns(which, other):
        return None if _counts(which, len(numbers)) == _counts(other, len(numbers)) else False
    return True if left.outputs == right.outputs and _equal_columns(reads, others) else None


def _renumbered(places: Column, numbers: list[int]) -> Column:
    if numbers == list(range(len(numbers))):
        return places
    if isinstance(places, list):
        return [numbers[k] for k in places]
    import numpy as np

    return np.array(numbers, dtype=np.int64)[places]


def _equal_columns(left: Column, right: Column) -> bool:
    if isinstance(left, list):
        return left == right
    import numpy as np

    return np.array_equal(left, right)


def _counts(places: Column, most: int) -> list[int]:
    """The number of occurrences of each number below `most`."""
    if isinstance(places, list):
        counted = Counter(places)
        return [counted[k] for k in range(most)]
    import numpy as np

    found: list[int] = np.bincount(places, minlength=most).tolist()
    return found


def _same(left: Morphism, right: Morphism, classes: dict[int, int]) -> bool:
    """Equality, given the equivalence classes of all bodies in the two diagrams."""
    if left.dom != right.dom or left.cod != right.cod:
        return False
    a, b = _canon(left), _canon(right)
    if a is b:
        return True
    if a.reads != b.reads or len(a.which) != len(b.which) or len(a.dead) != len(b.dead):
        return False
    numbers: dict[Hashable, int] = {}
    sides: list[list[int]] = []
    for side in (a, b):
        own = {k: numbers.setdefault(_key(side.table[k], classes), len(numbers)) for k in dict.fromkeys(side.which)}
        sides.append([own[k] for k in side.which])
    return sides[0] == sides[1] and (not a.dead or _same_dead(a, b, classes))


def _key(b: Box, classes: dict[int, int]) -> Hashable:
    if not isinstance(b.op, NestingOp):
        return b
    return (b.op.without_bodies(), b.dom, b.cod, tuple([classes[id(body)] for body in b.op.bodies()]))


# -- dead boxes -------------------------------------------------------------------------------------


def _same_dead(a: _Canon, b: _Canon, classes: dict[int, int]) -> bool:
    """Whether the dead boxes of two diagrams with equal live boxes can be matched."""
    size = len(a.dead)
    near: list[list[tuple[int, int]]] = [[] for _ in range(2 * size)]
    kinds: dict[Hashable, int] = {}
    labels: dict[tuple[int, int], int] = {}
    color: dict[int, int] = {}
    for base, canon in ((0, a), (size, b)):
        for k, (box, sources) in enumerate(canon.dead, base):
            fixed = tuple([s if isinstance(s, int) else -1 for s in sources])
            color[k] = kinds.setdefault((_key(box, classes), fixed), len(kinds))
            for position, source in enumerate(sources):
                if not isinstance(source, int):
                    other = base - 1 - source[0]
                    label = labels.setdefault((position, source[1]), len(labels))
                    near[k].append((other, 2 * label))
                    near[other].append((k, 2 * label + 1))
    matcher = _Matcher(near)
    return matcher.match(range(size), range(size, 2 * size), color)


# A coloring: the color of each box in it. Edges to boxes that are not in it do not count.
_Colors = dict[int, int]


class _Matcher:
    """Isomorphism of colored graphs with labeled edges: `near[k]` lists the neighbors of box k with labels."""

    def __init__(self, near: list[list[tuple[int, int]]]) -> None:
        self.near = near
        self.work = 0

    def match(self, left: Iterable[int], right: Iterable[int], color: _Colors) -> bool:
        """Whether the boxes of two sides can be matched, preserving colors and edges."""
        left, right = list(left), list(right)
        if sorted([color[k] for k in left]) != sorted([color[k] for k in right]):
            return False
        if not self.refine(color, None, frozenset(left)):
            return False
        codes = _Codes(color)
        return bool(_run(self.code(left, codes)) == _run(self.code(right, codes)))

    def refine(self, color: _Colors, fresh: list[int] | None, left: frozenset[int]) -> bool:
        """Color refinement: splits colors until boxes of one color have equally many neighbors of each color by each
        label.

        `fresh` lists the colors to start from (None: all). When a color splits, all its parts but the largest are
        processed, so that each edge is visited O(log n) times. False as soon as a color has more boxes on one side than
        on the other: then the sides cannot be matched.
        """
        cells: dict[int, dict[int, None]] = {}
        for k, c in color.items():
            cells.setdefault(c, {})[k] = None
        queue = deque(cells if fresh is None else fresh)
        unused = max(cells, default=-1) + 1
        near = self.near
        while queue:
            splitter = queue.popleft()
            touched: dict[int, list[int]] = {}
            for member in cells[splitter]:
                self.work += len(near[member])
                for k, label in near[member]:
                    if k in color:
                        touched.setdefault(k, []).append(label)
            groups: dict[int, dict[tuple[int, ...], list[int]]] = {}
            for k, seen in touched.items():
                if len(cells[color[k]]) > 1:
                    seen.sort()
                    groups.setdefault(color[k], {}).setdefault(tuple(seen), []).append(k)
            for c, by_view in groups.items():
                cell = cells[c]
                parts = list(by_view.values())
                untouched = len(cell) - sum(map(len, parts))
                if not untouched and len(parts) == 1:
                    continue
                if any(2 * len(left.intersection(part)) != len(part) for part in parts):
                    return False
                # The largest part keeps the color, unless the untouched are more.
                parts.sort(key=len, reverse=True)
                if untouched < len(parts[0]):
                    rest = list(cell) if not untouched else [k for k in cell if k not in touched]
                    if untouched:
                        parts.append(rest)
                    parts = parts[1:]
                for part in parts:
                    new = unused
                    unused += 1
                    cells[new] = dict.fromkeys(part)
                    for k in part:
                        del cell[k]
                        color[k] = new
                    # If `c` is still queued, so are all its parts; if not, all but the largest must be.
                    queue.append(new)
        return True

    def components(self, members: list[int], color: _Colors) -> list[list[int]]:
        """The connected components of the members, in order; edges to other boxes do not connect."""
        open_ = dict.fromkeys(members)
        found: list[list[int]] = []
        for start in members:
            if start not in open_:
                continue
            del open_[start]
            component = [start]
            for k in component:
                for other, _ in self.near[k]:
                    if other in open_:
                        del open_[other]
                        component.append(other)
            found.append(component)
        return found

    def code(self, members: list[int], codes: _Codes) -> _Steps:
        """The codes of the components of the members, sorted: equal codes mean isomorphic components."""
        found: list[int] = []
        color = codes.color
        for component in self.components(members, color):
            colors = [color[k] for k in component]
            signature: tuple[int, ...] = tuple(sorted(colors))
            seen: dict[int, int] = {}
            for c in colors:
                seen[c] = seen.get(c, 0) + 1
            moving = [k for k in component if seen[color[k]] > 1]
            if len(moving) < len(component):
                inner = (yield self.code(moving, codes)) if moving else ()
                found.append(codes.of((signature, inner)))
                continue
            alike = codes.long_keys.setdefault(signature, [])
            for other, code in alike:
                if (yield self.search(other, component, color)):
                    found.append(code)
                    break
            else:
                code = codes.of((signature, len(alike)))
                alike.append((component, code))
                found.append(code)
        return tuple(sorted(found))

    def search(self, left: list[int], right: list[int], color: _Colors) -> _Steps:
        """Whether two connected components with equal colors, none of which is on a single box, are isomorphic."""
        cells: dict[int, list[int]] = {}
        for k in left:
            cells.setdefault(color[k], []).append(k)
        cell = min(cells, key=lambda c: (len(cells[c]), c))
        chosen = cells[cell][0]
        fresh = max(cells) + 1
        left_set = frozenset(left)
        for partner in right:
            if color[partner] != cell:
                continue
            self.work += len(left) + len(right)
            if self.work > WORK:
                raise EqualityUndecided(
                    f"cannot tell whether two diagrams are equal: boxes that reach no output, {len(left)} connected "
                    "ones among them, look alike and matching them takes too much work; drop them, or compare "
                    "meanings with cd.prove"
                )
            refined = {k: color[k] for part in (left, right) for k in part}
            refined[chosen] = refined[partner] = fresh
            if not self.refine(refined, [fresh], left_set):
                continue
            codes = _Codes(refined)
            if (yield self.code(left, codes)) == (yield self.code(right, codes)):
                return True
        return False


class _Codes:
    """Numbers for isomorphism classes of components under one coloring, assigned in order of appearance."""

    def __init__(self, color: _Colors) -> None:
        self.color = color
        self.numbers: dict[Hashable, int] = {}
        self.long_keys: dict[tuple[int, ...], list[tuple[list[int], int]]] = {}

    def of(self, key: Hashable) -> int:
        return self.numbers.setdefault(key, len(self.numbers))


# A computation that yields the computations it needs and is sent their results: calls without recursion.
_Steps = Generator[Any, Any, Any]


def _run(steps: _Steps) -> Any:
    stack = [steps]
    value: Any = None
    while stack:
        try:
            needed = stack[-1].send(value)
        except StopIteration as end:
            stack.pop()
            value = end.value
        else:
            stack.append(needed)
            value = None
    return value
