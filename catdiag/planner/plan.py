"""The plan of one kernel: tiles for a chip, level by level, what they are predicted to do, and the next best."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from catdiag.planner.fits_proof import Proof
from catdiag.util.display import AsHTML

if TYPE_CHECKING:
    from catdiag.category.diagram import Diagram
    from catdiag.chip.hardware import Hardware
    from catdiag.codegen.triton.triton_module import Module
    from catdiag.planner.pipeline_simulation import PipelineSchedule
    from catdiag.rewrite.derivation import Derivation

WORDS = {
    "tensor": "matrix units",
    "exp": "special functions",
    "alu": "ALUs",
    "registers": "passing factors of products through registers",
    "SMEM": "reading shared memory",
    "L2": "L2 bandwidth",
    "LLC": "last-level cache bandwidth",
    "HBM": "HBM bandwidth",
}


WHOLE = "it is the whole axis"
IDEAL, TRITON, TORCH, FUNCTION = "ideal", "triton", "torch", "function"
"""Of what a plan is: a kernel each of whose warps does what suits it best, the one that is written for Triton, a
product that torch computes, or a call of the user's function for an uninterpreted box."""
CALLED = (TORCH, FUNCTION)
"""Calls in the place of kernels: no proof is about their code."""


@dataclass(frozen=True)
class LevelUse:
    """A level: how many bytes one holds at most (None: anything), what a group holds of it at its fullest (of a cache:
    what a wave touches; of the slow memory: all arrays, each once), and which arrays: (name, role, bytes)."""

    name: str
    vendor_name: str
    kind: str
    capacity: int | None
    allocated: int
    live_arrays: tuple[tuple[str, str, int], ...] = ()


@dataclass(frozen=True)
class EdgeUse:
    """An edge: bytes that cross it in the whole run, its bandwidth in bytes a second, and how long that takes alone."""

    upper: str
    lower: str
    bytes_moved: int
    bytes_per_s: float
    seconds: float


@dataclass(frozen=True)
class Alternative:
    """Other tiles that fit, the best of them by the objective: with how many buffers and threads, the predicted time
    and what it is against the chosen one's, bytes that cross the edge to shared memory, and why they were not taken."""

    tiles: Mapping[str, int]
    stages: int
    threads: int
    time_s: float
    time_ratio: float
    bytes_moved: int
    reason: str


@dataclass(frozen=True)
class MinimumTraffic:
    """The tile that moves fewest bytes among those that fit; `bytes_ratio` is what the chosen one moves against it,
    `time_ratio` what it would have taken against the chosen one, `reason` the reason in words."""

    tiles: Mapping[str, int]
    bytes_moved: int
    bytes_ratio: float
    time_ratio: float
    reason: str


IMBALANCE = "groups differ in length: these are of the average one, and at the end the longest adds"


