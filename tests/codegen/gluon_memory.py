"""Shared memory, barriers and the partitions of one program, for `gluon_machine`: what may run next, what is ordered.

Whatever the interleaving, an access to shared memory is compared with those before it by vector clocks (Mattern 1989;
Flanagan & Freund, FastTrack, PLDI 2009): what orders two accesses is only a partition's own order, a phase of a barrier
that completed and was waited for, `warpgroup_mma_wait`, `tma.store_wait`, and a partition's start and end. So a buffer
released too early or read without waiting is reported even in runs in which it would have gone well.
"""

from __future__ import annotations

import builtins
import math
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from tests.codegen.gluon_layouts import GluonError, Layout, NVMMASharedLayout, need
from tests.codegen.gluon_values import Accumulator, Dtype, Tensor

Clock = dict[tuple[Any, ...], int]
"""What is known to have happened: per actor (a partition, its products, stores, fences, a barrier's copies) how far."""

SHARED = 227 * 1024  # bytes of shared memory that a block of an H100 or H200 may have


def join(a: Clock, b: Clock) -> None:
    for actor, n in b.items():
        a[actor] = max(n, a.get(actor, 0))


@dataclass(eq=False)
class Partition:
    """One partition of a program: its clock, its products and stores under way, and where it stands."""

    name: str
    number: int
    warps: int
    clock: Clock
    baton: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    ready: Callable[[], bool] | None = None
    at: str = ""
    weight: float = 1.0
    products: list[tuple[Accumulator, str, Callable[[], Tensor]]] = field(default_factory=list)
    issued: int = 0
    stores: int = 0
    storing: set[int] = field(default_factory=set)
    stored: str = ""

    @property
    def me(self) -> tuple[str, int]:
        return ("partition", self.number)

    def release(self) -> Clock:
        """What happened so far, for whom this partition lets go on."""
        known = dict(self.clock)
        self.clock[self.me] += 1
        return known


class Allocation:
    """Shared memory of one allocate_shared_memory, with the last write and reads of every element."""

    def __init__(self, label: str, dtype: Dtype, shape: Sequence[int]) -> None:
        self.label, self.dtype, size, self.row = label, dtype, math.prod(shape), math.prod(shape[1:])
        self.data = torch.zeros(size, dtype=torch.int64 if dtype.kind in (1, 2) else dtype.torch)
        self.poison(slice(None))
        self.writer, self.written = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self.actors: dict[tuple[Any, ...], int] = {}
        self.reads: dict[tuple[Any, ...], np.ndarray] = {}
        self.notes: dict[tuple[Any, ...], str] = {}

    def poison(self, region: Any) -> None:
        self.data[region] = float("nan") if self.dtype.is_floating() else (1 << 30) - 1 if self.dtype.kind else True

    def check(self, region: Any, known: Clock, what: str, read: bool, fenced: bool) -> None:
        """Every write (and, before a write, every read) of the region must be known to have happened."""
        when, names = self.written[region], list(self.actors)
        if read:
            need(bool((when > 0).all()), lambda: f"{what} reads {self.label}, which nothing has written")
        if not names:
            return
        who = self.writer[region]
        late = when > np.array([known.get(a, 0) for a in names])[who]
        if late.any():
            first = np.argmax(late)
            other = self.notes[("w", *names[who[first]], int(when[first]))]
            raise GluonError(f"race: {what} does not wait for {other}")
        if fenced:
            seen = np.array([known.get(("fence", *a[1:]), 0) if a[0] == "partition" else 1 << 60 for a in names])
            need(
                not (when > seen[who]).any(),
                lambda: f"{what} reads {self.label} without a fence_async_shared after its store",
            )
        if not read:
            for actor, ticks in self.reads.items():
                late = ticks[region] > known.get(actor, 0)
                if late.any():
                    other = self.notes[("r", *actor, int(ticks[region][np.argmax(late)]))]
                    raise GluonError(f"race: {what} does not wait for {other}")

    def read(
        self, region: Any, actor: tuple[Any, ...], tick: int, known: Clock, what: str, fenced: bool = False
    ) -> None:
        self.check(region, known, what, True, fenced)
        self.reads.setdefault(actor, np.zeros(len(self.written), np.int64))[region] = tick
        self.notes[("r", *actor, tick)] = what

    def write(self, region: Any, actor: tuple[Any, ...], tick: int, known: Clock, what: str) -> None:
        self.check(region, known, what, False, False)
        self.writer[region], self.written[region] = self.actors.setdefault(actor, len(self.actors)), tick
        for ticks in self.reads.values():
            ticks[region] = 0
        self.notes[("w", *actor, tick)] = what


