"""Fusion: which intermediate arrays stay on chip, and which are saved to slow memory between kernels.

A kernel is a Group box; one without tiles runs its body once. `arrange` inlines the kernels of a diagram, puts boxes
that are connected by arrays on chip into one kernel, and saves the other arrays: the kernels that read them load them.
Meaning is a functor, so that it does not depend on how boxes are partitioned into kernels. What fusion saves is the
transfers of the arrays that stay on chip, and repeated loads of inputs that several kernels read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from catdiag.category.diagram import Diagram, Node, of_graph
from catdiag.category.graph_writer import GraphWriter
from catdiag.category.ops import Box, GroupOp, array_name, numbered
from catdiag.category.substitution import inline
from catdiag.category.types import ArrayType, Axis, Ty
from catdiag.rewrite.derivation import Derivation, NotProved, titled
from catdiag.rewrite.steps import Fuse
from catdiag.schedule.live_ranges import is_view, rematerialized, view_roots
from catdiag.util.errors import NotFusable, source_place
from catdiag.util.topological_order import topological_order

Tiles = tuple[tuple[str, str], ...]
_ASSIGNED = re.compile(r"([A-Za-z_]\w*) = ")


@dataclass(frozen=True)
class Atom:
    """A box in a kernel with tiles; `light`: a view, or rematerialized (recomputed where it is read, never stored)."""

    box: Box
    tiles: Tiles
    reads: tuple[int, ...]
    makes: tuple[int, ...]
    light: bool


@dataclass
class Opened:
    """A diagram with its kernels inlined. For each wire: `types` has its full type, `maker` the atom that makes it (−1
    for an input), `free` whether it is rematerialized, `root` the wire that it is a view of. `torn` are wires that a
    kernel reads in other tiles than those in which they are made.
    """

    diagram: Diagram
    atoms: list[Atom] = field(default_factory=list)
    types: list[ArrayType] = field(default_factory=list)
    torn: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        flat = self.diagram
        writer, self.types = GraphWriter(flat.dom), list(flat.dom)
        self._tiles: list[Tiles] = []
        wires, torn = list(range(len(flat.dom))), list[int]()
        ends: dict[int, tuple[Tiles, ArrayType]] = {}
        for node in flat.graph.nodes:
            op, inputs = node.box.op, [wires[w] for w in node.inputs]
            if not isinstance(op, GroupOp):
                wires += self._put(writer, node.box, inputs, (), {})
                continue
            axes = {a.name: a for ty in (*node.box.dom, *node.box.cod) for a in ty.axes}
            wholes = {name: axes[name] for name, _ in op.tiles}
            body = inline(op.body)
            torn += [w for w, ty in zip(inputs, body.dom, strict=True) if ends.get(w, (op.tiles, ty)) != (op.tiles, ty)]
            inner = list(inputs)
            for n in body.graph.nodes:
                inner += self._put(writer, n.box, [inner[w] for w in n.inputs], op.tiles, wholes)
            made = [inner[w] for w in body.graph.outputs]
            ends.update({w: (op.tiles, ty) for w, ty in zip(made, body.cod, strict=True)})
            wires += made
        self.outputs = tuple(wires[w] for w in flat.graph.outputs)
        graph = writer.graph(self.outputs)
        self.maker, self.root = graph.makers(), view_roots(graph)
        self.free = rematerialized(graph, [False] * len(graph.dom), masks=False)
        self.torn = {self.root[w] for w in torn}
        for (wires_made, n), tiles in zip(graph.wired(), self._tiles, strict=True):
            light = is_view(n.box) or (bool(wires_made) and all(self.free[w] for w in wires_made))
            self.atoms.append(Atom(n.box, tiles, tuple(n.inputs), tuple(wires_made), light))

    def _put(
        self, writer: GraphWriter, box: Box, reads: Sequence[int], tiles: Tiles, wholes: Mapping[str, Axis]
    ) -> list[int]:
        """Adds a box with full types for its results, and gives the wires that it makes."""
        self._tiles.append(tiles)
        self.types += [ArrayType(tuple(wholes.get(a.name, a) for a in ty.axes), ty.element) for ty in box.cod]
        return list(writer.made(box, reads))

    def readers(self) -> dict[int, list[int]]:
        """For each stored wire the atoms that read it, directly or through views."""
        found: dict[int, list[int]] = {}
        for k, atom in enumerate(self.atoms):
            if not atom.light:
                for w in dict.fromkeys(self.root[w] for w in atom.reads if not self.free[w]):
                    found.setdefault(w, []).append(k)
        return found

    def named(self, source: Diagram | None = None) -> dict[int, tuple[str, ...]]:
        """The intermediate arrays with their names: after the box that makes the array, and after the user's variable.

        Where several would have the same name, later ones are numbered. A variable is identified by the source line
        that assigns it.
        """
        variables = assigned(inline(source).graph.nodes) if source is not None else {}
        last = {atom.box.line: k for k, atom in enumerate(self.atoms) if atom.box.line in variables}
        forms: dict[int, list[int]] = {}
        for k, atom in enumerate(self.atoms):
            for w in atom.makes[:1]:
                forms.setdefault(self.root[w], []).append(k)
        count: Counter[str] = Counter()
        found: dict[int, tuple[str, ...]] = {}
        for w in self.readers():
            if self.maker[w] < 0:
                continue
            atom = self.atoms[self.maker[w]]
            name = array_name(atom.box, atom.makes.index(w))
            names = [numbered(name, count[name])]
            count[name] += 1
            for k in forms.get(w, ()):
                line = self.atoms[k].box.line
                if line is not None and last.get(line) == k:
                    variable, box = variables[line]
                    if box.op == self.atoms[k].box.op and variable not in names:
                        names.append(variable)
            found[w] = tuple(names)
        return dict(sorted(found.items()))


def fuse(
    derivation: Derivation, on_chip: str | Sequence[str] | None = None, *, saved: str | Sequence[str] = ()
) -> Derivation:
    """With the boxes put into kernels so that intermediate arrays stay on chip: all that can, or only those in
    `on_chip`.

    Arrays in `saved` go through slow memory, as do arrays that `on_chip`, if given, does not name. Arrays have the
    names that costs print, "exp [q x]", or the variable that the source assigns them to. Several names are a list, or a
    text with commas. What a loop computes in its iterations stays on chip in any case. After this, costs, the counting
    machine, execution and pseudocode go kernel by kernel. It is the last step of a derivation.

    Raises NotFusable for an unknown name, and where a request cannot be met: kernels would depend on each other in a
    cycle, or an array is read in other tiles than it is made in.
    """
    fused, said = arrange_as_requested(derivation.diagram, on_chip, saved, derivation.source)
    same = derivation.steps and fused is derivation.diagram
    fused = titled(fused, f"{derivation.diagram.title or 'it'}.fuse({said})")
    try:
        theorem = derivation.theorem if same else derivation.prove(fused)
    except NotProved as error:
        raise NotFusable(f"the kernels were not proved to mean the same: {error.reason}") from error
    return derivation.then(Fuse(), fused, theorem, unchanged=None)


def assigned(nodes: Sequence[Node]) -> dict[str, tuple[str, Box]]:
    """The source lines that assign a variable, each with the variable and the box that makes its value."""
    found: dict[str, tuple[str, Box]] = {}
    for node in nodes:
        line = node.box.line
        if line is not None and (match := _ASSIGNED.match(source_place(line).code)):
            found[line] = (match.group(1), node.box)
    return found


def arrange(
    diagram: Diagram,
    on_chip: Sequence[str] | None = None,
    saved: Sequence[str] = (),
    source: Diagram | None = None,
) -> Diagram:
    """The diagram in kernels: every intermediate array stays on chip if it can, or only those in `on_chip`; none of
    `saved`.

    >>> import catdiag as cd
    >>> f = cd.algorithm("q x")(lambda A: cd.exp(A - cd.max(A, "x")))
    >>> [[b.name for b in box.op.body.boxes] for box in arrange(f, saved=["sub [q x]"]).boxes]
    [['max[x]', 'sub'], ['exp']]

    Raises NotFusable for an unknown name, listing the known ones, and where a request cannot be met.
    """
    whole = Opened(inline(diagram))
    names = whole.named(source)
    known = {name: w for w, own in names.items() for name in own}
    for name in (*(on_chip or ()), *saved):
        if name not in known:
            listed = "; ".join(" or ".join(own) for own in names.values()) or "none"
            raise NotFusable(f"no intermediate array is called {name!r}: there are {listed}")
    spilled = {known[name] for name in saved}
    wanted = set(names) if on_chip is None else {known[name] for name in on_chip}
    both = sorted(wanted & spilled) if on_chip is not None else []
    if both:
        raise NotFusable(f"{names[both[0]][-1]} cannot both stay on chip and be saved: name it once")
    kernels = _KernelPartition(whole, names)
    if on_chip is not None:
        for w in sorted(wanted):
            why = kernels.obstacle(w)
            if why:
                raise NotFusable(f"{names[w][-1]} cannot stay on chip: {why}")
            kernels.join(w)
    else:
        kernels.join_all([w for w in sorted(wanted - spilled) if not kernels.obstacle(w)], spilled)
    ring = kernels.cycle()
    if ring:
        raise NotFusable(
            f"the kernels would wait for each other, each for an array of the next: {' → '.join(ring)}; keep one more "
            "of these on chip"
        )
    return _built(whole, kernels)


def arrange_as_requested(
    diagram: Diagram, on_chip: str | Sequence[str] | None, saved: str | Sequence[str], source: Diagram
) -> tuple[Diagram, str]:
    """The diagram arranged as `fuse` is asked to (itself if nothing changes), and the request in words.

    Names are given as a list, or as a text with commas. Raises as `arrange` does.
    """

    def names(given: str | Sequence[str]) -> list[str]:
        if not isinstance(given, Iterable):
            raise NotFusable(f"the arrays to keep or to save are {given!r}: expected their names, such as 'exp [q x]'")
        return [n.strip() for n in given.split(",") if n.strip()] if isinstance(given, str) else list(given)

    stay, spilled = None if on_chip is None else names(on_chip), names(saved)
    made = arrange(diagram, stay, spilled, source)
    said = [*([] if stay is None else [repr(stay)]), *([f"saved={spilled!r}"] if spilled else [])]
    return diagram if made == diagram else made, ", ".join(said)


class _KernelPartition:
    """A partition of the atoms into kernels; a kernel is identified by the number of one of its atoms."""

    def __init__(self, whole: Opened, names: Mapping[int, tuple[str, ...]]) -> None:
        self.whole, self.names, self.readers = whole, names, whole.readers()
        self.of = list(range(len(whole.atoms)))
        self.members = {k: [k] for k in self.of}

    def obstacle(self, w: int) -> str:
        """Why the array on a wire cannot stay on chip; empty where it can."""
        atoms, maker = self.whole.atoms, self.whole.atoms[self.whole.maker[w]]
        for k in self.readers[w]:
            if atoms[k].tiles != maker.tiles or w in self.whole.torn:
                made, read = (_tiles_text(t) for t in (maker.tiles, atoms[k].tiles))
                return f"it is made {made}, and {atoms[k].box.name} reads it {read}"
        return ""

    def join(self, w: int) -> None:
        """Merges the kernel that makes an array with those that read it."""
        together = sorted({self.of[k] for k in (self.whole.maker[w], *self.readers[w])})
        for other in together[1:]:
            self.members[together[0]] += self.members[other]
            for k in self.members.pop(other):
                self.of[k] = together[0]

    def join_all(self, wires: Sequence[int], spilled: Collection[int]) -> None:
        """Keeps arrays on chip: all at once, or else one by one as long as the kernels have an order and no array of
        `spilled` is kept.
        """
        start = self._snapshot()
        for w in wires:
            self.join(w)
        if self.runs(spilled):
            return
        self.of, self.members = start
        for w in wires:
            before = self._snapshot()
            self.join(w)
            if not self.runs(spilled):
                self.of, self.members = before

    def _snapshot(self) -> tuple[list[int], dict[int, list[int]]]:
        """A copy of the partition, to go back to."""
        return list(self.of), {k: list(v) for k, v in self.members.items()}

    def runs(self, spilled: Collection[int]) -> bool:
        """Whether the kernels have an order, and each array of `spilled` passes between different kernels."""
        made = {w: self.of[self.whole.maker[w]] for w in spilled}
        return not self.cycle() and not any(self.of[k] == made[w] for w in spilled for k in self.readers[w])

    def needs(self) -> dict[int, dict[int, int]]:
        """For each kernel the kernels that it reads from, each with one such array."""
        found: dict[int, dict[int, int]] = {}
        for k, atom in enumerate(self.whole.atoms):
            if not atom.light:
                found.setdefault(self.of[k], {})
        for w, readers in self.readers.items():
            if self.whole.maker[w] >= 0:
                made = self.of[self.whole.maker[w]]
                for k in readers:
                    if self.of[k] != made:
                        found[self.of[k]].setdefault(made, w)
        return found

    def order(self) -> list[int]:
        """The kernels in topological order; where there is a cycle, without the kernels on it or after it."""
        return topological_order(self.needs())

    def cycle(self) -> list[str]:
        """The arrays along a cycle of kernels, the first one repeated at the end; empty where there is no cycle."""
        done = set(self.order())
        needs = {k: {m: w for m, w in v.items() if m not in done} for k, v in self.needs().items() if k not in done}
        if not needs:
            return []
        k, path, seen = next(iter(needs)), list[str](), dict[int, int]()
        while k not in seen:
            seen[k] = len(path)
            m, w = next(iter(needs[k].items()))
            path.append(self.names[w][-1])
            k = m
        ring = path[seen[k] :][::-1]
        return [*ring, ring[0]]


def _tiles_text(tiles: Tiles) -> str:
    return f"in tiles of {' '.join(a for a, _ in tiles)}" if tiles else "whole"


def _built(whole: Opened, kernels: _KernelPartition) -> Diagram:
    """The diagram of the kernels, in order; views of their results, positions and sizes are outside the kernels."""
    order = kernels.order()
    if len(order) < 2 and not any(atom.tiles for atom in whole.atoms):
        boxes = [node.box.op for node in whole.diagram.graph.nodes]
        if not any(isinstance(op, GroupOp) for op in boxes):
            return whole.diagram
    members: dict[int, list[int]] = {k: [] for k in order}
    for k, atom in enumerate(whole.atoms):
        if not atom.light:
            members[kernels.of[k]].append(k)
    out = _Outside(whole)
    for k in order:
        made = {w for m in members[k] for w in whole.atoms[m].makes}
        leaving = [w for w in sorted(made) if _leaves(whole, kernels, k, w)]
        out.kernel(members[k], made, leaving)
    outputs = tuple(out.wire(w) for w in whole.outputs)
    diagram = whole.diagram
    return of_graph(out.graph(outputs), diagram.cod, diagram.names, diagram.title)


def _leaves(whole: Opened, kernels: _KernelPartition, kernel: int, w: int) -> bool:
    """Whether a kernel has to save the array on a wire: it is a result, or another kernel reads it."""
    if any(whole.root[v] == w for v in whole.outputs):
        return True
    return any(kernels.of[k] != kernel for k in kernels.readers.get(w, ()))


class _Outside(GraphWriter):
    """The diagram around the kernels: its nodes so far, and for each wire of the inlined diagram its wire here."""

    def __init__(self, whole: Opened) -> None:
        super().__init__(whole.diagram.dom)
        self.whole = whole
        self.where = {w: w for w in range(len(self.dom))}

    def wire(self, w: int) -> int:
        """The wire that carries a whole array of the inlined diagram; the views on the way to it are added."""
        for k in _cone(self.whole, [w], self.where):
            atom, types = self.whole.atoms[k], self.whole.types
            box = Box(
                atom.box.op, Ty(*(types[v] for v in atom.reads)), Ty(*(types[v] for v in atom.makes)), atom.box.line
            )
            self.where.update(zip(atom.makes, self.made(box, [self.where[v] for v in atom.reads]), strict=True))
        return self.where[w]

    def kernel(self, members: Sequence[int], made: Collection[int], leaving: Sequence[int]) -> None:
        """Adds a Group box of some atoms, with the views and positions that they need inside.

        `made` are the wires that its atoms make, `leaving` those that are results of the kernel. Raises NotFusable
        where a saved array lacks a tiled axis.
        """
        whole = self.whole
        tiles = whole.atoms[members[0]].tiles
        tiles = tuple(t for t in tiles if any(t[0] in whole.types[w].names for w in made))
        for w in leaving:
            for axis, _ in tiles:
                if axis not in whole.types[w].names:
                    atom = whole.atoms[whole.maker[w]]
                    raise NotFusable(
                        f"{array_name(atom.box)} cannot be saved between kernels: it lacks axis {axis!r}, which is "
                        "tiled in the kernel that makes it; keep it on chip"
                    )
        inside = {*members}
        if tiles:
            inside |= {k for k in _cone(whole, [w for m in members for w in whole.atoms[m].reads], made)
                       if whole.atoms[k].tiles}  # fmt: skip
        else:
            late = set(made)
            for k in _cone(whole, [w for m in members for w in whole.atoms[m].reads], made):
                if set(whole.atoms[k].reads) & late:
                    late |= set(whole.atoms[k].makes)
                    inside.add(k)
        taken: dict[tuple[int, ArrayType], int] = {}
        own = {w for k in inside for w in whole.atoms[k].makes}
        for k in sorted(inside):
            for w, ty in zip(whole.atoms[k].reads, whole.atoms[k].box.dom, strict=True):
                if w not in own:
                    taken.setdefault((w, ty), len(taken))
        local: dict[int, int] = {}
        writer = GraphWriter(ty for _, ty in taken)
        for k in sorted(inside):
            atom = whole.atoms[k]
            reads = zip(atom.reads, atom.box.dom, strict=True)
            made_here = writer.made(atom.box, [local[w] if w in local else taken[w, ty] for w, ty in reads])
            local.update(zip(atom.makes, made_here, strict=True))
        body = of_graph(writer.graph(local[w] for w in leaving))
        inputs = [self.wire(w) for w, _ in taken]
        box = Box(GroupOp(tiles, body), Ty(*(whole.types[w] for w, _ in taken)), Ty(*(whole.types[w] for w in leaving)))
        self.where.update(zip(leaving, self.made(box, inputs), strict=True))


def _cone(whole: Opened, wires: Sequence[int], known: Collection[int]) -> list[int]:
    """The light atoms that some wires are computed from, in order, back to known wires and results of kernels."""
    found: set[int] = set()
    todo = list(wires)
    while todo:
        w = todo.pop()
        k = whole.maker[w]
        if w in known or k < 0 or k in found or not whole.atoms[k].light:
            continue
        found.add(k)
        todo.extend(whole.atoms[k].reads)
    return sorted(found)
