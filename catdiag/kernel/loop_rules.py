"""Loops and groups: what they mean, and the premises under which they do.

**List induction (A10).** A fold carries `state`, which says what each component is of a list. It means `state`
of the whole list once three things are proved, for fresh arrays and arbitrary natural a and b:

    state(∅) = unit        state(a + b) = step(state(a), b) for b ≥ 1        step is defined on state(a), b ≥ 1

The argument: a partition of the list into consecutive non-empty blocks is folded from `unit`; by induction on
the number of blocks, the state after them is `state` of what was read. With `state(a + b) = merge(state(a),
state(b))` proved as well, the same holds of every tree of merges. A step may hold folds over other axes: they mean
their own state, by their own premises for any block of this one.

**Skipped blocks.** A fold may have `live`, truth values of a block, and it is proved that

    state(a + b) = state(a) where nothing is live in b

for any lists a and b. So a block in which nothing is live may be skipped, wherever it stands, and so may a part of a
tree of merges that has only such blocks: with a = ∅ its state is unit, and step(unit, b) = state(b). It may also
have `extent`, arrays of numbers lo and hi, where it is proved that at no x of the whole list with x < lo at all their
indices, or hi ≤ x at all, anything is live. There an input that is the position along its one axis is that, and no
fresh array. So a loop may begin at any u that is at most every lo, and stop at any v that is at least every hi: what is
live in the block before u, or from v on, is so in the list, `live` being weaved over x as the body of a group is over
its axes. Skipped blocks owe nothing.

**Groups (A1).** A group means its body on whole axes once, for fresh arrays and every tile [o, o+l) of an axis,
the body on the tile is at j, symbol for symbol, the body on the whole at o + j.

That blocks and tiles `[k·g, min((k+1)·g, n))` partition every axis, for every block size g ≥ 1, is a goal of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from catdiag.kernel.context import Ask, Context, integer
from catdiag.kernel.definedness import Obligation, owes
from catdiag.kernel.facts import Fact, arithmetic, negate, nonzero, real
from catdiag.kernel.judgments import Json, Judge, numbered, only
from catdiag.kernel.semantics import Accept, Program, Sizes, Wire, evaluate, fold_length, inputs_of, numeric, view
from catdiag.kernel.size_scope import cut_only, local_name, symbols_of_node
from catdiag.kernel.terms import (
    LOGICAL,
    ONE,
    ZERO,
    Data,
    KernelError,
    Term,
    add,
    exchanged,
    fn,
    idx,
    leaves,
    mul,
    read,
    size,
    substitute,
)  # fmt: skip
from catdiag.kernel.well_formed import GUIDES

Facts = tuple[Fact, ...]


@dataclass
class Meaning:
    """The outputs of a program, and what it owes beside what they owe.

    `wires` holds the states of its loops on whole lists: the premises take for granted what these owe of elements.
    `owed` holds that every read of a view is in range.
    """

    outputs: list[Wire] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)
    owed: list[Obligation] = field(default_factory=list)


class Loops(Judge):
    """Evaluates programs, and checks the premises of the loops and groups in them."""

    def __init__(self, ask: Ask) -> None:
        super().__init__(ask)
        self._accepted: dict[str, list[frozenset[Fact]]] = {}
        self._proofs: list[Json] = []
        self._tiles: set[str] = set()
        self._tiled = False

    def fold_proof(self) -> Json:
        """The proof of the next fold."""
        if not self._proofs:
            raise KernelError("a fold without a proof")
        return self._proofs.pop(0)

    def meaning(
        self,
        program: Program,
        inputs: Sequence[Wire],
        sizes: Sizes,
        facts: Facts,
        elements: Mapping[str, str],
        scope: frozenset[str],
    ) -> Meaning:
        """What a program means on given wires. Raises KernelError where a loop or group has no proof.

        The premises are checked for fresh arrays; of those, what is known is the size facts here, and the signs
        that the inputs have wherever they are read.
        """
        result = Meaning()
        result.outputs = evaluate(program, inputs, sizes, self.accept(result, facts, elements, scope))
        return result

    def accept(self, result: Meaning, facts: Facts, elements: Mapping[str, str], scope: frozenset[str]) -> Accept:
        """What `evaluate` asks of views, folds and groups."""

        def accepted(node: Json, args: Sequence[Wire], sizes: Sizes) -> None:
            if node["op"] == "view":
                made, duties = view(node, args, sizes)
                for table in args[len(node["reads"]) :]:
                    if not integer(Context(self.ask, dict(table.axes), facts, elements), numeric(table.term)):
                        raise KernelError(f"a view reads at {table.term}, which is no integer by its form")
                ctx = Context(self.ask, dict(made.axes), facts, elements)
                for guards, index, n in duties:
                    bounds = (fn("le", ZERO, index), fn("lt", index, n))
                    result.owed += [Obligation(made.axes, guards, c) for c in bounds]
                    # What an index owes is owed where it is read at, be the array the same at every index.
                    result.owed += [o.where(guards) for o in owes(ctx.where(guards), index, "extended")]
                return
            # Local sizes are those of tiles around the fold, and no tile is empty.
            inside = symbols_of_node(node) - scope
            if not inside <= self._tiles:
                raise KernelError(f"a {node['op']} mentions unknown sizes {sorted(inside - self._tiles)}")
            given = [f for f in facts if _of_sizes(f)]
            given += [Fact((), (), fn("le", ONE, size(name))) for name in sorted(inside)]
            body = node["state" if node["op"] == "fold" else "body"]
            for k, (wire, d) in enumerate(zip(args, body["inputs"], strict=True)):
                ctx = Context(self.ask, dict(wire.axes), facts, elements)
                value, element = numeric(wire.term), d["element"]
                given += _signs_of_input(f"${k}", wire, ctx, element)
                if not {"int": integer(ctx, value), "real": ctx.real(value)}.get(element, True):
                    raise KernelError(f"input {d['name']} of a {node['op']} is not known to be {element}")
            if node["op"] == "fold":
                whole = {**sizes, node["block"]: fold_length(node, args)}
                result.wires += self.meaning(body, args, whole, facts, elements, scope).outputs
            places = _positions(node, args)
            known = self._accepted.setdefault(json.dumps([node, sorted(places)], sort_keys=True), [])
            if not any(earlier <= set(given) for earlier in known):
                if node["op"] == "fold":
                    self._fold(node, tuple(given), scope, places)
                else:
                    self._group(node, tuple(given), scope, places)
                known.append(frozenset(given))

        return accepted

    def owed(
        self, found: Meaning, facts: Facts, elements: Mapping[str, str], all_of_it: bool = False
    ) -> list[Obligation]:
        """What a program owes in the light of facts, each obligation once; all of what its outputs owe, if asked."""
        result: dict[Obligation, None] = {}
        if all_of_it:
            for wire in found.outputs:
                ctx = Context(self.ask, dict(wire.axes), facts, elements)
                result |= dict.fromkeys(owes(ctx, valued(wire), wire.element, all_of_it))
            return list(result)
        for part, ctx, obligations in self._dues(found, facts, elements):
            known = part != "in range"  # those of outputs and states are what a context does not entail already
            result |= dict.fromkeys(o for o in obligations if known or not o.context(ctx).entails(o.condition))
        return list(result)

    def _dues(
        self, found: Meaning, facts: Facts, elements: Mapping[str, str]
    ) -> Iterator[tuple[str, Context, list[Obligation]]]:
        """All that a program owes: of its outputs, of the states that its loops take for granted, and that its reads
        are in range. Whoever evaluates a program has each of these met, or hands it on to whoever evaluates it."""
        for kind, wires in (("", found.outputs), ("within ", found.wires)):
            for k, wire in enumerate(wires):
                ctx = Context(self.ask, dict(wire.axes), facts, elements)
                yield f"{kind}{k}", ctx, owes(ctx, valued(wire), wire.element)
        yield "in range", Context(self.ask, {}, facts, elements), found.owed

    # -- premises ----------------------------------------------------------------------------------

    def _fold(self, node: Json, assume: Facts, scope: frozenset[str], places: frozenset[int]) -> None:
        block, axis = local_name(node["block"], scope | self._tiles), node["axis"]
        proof = self.fold_proof()
        only(proof, "unit", "step", "merge", "idle", "defined")
        _require_bodies(node)
        cut_only(node["state"], {axis: block})
        a, b = size("%a"), size("%b")
        arrays = _fresh_arrays(node["state"])
        elements = {str(d["name"]): str(d["element"]) for d in arrays["inputs"]}

        def inputs(length: Term, start: Term | None = None) -> list[Wire]:
            return _moved(inputs_of(arrays, {block: length}), axis, start)

        def state(length: Term, start: Term | None = None) -> Meaning:
            return self.meaning(arrays, inputs(length, start), {block: length}, assume, elements, scope)

        def made(body: str, given: Sequence[Wire], sizes: Sizes) -> Meaning:
            return self.meaning(node[body], given, sizes, assume, elements, scope)

        whole, first, second = state(add(a, b)), state(a), state(b, a)
        if any(axis in dict(w.axes) for w in whole.outputs):
            raise KernelError(f"a component of the state has the streamed axis {axis!r}")
        # Folds inside have premises of their own, for any block of this one, which is not empty.
        self._tiles.add(block)
        step = made("step", [*first.outputs, *inputs(b, a)], {block: b})
        self._tiles.remove(block)
        merge = made("merge", [*first.outputs, *second.outputs], {})
        some = Fact((), (), fn("le", ONE, b))
        of_blocks = (*assume, some, *self._of_elements(state, add(a, b), assume, elements))
        of_both = (*of_blocks, Fact((), (), fn("le", ONE, a)))
        premises = {
            "unit": (state(ZERO), made("unit", [], {}), assume),
            "step": (whole, step, of_blocks),
            "merge": (whole, merge, of_both),
        }
        for name, (wanted, found, facts) in premises.items():
            if [(w.axes, w.element) for w in found.outputs] != [(w.axes, w.element) for w in whole.outputs]:
                raise KernelError(f"the {name} of a fold does not have the type of its state")
            for j, (of_list, here) in enumerate(zip(wanted.outputs, found.outputs, strict=True)):
                ctx = Context(self.ask, dict(of_list.axes), facts, elements)
                self.holds(ctx, fn("eq", numeric(of_list.term), numeric(here.term)), self.item(proof, name, j))
            self._all_met(found, facts, elements, proof, name)
        # What the state of a list owes of its elements is owed where the loop stands; its reads are in range of any.
        self._all_met(replace(first, outputs=[]), assume, elements, proof, "state")

        if set(node) & set(GUIDES):
            known = (*assume, *self._of_elements(state, add(a, b), assume, elements))
            self._passed_over(node, proof, (whole.outputs, first.outputs), inputs(b, a), known, elements, scope)
            if "extent" in node:
                of_list, of_block = (
                    self.meaning(node["live"], given, {block: n}, known, elements, scope).outputs[0]
                    for given, n in ((inputs(add(a, b)), add(a, b)), (inputs(b, a), b))
                )
                if substitute(of_list.term, {("idx", axis): add(a, idx(axis))}) != of_block.term:
                    raise KernelError(f"what is live in a loop with an extent is not weaved over {axis!r}")
            self._beyond(node, proof, _placed(inputs(add(a, b)), places), known, elements, scope)
        self.consumed(proof)
        self.axioms.add("A10")
        self._tiling()

    def _passed_over(
        self,
        node: Json,
        proof: Json,
        states: tuple[list[Wire], list[Wire]],
        block: list[Wire],
        known: Facts,
        elements: Mapping[str, str],
        scope: frozenset[str],
    ) -> None:
        """Checks that a block in which nothing is live changes no state: the state of both lists is that of the
        first."""
        (live,) = self._guide(node, "live", "block", block, known, elements, scope, proof)
        dead = [Obligation(live.axes, (), c) for c in (fn("not", live.term), negate(live.term))]
        facts = self._knowing(dead, known, elements, self.item(proof, "idle", "live"))
        proved: list[tuple[Wire, Term]] = []
        for k, (both, first) in enumerate(zip(*states, strict=True)):
            ctx = Context(self.ask, dict(both.axes), facts, elements)
            # What was proved of the components before it is used in this one, at the indices that it was proved for.
            equal = {numeric(w.term): t for w, t in proved if dict(w.axes).items() <= ctx.ranges.items()}
            left, right = numeric(both.term), numeric(first.term)
            self.holds(ctx, fn("eq", exchanged(left, equal), right), self.item(proof, "idle", f"live {k}"))
            proved.append((both, right))

    def _beyond(
        self,
        node: Json,
        proof: Json,
        whole: list[Wire],
        known: Facts,
        elements: Mapping[str, str],
        scope: frozenset[str],
    ) -> None:
        """Checks that nothing is live outside of the bounds `extent`."""
        if "extent" not in node:
            return
        (live,) = self._guide(node, "live", "list", whole, known, elements, scope, proof)
        lo, hi = self._guide(node, "extent", "list", whole, known, elements, scope, proof)
        x = idx(node["axis"])
        for name, bound, c in (("lo", lo, fn("lt", x, numeric(lo.term))), ("hi", hi, fn("le", numeric(hi.term), x))):
            if node["axis"] in dict(bound.axes):
                raise KernelError(f"the extent of a fold has its axis {node['axis']!r}")
            words = self.item(proof, "idle", name)
            facts = self._knowing([Obligation(bound.axes, (), c)], known, elements, words)
            ctx = Context(self.ask, dict(live.axes), facts, elements)
            self.holds(ctx, negate(live.term), self.item(proof, "idle", f"{name} 0"))

    def _guide(
        self,
        node: Json,
        name: str,
        part: str,
        given: list[Wire],
        facts: Facts,
        elements: Mapping[str, str],
        scope: frozenset[str],
        proof: Json,
    ) -> list[Wire]:
        if name not in node:
            raise KernelError(f"a fold with an extent has no {name}")
        sizes = {node["block"]: fold_length(node, given)}
        found = self.meaning(node[name], given, sizes, facts, elements, scope)
        if name == "live" and found.outputs[0].term.op not in LOGICAL:
            raise KernelError("what is live is an array of truth values")
        # What a loop asks has an answer on every list, by what is known of its elements.
        self._all_met(found, facts, elements, proof, f"{name} {part}")
        return found.outputs

    def _knowing(self, where: list[Obligation], facts: Facts, elements: Mapping[str, str], proof: Json) -> Facts:
        """Facts, and what holds of all its indices, in its own words and in those that a proof gives."""
        only(proof, "facts")
        facts += tuple(fact for o in where for fact in o.saying(o.condition))
        return facts + self.derived_facts(where, facts, elements, proof)

    def _of_elements(self, state: Any, length: Term, assume: Facts, elements: Mapping[str, str]) -> list[Fact]:
        """What the state of a list owes of single elements, as facts about a part of the list.

        Where the state of the whole list is defined (it is owed by the theorem), what it owes for every index below
        the length n, in words that do not mention n, holds below any smaller length too; and of a part that begins at
        o, if what the state of that owes at i is, word for word, what the state of the whole owes at o + i. It is not
        where the state reads at computed positions, say.
        """
        n, o = size("%n"), size("%o")
        parts: set[tuple[Any, ...]] = set()
        found: dict[Fact, tuple[Any, ...]] = {}
        for start in (o, None):
            for k, wire in enumerate(state(n, start).outputs):
                ctx = Context(self.ask, dict(wire.axes), assume, elements)
                for owed in owes(ctx, valued(wire), wire.element):
                    if start is not None:
                        parts.add((k, owed))
                        continue
                    if any("%n" in leaves(c, "size") for c in (owed.condition, *owed.guards)):
                        continue
                    if any(m != n and "%n" in leaves(m, "size") for _, m in owed.ranges):
                        continue
                    put: dict[tuple[str, Data], Term] = {
                        ("idx", name): add(o, idx(name)) for name, m in owed.ranges if m == n
                    }
                    guards = tuple(substitute(g, put) for g in owed.guards)
                    moved = Obligation(owed.ranges, guards, substitute(owed.condition, put))
                    ranges = tuple((name, length if m == n else m) for name, m in owed.ranges)
                    found[Fact(ranges, owed.guards, owed.condition)] = (k, moved)
        return [fact for fact, moved in found.items() if moved in parts]

    def derived_facts(
        self, defined: Sequence[Obligation], facts: Facts, names: Mapping[str, str], proof: Json
    ) -> Facts:
        """What obligations that are met say in other words: their conditions, rewritten by given steps."""
        found = []
        for k in sorted(proof.get("facts", {})):
            owed = numbered(defined)[k]
            ctx = owed.context(Context(self.ask, {}, facts, names))
            steps = self.item(proof, "facts", k)
            found += owed.saying(self.rewrite(ctx, owed.condition, steps))
        return tuple(found)

    def further_facts(
        self, defined: Sequence[Obligation], facts: Facts, names: Mapping[str, str], proof: Json
    ) -> Facts:
        """The same once more, by the facts that were derived: what a condition that holds is rewritten to holds."""
        only(proof, "facts")
        return self.derived_facts(defined, facts, names, proof)

    def _all_met(self, found: Meaning, facts: Facts, elements: Mapping[str, str], proof: Json, name: str) -> None:
        for part, ctx, owed in self._dues(found, facts, elements):
            for k, obligation in enumerate(owed):
                if not self.discharge(ctx, obligation, self.item(proof, "defined", f"{name} {part} {k}")):
                    raise KernelError(f"not defined on every block: {obligation}")

    def _group(self, node: Json, assume: Facts, scope: frozenset[str], places: frozenset[int]) -> None:
        body, tiles = node["body"], dict(node["tiles"])
        if any(inner["op"] == "group" for inner in body["nodes"]) or len(set(tiles.values())) != len(tiles):
            raise KernelError("groups are not nested, and each axis has a local size of its own")
        cut_only(body, tiles)
        self._tiles |= {local_name(local, scope) for local in tiles.values()}
        arrays = _fresh_arrays(body)
        whole_sizes = {local: size(f"%n {axis}") for axis, local in tiles.items()}
        tile_sizes = {local: size(f"%l {axis}") for axis, local in tiles.items()}
        move: dict[tuple[str, Data], Term] = {("idx", axis): add(size(f"%o {axis}"), idx(axis)) for axis in tiles}
        elements = {str(d["name"]): str(d["element"]) for d in arrays["inputs"]}
        placed = _placed(inputs_of(arrays, whole_sizes), places)
        whole = self.meaning(arrays, placed, whole_sizes, assume, elements, scope)
        placed = _placed(inputs_of(arrays, tile_sizes), places)
        moved = [Wire(substitute(w.term, move), w.axes, w.element) for w in placed]
        tile = self.meaning(arrays, moved, tile_sizes, assume, elements, scope)
        for w, t in zip(whole.outputs, tile.outputs, strict=True):
            missing = set(tiles) - {name for name, _ in t.axes}
            if missing:
                raise KernelError(f"an output of a group lacks axis {sorted(missing)[0]!r}")
            # What the tiles of an axis make is put together along that axis, and along no other.
            for (axis, n), (_, m) in zip(w.axes, t.axes, strict=True):
                if m != (tile_sizes[tiles[axis]] if axis in tiles else n):
                    raise KernelError(f"axis {axis!r} of an output of a group has size {m} on a tile")
            if substitute(w.term, move) != t.term:
                raise KernelError(f"the body of a group is not weaved over {', '.join(tiles)}")
        # What the loops inside take for granted is owed of the whole, and of a tile in the same words.
        for w, t in zip(whole.wires, tile.wires, strict=True):
            if substitute(valued(w), move) != valued(t):
                raise KernelError(f"a loop in a group over {', '.join(tiles)} has a state that is not weaved over them")
        # What the tiles read is in range where it is in the whole: what both owe in the same words is owed where the
        # group stands (it means its body), for all indices of the whole, and those of a tile are some of them.
        lengths = {axis: (whole_sizes[local], tile_sizes[local]) for axis, local in tiles.items()}
        alike = {owed.on_tile(lengths, move) for owed in whole.owed}
        ctx = Context(self.ask, {}, assume, elements)
        for owed in tile.owed:
            if owed not in alike and not owed.context(ctx).entails(owed.condition):
                raise KernelError(f"a tile reads beyond itself: {owed}")
        self.axioms.add("A1")
        self._tiling()

    def _tiling(self) -> None:
        """The tiles [k·g, min((k+1)·g, n)) of an axis: each index is in one, and in no other; none is empty."""
        n, g, k, j, i, r = (size(name) for name in "ngkjir")
        lo = mul(k, g)
        some = fn("le", ONE, g)
        inside = [fn("lt", i, n), fn("eq", i, add(lo, r)), fn("lt", r, g)]
        goals = [
            ([some, *inside], fn("and", fn("le", lo, i), fn("lt", i, add(lo, g)), fn("lt", lo, n))),
            ([some, fn("le", lo, i), fn("lt", i, add(lo, g))], fn("lt", i, mul(add(k, ONE, j), g))),
            ([some, fn("lt", lo, n)], fn("lt", lo, add(lo, g))),
        ]
        if not self._tiled:
            for hypotheses, goal in goals:
                if not self.ask(hypotheses, goal):
                    raise KernelError(f"the solver does not confirm that tiles partition an axis: {goal}")
            self._tiled = True


def valued(wire: Wire) -> Term:
    """What a wire carries, as its element type has it: a truth value, or a number."""
    return wire.term if wire.element == "bool" else numeric(wire.term)


def _of_sizes(fact: Fact) -> bool:
    """Whether a fact speaks of sizes only, or of all indices below sizes."""
    terms = (fact.condition, *fact.guards, *(n for _, n in fact.variables if n is not None))
    spoken = set().union(*(leaves(t, "idx") for t in terms))
    return all(map(arithmetic, terms)) and spoken <= {name for name, _ in fact.variables}


def _signs_of_input(name: str, wire: Wire, ctx: Context, element: str = "real") -> list[Fact]:
    """What is known of an input of a loop at every index, as facts about the fresh array that stands for it.

    It is the sign of a number, or that a truth value is true: what holds at each index by itself holds of every part
    of a list. What holds of several indices together, such as an order, is not handed on.
    """
    value = read(name, *(idx(axis) for axis, _ in wire.axes))
    term, found = wire.term, []
    if wire.term.op in LOGICAL:
        found += [Term("holds", value.data, value.args)] if element == "bool" and ctx.entails(term) else []
        return [Fact(tuple((axis, None) for axis, _ in wire.axes), (), c) for c in found]
    if ctx.positive(term):
        found.append(fn("lt", ZERO, value))
    else:
        if element == "extended" and term.op == "read" and ctx.real(term):
            found.append(real(value))
        if ctx.nonnegative(term):
            found.append(fn("le", ZERO, value))
        if ctx.nonzero(term):
            found.append(nonzero(value))
    # The fresh array may be thought to go on outside the input's range as it is somewhere inside.
    everywhere = tuple((axis, None) for axis, _ in wire.axes)
    return [Fact(everywhere, (), c) for c in found]


def _require_bodies(node: Json) -> None:
    """Raises KernelError where a body of a fold contains a loop that it may not contain."""
    for body in {"unit", "step", "merge", "state", *GUIDES} & set(node):
        if any(inner["op"] in ("fold", "group")[body == "step" :] for inner in node[body]["nodes"]):
            raise KernelError(f"the {body} of a fold contains no groups, and folds in its step only")


def _positions(node: Json, args: Sequence[Wire]) -> frozenset[int]:
    """The inputs that are the position along their one axis, not tiled, and that a fold which skips blocks may read."""
    cut = {axis for axis, _ in node.get("tiles", ())}
    asks = any(set(inner) & set(GUIDES) for inner in (node, *node.get("body", {}).get("nodes", ())))
    found = (k for k, w in enumerate(args) if len(w.axes) == 1 and w.term == idx(w.axes[0][0]))
    return frozenset(k for k in found if asks and args[k].axes[0][0] not in cut)


def _placed(inputs: Sequence[Wire], places: frozenset[int]) -> list[Wire]:
    """Inputs, some of which are the position along their axis."""
    return [replace(w, term=idx(w.axes[0][0])) if k in places else w for k, w in enumerate(inputs)]


def _moved(inputs: Sequence[Wire], axis: str, start: Term | None) -> list[Wire]:
    """Inputs at a list that begins at `start`."""
    if start is None:
        return list(inputs)
    put: dict[tuple[str, Data], Term] = {("idx", axis): add(start, idx(axis))}
    return [Wire(substitute(w.term, put), w.axes, w.element) if axis in dict(w.axes) else w for w in inputs]


def _fresh_arrays(program: Program) -> Json:
    return {**program, "inputs": [{**d, "name": f"${k}"} for k, d in enumerate(program["inputs"])]}
