"""Composites: the theorem about a program made of parts, from theorems about its parts (congruence).

The left program is made of left parts, the right one of right parts that take their places, wired alike; an array that
passes from part to part is a *cut*. Each part cites a theorem that the checker has proved itself. It says: for all
sizes and arrays that meet its hypotheses, where its left side is defined (everything that this side owes, at all
indices), so is its right side, and the two are equal.

**Why the whole follows.** Take sizes and inputs that meet the assumptions, such that the left program is defined, and
let the cut arrays be those that it computes. Going through the parts in order, the following is shown of each here.
What is known of cuts on the way: hypotheses that were shown, signs and element types by how they are made, and what
the whole owes.

1. Its hypotheses hold of the arrays that it reads: those on sizes for what its sizes stand for, those on inputs (and
   their element types) from how these arrays are made.
2. Its left side is defined, at all indices: a result is *demanded* if the left program is defined only where every
   element of it is. What the part owes for demanded results, and that reads of views are in range, is then part of what
   the left program owes. Whatever else it owes must follow from that and from what is known.

By the cited theorem its right side is then defined, and makes the same arrays; so the right program computes the same
cuts, part after part, and is defined. Without 2 a part could cite more than the whole grants: `(A, 1/s) = (A·s/s, 1/s)`
holds of a part, and nothing follows of its first result where the second is not read. What the parts owe is computed
from their terms with the cut arrays as arrays; the whole owes the same of the same values, so nothing is owed twice.

**Demanded.** The results of the whole are. A cut is, where for each of its indices some demanded result reads it there,
on the path that is taken. To show this only sizes are used: what is known of cuts rests on parts being defined.

What a part's sizes stand for are natural sizes of the whole; sizes of tiles and blocks, which are bound, get new names.
Axes are renamed injectively, and none is added. Several inputs of a part may be one array. Parts read inputs and what
parts before them make, so that nothing is cited in a circle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from catdiag.kernel.context import Context, integer
from catdiag.kernel.definedness import Obligation, owes
from catdiag.kernel.facts import Fact, negate, nonzero
from catdiag.kernel.judgments import Json, closes, only
from catdiag.kernel.loop_rules import Facts, Loops, valued
from catdiag.kernel.semantics import Program, Sizes, Wire, evaluate, inputs_of
from catdiag.kernel.size_scope import symbols
from catdiag.kernel.terms import (
    LOGICAL,
    ZERO,
    Data,
    KernelError,
    Term,
    add,
    fn,
    idx,
    is_name,
    leaves,
    mul,
    read,
    size_term,
    sub,
    substitute,
)  # fmt: skip
from catdiag.kernel.well_formed import BODIES, well_formed

DEFINED = "%d "
"""Before the name of an array: the truth values that its elements are defined."""
_WIDER = {"int": 0, "real": 1, "extended": 2}


class Renaming:
    """What sizes of a cited theorem stand for, and its axes. Names that are not given stand for themselves."""

    def __init__(self, sizes: Mapping[str, Any], axes: Mapping[str, str]) -> None:
        self.sizes, self.axes = sizes, axes
        self._axes: dict[str, str] = {}
        self.bound: dict[str, str] = {}

    def axis(self, name: str) -> str:
        """The axis that one stands for. Raises KernelError where two stand for one, which would be confused."""
        new = self.axes.get(name, name)
        if not is_name(new) or any(new == other and old != name for old, other in self._axes.items()):
            raise KernelError(
                f"axis {name!r} stands for {str(new)[:80]!r}: expected a name that no other axis stands for"
            )
        self._axes[name] = new
        return new

    def size(self, s: Any) -> Any:
        """A size with what its names stand for."""
        if isinstance(s, str):
            return self.sizes.get(s, s)
        return [s[0], self.size(s[1]), self.size(s[2])] if isinstance(s, list) else s

    def local(self, name: str) -> str:
        """A size of tiles or blocks, under its new name. Raises KernelError where two get one name."""
        new = self.sizes.get(name, name)
        if not is_name(new) or any(new == other and old != name for old, other in self.bound.items()):
            raise KernelError(f"the local size {name!r} stands for {str(new)[:80]!r}: expected a new name")
        self.bound[name] = new
        return str(new)

    def expression(self, e: Any) -> Any:
        """An index expression of a view."""
        if not isinstance(e, list):
            return self.size(e)
        op, *parts = e
        return [op, self.axis(parts[0])] if op == "i" else e if op == "w" else [op, *map(self.expression, parts)]

    def program(self, program: Program) -> dict[str, Any]:
        """A program under the new names, without its title."""
        return {
            "inputs": [{**d, "axes": self._pairs(d["axes"])} for d in program["inputs"]],
            "nodes": [self._node(node) for node in program["nodes"]],
            "outputs": program["outputs"],
        }

    def _pairs(self, axes: Iterable[Any]) -> list[list[Any]]:
        return [[self.axis(name), self.size(s)] for name, s in axes]

    def _node(self, node: Json) -> dict[str, Any]:
        found = dict(node)
        op = node["op"]
        if op in ("reduce", "fold"):
            found["axis"] = self.axis(node["axis"])
        if op == "index":
            (found["axis"],) = self._pairs([node["axis"]])
        elif op == "size":
            found["size"] = self.size(node["size"])
        elif op == "view":
            found["axes"] = self._pairs(node["axes"])
            found["reads"] = [
                {
                    "at": {self.axis(name): self.expression(e) for name, e in r["at"].items()},
                    "where": [[c[0], *map(self.expression, c[1:])] for c in r["where"]],
                }
                for r in node["reads"]
            ]
        elif op == "fold":
            found["block"] = self.local(node["block"])
        elif op == "group":
            found["tiles"] = [[self.axis(axis), self.local(local)] for axis, local in node["tiles"]]
        return found | {body: self.program(node[body]) for body in BODIES if body in node}


def results(node: Json) -> int:
    """How many wires a node makes."""
    body = {"fold": "state", "group": "body"}.get(node["op"])
    return 1 if body is None else len(node[body]["outputs"])


def flattened(inputs: Sequence[Json], parts: Sequence[tuple[Program, Sequence[int]]], made: Sequence[int]) -> Program:
    """The program of parts, each with the wires that it reads: the inputs of the whole are the first, then come what
    the parts make. `made` are the wires that are its results."""
    nodes: list[Json] = []
    wires: list[tuple[int, str]] = [(k, str(d["element"])) for k, d in enumerate(inputs)]
    count = len(wires)
    for program, reads in parts:
        local = [wires[w][0] for w in reads]
        for node in program["nodes"]:
            nodes.append({**node, "args": [local[w] for w in node["args"]]} if "args" in node else node)
            local += range(count, count + results(node))
            count += results(node)
        wires += [(local[w], str(element)) for w, element in program["outputs"]]
    return {"inputs": list(inputs), "nodes": nodes, "outputs": [list(wires[w]) for w in made]}


@dataclass
class Part:
    """A part of a composite: what it cites, under the names of the whole, and what it reads and makes."""

    cites: int
    left: Program
    right: Program
    given: Sequence[Program]
    sizes: list[Term]
    """The assumptions on sizes of the cited theorem, for what its sizes stand for."""
    reads: list[int]
    makes: list[str]
    proof: Json
    terms: list[Wire] = field(default_factory=list)
    """What it makes, as terms over the arrays that it reads."""
    demanded: list[bool] = field(default_factory=list)


@dataclass
class Cuts:
    """The arrays of a composite, those of the left program: their wires, and what is known of them."""

    wires: list[Wire]
    names: list[str]
    elements: dict[str, str]
    made: dict[int, Wire] = field(default_factory=dict)
    """By wire, how it is made: a term over the arrays that its part reads."""
    facts: dict[str, dict[Fact, None]] = field(default_factory=dict)

    def know(self, facts: Iterable[Fact]) -> None:
        """Keeps facts by the arrays that they speak of."""
        for fact in facts:
            for name in arrays_of(fact.condition, *fact.guards):
                self.facts.setdefault(name, {})[fact] = None

    def unfolded(self, reads: Sequence[int]) -> list[Wire]:
        """Arrays as they are made, but for those that another of them is made of."""
        inner = {name for w in reads if w in self.made for name in arrays_of(self.made[w].term)}
        return [self.wires[w] if self.names[w] in inner else self.made.get(w, self.wires[w]) for w in reads]

    def known(self, names: Iterable[str]) -> Facts:
        """What is known of arrays."""
        return tuple(dict.fromkeys(fact for name in names for fact in self.facts.get(name, ())))


def arrays_of(*terms: Term) -> list[str]:
    """The names of the arrays that terms read, in order."""
    return sorted(set().union(*(leaves(t, op) for t in terms for op in ("read", "holds"))))


def known_facts(hypothesis: Obligation) -> list[Fact]:
    """A hypothesis as facts: of a conjunction, each part; of a disjunction, each part where the others are false."""
    condition, found = hypothesis.condition, hypothesis.saying(hypothesis.condition)
    if condition.op == "and":
        return [fact for c in condition.args for fact in known_facts(replace(hypothesis, condition=c))]
    for k, part in enumerate(condition.args if condition.op == "or" else ()):
        others = (negate(c) for j, c in enumerate(condition.args) if j != k)
        found += replace(hypothesis, guards=(*hypothesis.guards, *others)).saying(part)
    return found


class Composites(Loops):
    """Checks that the theorem about a composite follows from those about its parts, by what the module says."""

    cuts: Sequence[tuple[str, Wire]] = ()
    """The cut arrays of the last composite, in order: how each is made of inputs and of those before it."""
    parts: Sequence[str] = ()
    """The parts of the last composite, as text."""

    @property
    def cut_names(self) -> list[str]:
        """The names of the cut arrays of the last composite."""
        return [name for name, _ in self.cuts]

    def part(self, data: Json, cited: Sequence[Json], wires: int, scope: frozenset[str]) -> Part:
        """A part from its data. Raises KernelError where it cites or reads what is not there, or names clash."""
        only(data, "cites", "sizes", "axes", "reads", "makes", "given", "defined")
        which, reads, makes = data["cites"], data.get("reads", []), data.get("makes", [])
        if type(which) is not int or not 0 <= which < len(cited):
            raise KernelError(f"a part cites theorem {which!r} of {len(cited)}")
        if not all(type(w) is int and 0 <= w < wires for w in reads):
            raise KernelError("a part reads what is not made before it")
        statement = cited[which]
        put = Renaming(data.get("sizes", {}), data.get("axes", {}))
        left, right = put.program(statement["left"]), put.program(statement["right"])
        given = [put.program(program) for program in statement.get("given", ())]
        free = symbols(statement["left"]) | symbols(statement["right"])
        for name in sorted(free):
            if not leaves(size_term(put.size(name)), "size") <= scope:
                raise KernelError(
                    f"size {name!r} of a part stands for {put.size(name)!r}, which is no size of the whole"
                )
        if clash := sorted({*put.bound.values()} & scope) + sorted({*put.bound} & free):
            raise KernelError(f"the local size {clash[0]!r} of a part is no new name")
        if any(node["op"] in ("fold", "group") for node in left["nodes"]):
            raise KernelError("the left side of a part has no loops")
        if len(reads) != len(left["inputs"]) or len(makes) != len(left["outputs"]) or not all(map(is_name, makes)):
            raise KernelError("a part names what it reads and makes")
        sizes = [fn(op, size_term(put.size(a)), size_term(put.size(b))) for op, a, b in statement["assume"]]
        return Part(which, left, right, given, sizes, reads, makes, data)

    def composed(
        self,
        statement: Json,
        proof: Json,
        cited: Sequence[Json],
        of_sizes: Facts,
        given: Sequence[Obligation],
        scope: frozenset[str],
    ) -> list[Obligation]:
        """What the left side of a composite owes. Raises KernelError where its theorem does not follow from those
        `cited`, of which the statements are given and proved."""
        inputs = statement["left"]["inputs"]
        names = [str(d["name"]) for d in inputs]
        elements = {str(d["name"]): str(d["element"]) for d in inputs}
        cuts = Cuts(inputs_of(statement["left"], {}), names, elements)
        cuts.know(fact for o in given for fact in known_facts(o))
        parts: list[Part] = []
        for data in proof["parts"]:
            part = self.part(data, cited, len(cuts.wires), scope)
            self._evaluated(part, cuts)
            parts.append(part)
        made = proof["results"]
        if len(set(cuts.names)) != len(cuts.names):
            raise KernelError("two arrays of a composite have one name")
        if not all(type(w) is int and 0 <= w < len(cuts.wires) for w in made):
            raise KernelError("a result of a composite is not made")
        for side in ("left", "right"):
            whole = flattened(inputs, [(getattr(part, side), part.reads) for part in parts], made)
            if any(whole[key] != statement[side][key] for key in whole):
                raise KernelError(f"the {side} side is not what the parts are together")
        self._demands(parts, cuts, frozenset(made), of_sizes)
        owed: dict[Obligation, None] = {}
        for number, part in enumerate(parts, 1):
            try:
                owed |= dict.fromkeys(self._follows(part, cuts, frozenset(made), of_sizes, scope))
            except KernelError as error:
                raise KernelError(f"part {number}: {error}") from error
            only(part.proof, "cites", "sizes", "axes", "reads", "makes", "given", "defined")
            self.consumed({key: part.proof.get(key) for key in ("given", "defined")})
        self.axioms.add("A2")
        self.cuts = [(name, cuts.made[w]) for w, name in enumerate(cuts.names) if w in cuts.made]
        self.parts = [
            f"{', '.join(part.makes)} = {cited[part.cites]['left'].get('title') or f'part {number}'}"
            f"({', '.join(cuts.names[w] for w in part.reads)})"
            for number, part in enumerate(parts, 1)
        ]
        return list(owed)

    def _evaluated(self, part: Part, cuts: Cuts) -> None:
        """What a part makes as terms over the arrays that it reads; what it makes become arrays with its names."""

        def views_only(node: Json, args: Sequence[Wire], sizes: Sizes) -> None:
            if node["op"] != "view":
                raise KernelError("the left side of a part has no loops")

        given = [cuts.wires[w] for w in part.reads]
        for d, wire in zip(part.left["inputs"], given, strict=True):
            if (d["element"] == "bool") != (wire.term.op in LOGICAL):
                raise KernelError(f"input {d['name']} of a part is {d['element']}, and what it reads is not")
        part.terms = evaluate(part.left, given, {}, views_only)
        for name, wire in zip(part.makes, part.terms, strict=True):
            if (wire.element == "bool") != (wire.term.op in LOGICAL):
                raise KernelError(f"{name} is {wire.element}, and what makes it is not")
            cuts.made[len(cuts.wires)] = wire
            array = read(name, *(idx(axis) for axis, _ in wire.axes))
            array = Term("holds", name, array.args) if wire.element == "bool" else array
            cuts.wires.append(Wire(array, wire.axes, wire.element))
            cuts.names.append(name)

    # -- what the whole demands ------------------------------------------------------------------------------

    def _demands(self, parts: Sequence[Part], cuts: Cuts, made: frozenset[int], of_sizes: Facts) -> None:
        """Finds which results of parts are demanded, from the last part to the first."""
        asked: dict[str, list[Fact]] = {}
        last = len(cuts.wires)
        for part in reversed(parts):
            first = last - len(part.makes)
            part.demanded = [
                w in made or self._everywhere(cuts.wires[w], cuts.names[w], asked, of_sizes) for w in range(first, last)
            ]
            for wire in (wire for wire, demanded in zip(part.terms, part.demanded, strict=True) if demanded):
                ctx = Context(self.ask, dict(wire.axes), of_sizes)
                for o in owes(ctx, valued(wire), "extended", all_of_it=True, reads=DEFINED):
                    if str(o.condition.data).startswith(DEFINED):
                        asked.setdefault(str(o.condition.data), []).append(o.fact())
            last = first

    def _everywhere(self, wire: Wire, name: str, asked: Mapping[str, list[Fact]], of_sizes: Facts) -> bool:
        """Whether all elements of an array are asked for."""
        facts = [instance for fact in asked.get(DEFINED + name, ()) for instance in _instances(fact)]
        ctx = Context(self.ask, dict(wire.axes), of_sizes + tuple(dict.fromkeys(facts)))
        places = tuple(idx(axis) for axis, _ in wire.axes)
        if ctx.entails(Term("holds", DEFINED + name, places)):
            return True
        return any(_reads_at(fact, places, ctx) for fact in asked.get(DEFINED + name, ()))

    # -- each part, in order ---------------------------------------------------------------------------------

    def _follows(
        self, part: Part, cuts: Cuts, made: frozenset[int], of_sizes: Facts, scope: frozenset[str]
    ) -> list[Obligation]:
        """What the whole owes for a part. Raises KernelError where the part cannot cite its theorem."""
        sizes = Context(self.ask, {}, of_sizes)
        if unmet := next((c for c in part.sizes if not sizes.entails(c)), None):
            raise KernelError(f"its theorem assumes {unmet}, which does not follow from the sizes of the whole")
        for d, w in zip(part.left["inputs"], part.reads, strict=True):
            found = cuts.elements[cuts.names[w]]
            if found != d["element"] and _WIDER.get(found, 3) > _WIDER.get(d["element"], -1):
                raise KernelError(f"its theorem is for {d['element']} arrays, and {cuts.names[w]} is {found}")
        self._hypotheses(part, cuts, of_sizes, scope)
        facts = of_sizes + cuts.known(cuts.names[w] for w in part.reads)
        meaning = self.meaning(part.left, [cuts.wires[w] for w in part.reads], {}, facts, cuts.elements, scope)
        # Reads of views are in range, and demanded results are defined, where the whole is.
        none = replace(meaning, outputs=[])
        owed = dict.fromkeys(self.owed(none, facts, cuts.elements))
        first = cuts.names.index(part.makes[0]) if part.makes else 0
        for k, wire in enumerate(meaning.outputs):
            if part.demanded[k]:
                ctx = Context(self.ask, dict(wire.axes), facts, cuts.elements)
                element = wire.element if first + k in made or wire.element == "bool" else "extended"
                owed |= dict.fromkeys(owes(ctx, valued(wire), element))
        facts += tuple(fact for o in owed for fact in (o.fact(), *o.saying(o.condition)))
        ctx = Context(self.ask, {}, facts, cuts.elements)
        for k, o in enumerate(self.owed(meaning, facts, cuts.elements)):
            if not self.discharge(ctx, o, self.item(part.proof, "defined", k)):
                raise KernelError(f"it is defined only where {o}, which the whole does not need")
        cuts.know(fact for o in owed for fact in (o.fact(), *o.saying(o.condition)))
        for k, (name, wire) in enumerate(zip(part.makes, meaning.outputs, strict=True)):
            ctx = Context(self.ask, dict(wire.axes), facts, cuts.elements)
            cuts.elements[name] = "bool" if wire.element == "bool" else _element(wire, ctx)
            cuts.know(Fact(wire.axes, (), c) for c in _signs(wire, cuts.wires[first + k].term, ctx))
        return list(owed)

    def _hypotheses(self, part: Part, cuts: Cuts, of_sizes: Facts, scope: frozenset[str]) -> None:
        """Checks hypotheses on inputs of a cited theorem, where the arrays are made; they are known from then on."""
        count = 0
        for program in part.given:
            well_formed(program)
            unfolded = cuts.unfolded(part.reads)
            facts = of_sizes + cuts.known(arrays_of(*(wire.term for wire in unfolded)))
            meaning = self.meaning(program, unfolded, {}, facts, cuts.elements, scope)
            truths = [Obligation(w.axes, (), w.term) for w in meaning.outputs]
            ctx = Context(self.ask, {}, facts, cuts.elements)
            for o in (*self.owed(meaning, facts, cuts.elements), *truths):
                if not self.discharge(ctx, o, self.item(part.proof, "given", count)):
                    raise KernelError(f"its theorem takes for granted that {o}, which is not shown")
                count += 1
            here = self.meaning(program, [cuts.wires[w] for w in part.reads], {}, of_sizes, cuts.elements, scope)
            for wire in here.outputs:
                cuts.know(known_facts(Obligation(wire.axes, (), wire.term)))


def _element(wire: Wire, ctx: Context) -> str:
    """The least element type that what is made is known to have."""
    term = valued(wire)
    known = wire.element != "extended" or ctx.real(term)
    return "int" if known and integer(ctx, term) else "real" if known else "extended"


def _signs(wire: Wire, array: Term, ctx: Context) -> list[Term]:
    """The sign that what is made is known to have, as a condition on the array that it is from then on."""
    term = valued(wire)
    if wire.element == "bool":
        return []
    if ctx.positive(term):
        return [fn("lt", ZERO, array)]
    found = [fn("le", ZERO, array)] if ctx.nonnegative(term) else []
    return [*found, nonzero(array)] if ctx.nonzero(term) else found


def _reads_at(fact: Fact, places: Sequence[Term], ctx: Context) -> bool:
    """Whether an element at given places is read, where it is read at positions that are computed: values of the
    indices there are read off the positions (`_solved`), and it is checked that these are in range, that the guards
    hold, and that the positions are the places."""
    put = _solved(fact, places)
    for name, n in fact.variables:
        if n is None:
            return False
        value, end = put["idx", name], substitute(n, put)
        if not (ctx.entails(fn("le", ZERO, value)) and ctx.entails(fn("lt", value, end))):
            return False
    here = fact.at(put)
    same = (fn("eq", at, place) for at, place in zip(here.condition.args, places, strict=True))
    return all(map(ctx.entails, here.guards)) and all(
        c.args[0] == c.args[1] or closes(ctx, c) or ctx.entails(c) for c in same
    )


def _solved(fact: Fact, places: Sequence[Term]) -> dict[tuple[str, Data], Term]:
    """Values of indices for which positions may be places: `i` itself; i = a·n + b where ⌊i/n⌋ is to be a, and another
    position of i is to be b; h = ⌊i/n⌋ and d = i − n·⌊i/n⌋ where h·n + d is to be i. An index of no position is 0."""
    positions = fact.condition.args
    put: dict[tuple[str, Data], Term] = {}
    for at, place in zip(positions, places, strict=True):
        if at.op == "idx":
            put.setdefault(("idx", at.data), place)
        elif at.op == "div" and at.args[0].op == "idx":
            i, n = at.args
            others = ((e, b) for e, b in zip(positions, places, strict=True) if e is not at)
            rest = [b for e, b in others if str(i.data) in leaves(e, "idx")]
            if len(rest) == 1:
                put.setdefault(("idx", i.data), add(mul(place, n), rest[0]))
        elif at.op == "add" and len(at.args) == 2 and at.args[0].op == "mul" and at.args[1].op == "idx":
            h, n, d = at.args[0].args[0], mul(*at.args[0].args[1:]), at.args[1]
            if h.op == "idx":
                above = fn("div", place, n)
                put.setdefault(("idx", h.data), above)
                put.setdefault(("idx", d.data), sub(place, mul(n, above)))
    return put | {("idx", name): ZERO for name, _ in fact.variables if ("idx", name) not in put}


def _instances(fact: Fact) -> list[Fact]:
    """A fact about an array, and its instances where an index that the array is not read at is one that it is."""
    spoken = leaves(fact.condition, "idx")
    ranges = dict(fact.variables)
    free = [name for name, _ in fact.variables if name not in spoken]
    choices = [[u for u, n in fact.variables if u in spoken and n == ranges[name]] for name in free]
    found = [fact]
    for chosen in product(*choices) if free and all(choices) and len(free) <= 2 else ():
        put: dict[tuple[str, Data], Term] = {("idx", v): idx(u) for v, u in zip(free, chosen, strict=True)}
        kept = tuple(p for p in fact.variables if p[0] in spoken)
        found.append(replace(fact.at(put), variables=kept))
    return found