@dataclass(frozen=True)
class KernelPlan(AsHTML):
    """Tiles for a chip, and what they are predicted to do, for one kernel.

    `backend` says of what kernel. With "triton" it is that of the `module`, which is written for Triton: it has these
    tiles, `stages` and `warps`, is `warp_specialized` where warps of their own load, and
    `shared_memory_bytes` are what its text takes. With "ideal" it is of no module: each warp does what suits it best,
    and `reason` says why it is not Triton's. With "torch" it is a product that torch computes
    (`catdiag.planner.library_products`), with "function" an uninterpreted box, which a function that the user gives
    computes (`catdiag.planner.function_calls`), and nothing is said of tiles.

    A group runs as a thread block: `shared_memory_bytes`, `register_bytes` (of arrays) and `matrix_bytes` (of tensor
    memory) are of one, `blocks_per_sm` share a core. `registers_per_thread` are allocated where warps are specialized,
    and estimated elsewhere: the compiler decides; with `registers_at_most`, as many blocks still share a core. A kernel
    that `spills` is expected to keep some values in local memory. `load_bytes` and `save_bytes` cross the edge to SMEM
    in the whole run and `hbm_bytes` that to HBM, `intensity` is FLOPs a byte at the edge to SMEM; `bound` names what
    takes the time.
    `utilization` is of the chip's peak FLOP/s, or of its HBM bandwidth where nothing runs on matrix units. `parts_s`
    are a group's seconds by pipeline, `busy` the part of the run for which each is busy. `levels` and `edges` are the
    tables; `limits` says for each tile and block what stops a larger one, `divisors` which pieces it should come in, by
    reason, `next_best` what the next best choices would do. `objective` and `overlap` are as given, `producers` the
    warps that only load, and `plain_form_reason` why there are none, where a loop has two matrix products or more;
    `stream_blocks` the bytes of a block of each streamed array; `threads` are without those, and a `warp` has so many;
    `core` is the vendor's word for an SM. Where loops skip blocks, `parts_s` are of the
    average group, and `imbalance_s` is what the longest takes more, which `time_s` has once. `schedule` is how the
    warpgroups on a core share its pipelines in an iteration of the loop. `diagram` is what was planned, `derivation`
    how it was derived, where the planner did that, and `source` what it was derived from, if known: of a kernel among
    several, its part of the whole. `loops` says in words how the planner derived it, "stream d, group t f"; `reads` and
    `makes` are arrays by name, `makes` with the bytes that are saved. `chip` is what it was planned for, and `asked`
    are the options that were given.
    """

    hardware: str
    dtype: str
    sizes: Mapping[str, int]
    tiles: Mapping[str, int]
    stages: int
    threads: int
    registers_per_thread: int
    registers_at_most: int
    shared_memory_bytes: int
    register_bytes: int
    matrix_bytes: int
    blocks_per_sm: int
    groups: int
    waves: int
    load_bytes: int
    save_bytes: int
    hbm_bytes: int
    flops: int
    intensity: float
    time_s: float
    bound: str
    utilization: float
    parts_s: Mapping[str, float]
    busy: Mapping[str, float]
    levels: tuple[LevelUse, ...]
    edges: tuple[EdgeUse, ...]
    limits: Mapping[str, str]
    divisors: Mapping[str, Mapping[str, int]]
    next_best: tuple[Alternative, ...]
    minimum_traffic: MinimumTraffic
    proof: Proof
    objective: str
    overlap: str | tuple[str, ...]
    core: str
    warp: int
    producers: int
    schedule: PipelineSchedule | None
    imbalance_s: float = 0.0
    diagram: Diagram | None = field(default=None, repr=False, compare=False)
    source: Diagram | None = field(default=None, repr=False, compare=False)
    chip: Hardware | None = field(default=None, repr=False, compare=False)
    asked: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    backend: str = IDEAL
    reason: str = ""
    warp_specialized: bool = False
    plain_form_reason: str = ""
    spills: bool = False
    stream_blocks: Mapping[str, int] = field(default_factory=dict)
    module: Module | None = field(default=None, repr=False, compare=False)
    types: str | Mapping[str, str] = field(default="", repr=False, compare=False)
    """The element types as they were given."""
    loops: str = ""
    derivation: Derivation | None = field(default=None, repr=False, compare=False)
    reads: tuple[str, ...] = ()
    makes: tuple[tuple[str, int], ...] = ()

    @property
    def warps(self) -> int:
        """Warps of a group, without those that only load."""
        return self.threads // self.warp

    @property
    def bytes_moved(self) -> int:
        """All bytes that cross the edge to SMEM."""
        return self.load_bytes + self.save_bytes

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        inner = (
            "minimum_traffic",
            "proof",
            "levels",
            "edges",
            "next_best",
            "schedule",
            "divisors",
            "diagram",
            "source",
            "chip",
            "asked",
            "module",
            "types",
            "loops",
            "derivation",
            "reads",
            "makes",
        )
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in inner}
        plain.update(
            {name: dict(plain[name]) for name in ("sizes", "tiles", "parts_s", "busy", "limits", "stream_blocks")}
        )
        least = {**vars(self.minimum_traffic), "tiles": dict(self.minimum_traffic.tiles)}
        return {
            **plain,
            "warps": self.warps,
            "bytes_moved": self.bytes_moved,
            "divisors": {name: dict(pieces) for name, pieces in self.divisors.items()},
            "levels": [dict(vars(level)) for level in self.levels],
            "edges": [dict(vars(edge)) for edge in self.edges],
            "next_best": [{**vars(other), "tiles": dict(other.tiles)} for other in self.next_best],
            "schedule": None if self.schedule is None else self.schedule.as_dict(),
            "minimum_traffic": least,
            "proof": self.proof.as_dict(),
        }

    @property
    def registers(self) -> str:
        """Its registers a thread, in words: as many as are allocated, or an estimate, and with how many as many groups
        still share a core; the compiler may take more."""
        if self.registers_at_most <= self.registers_per_thread:
            return f"{self.registers_per_thread}{' (and some values spilled)' * self.spills}"
        room = f"estimated; with up to {self.registers_at_most} as many groups share a core"
        return f"about {self.registers_per_thread} ({room})"

    @property
    def kernel(self) -> str:
        """What kernel it is of, in words."""
        if self.backend == TRITON:
            specialized = ", warp-specialized" if self.warp_specialized else ""
            why = f"; plain form: because {self.plain_form_reason}" if self.plain_form_reason else ""
            warps = plural(self.warps, "warp")
            return f"Triton, {plural(self.stages, 'stage')}, {warps}{specialized}: what is written{why}"
        if self.backend in CALLED:
            return "torch's product, no kernel of catdiag's"
        if self.backend == FUNCTION:
            return "a call of the user's function, no kernel of catdiag's"
        return "the ideal model's, not Triton's" + (f": {self.reason}" if self.reason else "")

    def table(self) -> str:
        """Level by level: what one holds and what of it is taken, by which arrays; what crosses each edge."""
        lines = []
        for level in self.levels:
            name = level.name + (f" ({level.vendor_name})" if level.vendor_name else "")
            room = "holds anything" if level.capacity is None else f"of {level.capacity:,}"
            note = "" if level.kind != "cache" else "  (a cache: what a wave touches)"
            lines.append(f"  {name:22} {level.allocated:>15,} bytes {room}{note}")
            lines += [f"    {used_bytes:>31,}  {array} ({role})" for array, role, used_bytes in level.live_arrays]
        for edge in self.edges:
            lines.append(
                f"  {edge.upper + ' to ' + edge.lower:22} {edge.bytes_moved:>15,} bytes at "
                f"{edge.bytes_per_s / 1e12:.2f} TB/s: {1e6 * edge.seconds:.1f} µs"
            )
        return "\n".join(lines)

    def __str__(self) -> str:
        return "\n".join(self._called_lines() if self.backend in CALLED else self._lines())

    def _called_lines(self) -> tuple[str, ...]:
        """What is known of a call of another library: nothing else is, and nothing is proved."""
        return (
            self._target(),
            f"kernel     {self.kernel}",
            f"traffic    HBM {self.hbm_bytes:,} bytes",
            f"work       {self.flops:,} FLOPs of products",
            f"time       {1e6 * self.time_s:.1f} µs predicted, {self._rate()}",
            f"bound by   {self.bound}",
        )

    def _lines(self) -> Iterator[str]:
        parts = ", ".join(
            f"{WORDS[name]} {1e6 * s:.1f} ({100 * self.busy[name]:.0f}% of the run)"
            for name, s in self.parts_s.items()
            if s
        )
        split = any(name.startswith("p_") for name in self.tiles)
        shared = next((level.vendor_name or level.name for level in self.levels if level.name == "SMEM"), "SMEM")
        asked = "" if self.objective == "time" else f" (asked for: {self.objective})"
        model = {"queue": "", "add": "; transfers and work added", "max": "; everything overlapped"}.get(
            str(self.overlap), f"; at once: {', '.join(self.overlap)}"
        )
        yield from (
            self._target(),
            f"tiles      {shown(self.tiles)} (g_: group tile, s_: stream block{', p_: parts' if split else ''}); "
            f"{plural(self.stages, 'buffer')} of each stream block; "
            f"{plural(self.threads, 'thread')} ({plural(self.threads // self.warp, 'warp')}"
            + (f", and {self.producers} that load" if self.producers else "")
            + f"){asked}",
            f"kernel     {self.kernel}",
            f"on chip    a group takes {self.shared_memory_bytes:,} bytes of {shared}"
            + (f" and {self.registers} registers a thread" if self.threads > 1 else "")
            + (f", of which arrays fill {self.register_bytes:,} bytes in all" if self.register_bytes else "")
            + (f", and {self.matrix_bytes:,} bytes of TMEM" if self.matrix_bytes else ""),
            f"grid       {plural(self.groups, 'group')}, each a thread block, up to {self.blocks_per_sm} at once on "
            f"a {self.core}; waves: {self.waves:,}",
            f"traffic    to {shared} {self.load_bytes:,} bytes, results {self.save_bytes:,} bytes; "
            f"HBM {self.hbm_bytes:,} bytes",
            "levels",
            self.table(),
            f"work       {self.flops:,} FLOPs of products, {self.intensity:.1f} a byte at the edge to {shared}",
            f"time       {1e6 * self.time_s:.1f} µs predicted{model}, {self._rate()}",
            f"bound by   {self.bound}",
            f"           one group needs, in µs: {parts}",
            *([f"uneven     {IMBALANCE} {1e6 * self.imbalance_s:.1f} µs"] if self.imbalance_s else []),
            *([f"schedule   {self.schedule}"] if self.schedule else []),
            *(f"larger     {why}" for why in self.limits.values() if why != WHOLE),
            *(
                f"pieces     {name} in {math.lcm(*pieces.values())}: {', '.join(f'{w} {n}' for w, n in pieces.items())}"
                for name, pieces in self.divisors.items()
            ),
            f"given up   {self._extra_traffic()}",
            *self._runners_up(),
        )
        if self.proof.statement:
            yield f"proved     {self.proof.statement} (bytes; z3, {1e3 * self.proof.seconds:.0f} ms)"

    def _extra_traffic(self) -> str:
        """How many more bytes it moves than the tiles that move the fewest, and why these were not taken."""
        least = self.minimum_traffic
        if least.bytes_moved >= self.bytes_moved:
            return "nothing: no tile that fits moves fewer bytes"
        return (
            f"{least.bytes_ratio:.2f} times the least traffic, which is {least.bytes_moved:,} bytes at "
            f"{shown(least.tiles)}: {least.reason}"
        )

    def _target(self) -> str:
        """The chip, the type and the sizes."""
        return f"{self.hardware}, {self.dtype}, {', '.join(f'{name}={value}' for name, value in self.sizes.items())}"

    def _rate(self) -> str:
        """The FLOP/s of products, where there are any, and the part of the chip's peak."""
        rate = f"{self.flops / self.time_s / 1e12:.1f} TFLOP/s, " if self.flops else ""
        return f"{rate}{100 * self.utilization:.0f}% of the peak {'FLOP/s' if self.flops else 'HBM bandwidth'}"

    def _runners_up(self) -> Iterator[str]:
        """A line for each of the next best choices."""
        for rank, other in enumerate(self.next_best, 2):
            how = f"{shown(other.tiles)}; {plural(other.stages, 'buffer')}, {other.threads} threads"
            yield (
                f"{'next best' if rank == 2 else '':10} {rank}. {how}: {1e6 * other.time_s:.1f} µs "
                f"({other.time_ratio:.2f} times), {other.bytes_moved:,} bytes: {other.reason}"
            )


def plural(number: int, noun: str) -> str:
    """A number of things, in words."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def shown(tiles: Mapping[str, int]) -> str:
    """Tiles in a row."""
    return ", ".join(f"{name}={value}" for name, value in tiles.items()) or "none"


def spelled_out(dtype: str | Mapping[str, str]) -> str:
    """Element types as a plan has them in words.

    >>> spelled_out("bf16"), spelled_out({"Q": "fp8", "out": "bf16"})
    ('bf16', 'Q fp8, out bf16')
    """
    return dtype if isinstance(dtype, str) else ", ".join(f"{name} {kind}" for name, kind in dtype.items())
