"""Where the reading of a kernel's statements is: in which bodies and loops, and what their wires are called."""

from __future__ import annotations

from dataclasses import dataclass, field

from catdiag.category.formula import Formula
from catdiag.category.op_facts import elementwise
from catdiag.category.ops import Box, FoldOp
from catdiag.category.types import ArrayType
from catdiag.draw.listing.program_lines import LiveArrays
from catdiag.schedule.live_ranges import is_view
from catdiag.schedule.statements import STREAMED, Body, Buffer, LoopBuffers, LoopStep


@dataclass
class TraceFrame:
    """A body that is being read: the box that was read last, and for each wire so far its formula and its variables."""

    body: Body
    formulas: dict[int, Formula]
    behind: dict[int, tuple[int, ...]]
    place: int = -1
    box: Box | None = None
    args: list[Formula] = field(default_factory=list)
    arg_variables: list[tuple[int, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.graph, self.live_ranges = self.body.graph, self.body.found
        self.ends: dict[int, list[int]] = {}
        for k, w in enumerate(self.graph.outputs):
            self.ends.setdefault(self.live_ranges.root[w], []).append(k)
        self.read: dict[int, list[Box]] = {}
        for node in self.graph.nodes:
            for w in () if is_view(node.box) else node.inputs:
                self.read.setdefault(self.live_ranges.root[w], []).append(node.box)
        self.save_names: dict[int, set[int]] = {}

    def made(self) -> range:
        """The wires that the box makes that was read last."""
        first = self.graph.first_wires()[self.place]
        return range(first, first + len(self.graph.nodes[self.place].box.cod))

    def outputs(self, wire: int) -> list[int]:
        """The outputs of the graph that a wire is."""
        return self.ends.get(wire, [])

    def towards(self, k: int) -> set[int]:
        """The wires from which scalar functions alone compute an output, including the output."""
        if k not in self.save_names:
            found = {self.live_ranges.root[self.graph.outputs[k]]}
            first = len(self.graph.dom) + sum(len(node.box.cod) for node in self.graph.nodes)
            for node in reversed(self.graph.nodes):
                first -= len(node.box.cod)
                if first in found and elementwise(node.box):
                    found.update(self.live_ranges.root[w] for w in node.inputs)
            self.save_names[k] = found
        return self.save_names[k]

    def readers(self, wire: int) -> list[Box]:
        """The boxes that read a wire or a view of it, once for each read, without the views."""
        return self.read.get(wire, [])


@dataclass
class OpenLoop:
    """A loop that has begun: its operands, and the names and variables of its states.

    `stage` is "start" before its first iteration, "inside" during its iterations, and "end" after them.
    """

    step: LoopStep
    live: LoopBuffers
    args: list[Formula]
    behind: list[tuple[int, ...]]
    names: tuple[str, ...]
    number: int = -1
    stage: str = "start"
    states: list[int] = field(default_factory=list)
    streamed: list[int] = field(default_factory=list)
    full: tuple[LiveArrays, ...] = ()

    @property
    def op(self) -> FoldOp:
        """The operation of the loop."""
        return self.step.op

    @property
    def box(self) -> Box:
        """The box of the loop."""
        return self.step.box

    def sources(self) -> list[Buffer]:
        """The streamed arrays, each once, without those that are left to inner loops."""
        found = zip(self.live.inputs, self.step.access, strict=True)
        return list(dict.fromkeys(b for b, access in found if b is not None and access == STREAMED))

    def block(self, source: Buffer) -> ArrayType:
        """The block of a streamed array that an iteration reads."""
        k = next(k for k, b in enumerate(self.live.inputs) if b is source)
        return self.op.step.dom[len(self.box.cod) + k]