class Shared:
    """A view of shared memory (shared_memory_descriptor): `ids` are the elements' places in the allocation."""

    def __init__(self, run: Program, allocation: Allocation, ids: np.ndarray, layout: Any) -> None:
        self.run, self.allocation, self.ids, self.layout = run, allocation, ids, layout

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.ids.shape)

    @property
    def dtype(self) -> Dtype:
        return self.allocation.dtype

    @property
    def region(self) -> Any:
        low, high = int(self.ids.min()), int(self.ids.max()) + 1
        return slice(low, high) if high - low == self.ids.size else self.ids.ravel()

    @property
    def label(self) -> str:
        low, row = int(self.ids.min()), self.allocation.row
        one = self.ids.size <= row < len(self.allocation.data)
        return f"{self.allocation.label}[{low // row}]" if one else self.allocation.label

    def values(self) -> torch.Tensor:
        return self.allocation.data[torch.from_numpy(np.ascontiguousarray(self.ids))]

    def fill(self, data: torch.Tensor) -> None:
        self.allocation.data[torch.from_numpy(np.ascontiguousarray(self.ids))] = data.to(self.allocation.data.dtype)

    def view(self, ids: np.ndarray, layout: Any = None) -> Shared:
        return Shared(self.run, self.allocation, ids, layout or self.layout)

    def index(self, at: Any) -> Shared:
        n = int(at.__index__())
        rank = self.layout.rank
        need(len(self.shape) > rank, lambda: f"a view of shape {self.shape} in a layout of rank {rank} is not indexed")
        need(0 <= n < self.shape[0], lambda: f"buffer {n} of {self.allocation.label}, which has {self.shape[0]}")
        return self.view(self.ids[n])

    def slice(self, start: int, length: int, dim: int = 0) -> Shared:
        need(
            start >= 0 and start + length <= self.shape[dim],
            lambda: f"[{start}, {start + length}) of {self.shape[dim]}",
        )
        return self.view(self.ids[(slice(None),) * dim + (builtins.slice(start, start + length),)])

    def permute(self, order: Sequence[int]) -> Shared:
        need(tuple(order) == (1, 0) and len(self.shape) == 2, "this machine permutes only views of rank 2, by (1, 0)")
        need(isinstance(self.layout, NVMMASharedLayout), "this machine permutes only views in an NVMMASharedLayout")
        turned = replace(self.layout, transposed=not self.layout.transposed, rank=2)
        return self.view(self.ids.T, turned)

    def reshape(self, shape: Sequence[int]) -> Shared:
        need(math.prod(shape) == self.ids.size, lambda: f"{self.shape} has not the elements of {tuple(shape)}")
        if isinstance(self.layout, NVMMASharedLayout):
            need(
                not self.layout.transposed and shape[-1] == self.shape[-1],
                "a reshape keeps the swizzled last dimension",
            )
            return self.view(self.ids.reshape(shape), replace(self.layout, rank=len(shape)))
        return self.view(self.ids.reshape(shape))

    def load(self, layout: Layout) -> Tensor:
        part = self.run.pause()
        self.run.fits(layout)
        self.allocation.read(self.region, part.me, part.clock[part.me], part.clock, f"the load {self.run.here()}")
        return Tensor(self.values(), self.dtype, layout)

    def store(self, value: Tensor) -> None:
        part = self.run.pause()
        need(
            isinstance(value, Tensor) and value.shape == self.shape,
            lambda: f"a block of shape {self.shape} is stored here",
        )
        need(value.dtype == self.dtype, lambda: f"{value.dtype} is stored into shared memory of {self.dtype}")
        self.allocation.write(self.region, part.me, part.clock[part.me], part.clock, f"the store {self.run.here()}")
        self.fill(value.data)


class Barrier:
    """An mbarrier: a phase completes when `count` arrivals and all expected bytes are there (PTX ISA, mbarrier).

    It tells phases apart by their parity alone. So who arrives, or has bytes copied, must know that the phase before is
    over, else what is meant for one phase may count for the one before; and who waits for a phase already known to be
    over must not have missed the next one, for which the same wait would stand.
    """

    def __init__(self, label: str, count: int, part: Partition) -> None:
        self.label, self.count, self.left, self.phase = label, count, count, 0
        self.expected = self.issued = self.arrived = 0
        self.made, self.coming, self.done = (part.me, part.clock[part.me]), Clock(), Clock()

    def __str__(self) -> str:
        bytes_ = f", {self.expected - self.arrived} bytes" if self.expected != self.arrived else ""
        return f"{self.label} (phase {self.phase}, waiting for {self.left} of {self.count} arrivals{bytes_})"

    def known(self, part: Partition) -> int:
        """How many phases a partition knows to be over."""
        return part.clock.get(("copies", self), 0)

    def join(self, part: Partition) -> None:
        need(
            self.known(part) == self.phase,
            lambda: f"{part.name} has not waited for phase {self.phase - 1} of {self.label}, and goes on to the next",
        )

    def arrive(self, part: Partition, count: int) -> None:
        need(0 < count <= self.left, lambda: f"{count} more arrivals than {self} takes")
        self.join(part)
        self.left -= count
        join(self.coming, part.release())
        self.flip()

    def copy(self, part: Partition, size: int) -> None:
        """Bytes are on their way."""
        self.join(part)
        self.issued += size
        self.flip()

    def land(self, size: int) -> None:
        self.arrived += size
        self.flip()

    def over(self, part: Partition, parity: int) -> Callable[[], bool]:
        """Whether a wait for the phase of a parity is over."""
        known = self.known(part)
        need(
            known == self.phase or parity == known & 1,
            lambda: f"{part.name} waits for phase {known - 1} of {self.label}, but phase {known} may be over by then",
        )
        return lambda: self.phase & 1 != parity

    def flip(self) -> None:
        if self.left:
            return
        need(
            self.issued <= self.expected,
            lambda: f"{self.issued} bytes are copied on {self}, {self.expected} are expected",
        )
        if self.arrived == self.expected:
            self.phase, self.left = self.phase + 1, self.count
            self.expected = self.issued = self.arrived = 0
            join(self.done, self.coming)
            self.done[("copies", self)] = self.phase


class Stop(BaseException):
    """Another partition failed."""


class Program:
    """One program of a grid: its partitions, copies under way, shared memory and barriers."""

    def __init__(
        self, where: Callable[[], str], located: Callable[[BaseException], BaseException], seed: str, warps: int
    ) -> None:
        self.where, self.located, self.random = where, located, random.Random(seed)
        self.current = Partition("the kernel", 0, warps, {("partition", 0): 1})
        self.main, self.parts = self.current, [self.current]
        self.failure: BaseException | None = None
        self.copies: list[Callable[[], None]] = []
        self.eager = 10 ** self.random.uniform(-2, 1)
        self.barriers: dict[tuple[int, int], Barrier] = {}
        self.allocations: list[Allocation] = []
        self.bytes = 0
        self.duties: list[tuple[tuple[Any, ...], int, str]] = []

    def here(self) -> str:
        return f"at {self.where()}"

    def fits(self, layout: Any) -> None:
        """A layout spreads over as many warps as run it."""
        need(isinstance(layout, Layout), lambda: f"a layout of a block is needed, not {layout}")
        warps = layout.warps()
        need(
            warps in (None, self.current.warps), lambda: f"{layout} is for {warps} warps; {self.current.warps} run here"
        )

    def pause(self, ready: Callable[[], bool] | None = None) -> Partition:
        """Let others go on; return when it is this partition's turn and `ready`."""
        part = self.current
        part.ready, part.at = ready, self.where()
        self.next(part)
        return part

    def next(self, leaving: Partition, gone: bool = False) -> None:
        if gone:
            self.parts.remove(leaving)
        while True:
            open_ = [p for p in self.parts if p.ready is None or p.ready()]
            if not open_ and not self.copies:
                stuck = "".join(f"\n    {p.name} waits at {p.at}" for p in self.parts)
                waits = "".join(f"\n    {b}" for b in self.barriers.values())
                raise GluonError(f"deadlock:{stuck}{waits}")
            weights = [p.weight for p in open_] + [self.eager / max(1, len(self.copies))] * len(self.copies)
            (n,) = self.random.choices(range(len(weights)), weights)
            if n < len(open_):
                break
            self.copies.pop(n - len(open_))()
        if open_[n] is not leaving:
            self.current = open_[n]
            self.current.baton.release()
            if not gone:
                leaving.baton.acquire()
                if self.failure is not None:
                    raise self.failure if leaving is self.main else Stop

    def fail(self, error: BaseException) -> None:
        if self.failure is None:
            self.failure = error
            for p in self.parts:
                p.baton.release()

    def finish(self, part: Partition) -> None:
        for _, what, _compute in part.products[:1]:
            raise GluonError(f"{part.name} ends; {what} is never waited for")
        self.duties.append((("stores", part.number), part.stores, part.stored))

    def specialize(self, functions: Sequence[tuple[Any, Any]], warps: Sequence[int], registers: Sequence[int]) -> Any:
        workers = functions[1:]
        need(len(self.parts) == 1, "warp_specialize within warp_specialize")
        need(
            len(workers) == len(warps) == len(registers),
            lambda: f"{len(workers)} workers, {len(warps)} warp counts, {len(registers)} register counts",
        )
        need(
            all(w in (1, 2, 4, 8, 16) for w in warps),
            lambda: f"warps of a partition are a power of two, not {list(warps)}",
        )
        known, threads = self.main.release(), []
        for n, ((function, args), w) in enumerate(zip(workers, warps, strict=True), 1):
            part = Partition(f"{function.name} (worker {n})", n, w, {**known, ("partition", n): 1})
            part.weight = 10 ** self.random.uniform(-1, 1)
            self.parts.append(part)
            threads.append(threading.Thread(target=self.work, args=(part, function, args), daemon=True))
        names, self.main.name = self.main.name, f"{functions[0][0].name} (default)"
        team = self.parts[1:]
        for thread in threads:
            thread.start()
        try:
            result = functions[0][0](*functions[0][1])
            self.pause(lambda: len(self.parts) == 1)
        except BaseException as error:
            self.fail(error)
            for thread in threads:
                thread.join()
            raise
        for thread in threads:
            thread.join()
        for part in team:
            join(self.main.clock, part.clock)
        self.main.name = names
        return result

    def work(self, part: Partition, function: Any, args: Any) -> None:
        try:
            part.baton.acquire()
            if self.failure is None:
                function(*args)
                self.finish(part)
                self.next(part, gone=True)
        except Stop:
            pass
        except BaseException as error:
            self.fail(self.located(error))
