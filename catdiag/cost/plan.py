"""Tiles for a chip: `fit` chooses them by predicted time, and proves that they fit.

Least traffic is not least time: large tiles move fewer bytes, but leave SMs without a group, and let few share one.
`fit` predicts the time of every tile that fits (`catdiag.cost.timing` states the model), takes the best, and says
how many bytes it gave up for that.

A loop in parts is two kernels, one after the other, with the same group tiles: the second merges the states of the
parts, whose number is a power of two, with at least 16 elements in each. Of memory and registers the larger is shown.

How it chooses: group tiles are powers of two, multiples of 16, or the whole axis; stream blocks likewise, from 16
to 8,192. A grouped axis that every loaded array carries gets tile 1 beside others that are shared, since a larger one
saves no transfer. Operands are in shared memory, `stages` buffers of each stream block; everything else is in
registers, 4 bytes a value. Kernels index in powers of two, so other tiles must be half as quick again to be taken;
among tiles predicted within 5% the one with fewer threads a group is taken, then fewer bytes moved (in steps of 0.5%),
then one that leaves no tenth of the SMs without a group, then fewer turns of loops, then fewer buffers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from catdiag.cost import hardware as chips
from catdiag.cost.amounts import Amount
from catdiag.cost.hardware import Hardware
from catdiag.cost.kernels import Account, measure, width
from catdiag.cost.live import LEVEL, REGISTERS, Kernel
from catdiag.cost.proof import Proof, prove_bound
from catdiag.cost.timing import OVERHEAD, WARPS, Timing, ceil_div, fits, flops, predict
from catdiag.errors import CatdiagError, DoesNotFit, SizeError
from catdiag.partial import joined

if TYPE_CHECKING:
    from catdiag.diagram import Diagram

_STAGES = (1, 2, 3, 4)
_NEAR, _ODD = 1.05, 1.5
_USED, _ALIKE = 0.9, 0.005  # the part of the SMs that should have a group; and bytes moved count as alike within that
_GRID, _LONGEST = 300_000, 8192
_BUSY, _FULL = 0.85, 0.95  # parts of the time from which a pipeline, and HBM, are called what bounds a kernel
_WORDS = {"tensor": "matrix units", "exp": "special functions", "alu": "ALUs", "L2": "L2 bandwidth"}


@dataclass(frozen=True)
class LeastTraffic:
    """The tile that moves fewest bytes among those that fit; `bytes_ratio` is what the chosen one moves against it,
    `time_ratio` what it would have taken against the chosen one, `why` the reason in words."""

    tiles: Mapping[str, int]
    bytes_moved: int
    bytes_ratio: float
    time_ratio: float
    why: str


@dataclass(frozen=True)
class Plan:
    """Tiles for a chip, and what they are predicted to do.

    A group runs as a thread block: `smem_bytes` and `register_bytes` are of one, `resident` share an SM. `load_bytes`
    and `save_bytes` cross the edge to SMEM in the whole run and `hbm_bytes` that to HBM, `intensity` is FLOPs a byte
    at the edge to SMEM; `bound` names what takes the time. `utilisation` is of the chip's peak FLOP/s, or of its
    HBM bandwidth where nothing runs on matrix units. `parts_s` are a group's seconds by pipeline.
    """

    hardware: str
    dtype: str
    sizes: Mapping[str, int]
    tiles: Mapping[str, int]
    stages: int
    threads: int
    registers_per_thread: int
    smem_bytes: int
    register_bytes: int
    resident: int
    groups: int
    waves: int
    load_bytes: int
    save_bytes: int
    hbm_bytes: int
    flops: int
    intensity: float
    time_s: float
    bound: str
    utilisation: float
    parts_s: Mapping[str, float]
    least_traffic: LeastTraffic
    proof: Proof
    candidates: int = field(compare=False)

    @property
    def bytes_moved(self) -> int:
        """All bytes that cross the edge to SMEM."""
        return self.load_bytes + self.save_bytes

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        plain = {name: value for name, value in vars(self).items() if name not in ("least_traffic", "proof")}
        plain.update({name: dict(plain[name]) for name in ("sizes", "tiles", "parts_s")})
        least = {**vars(self.least_traffic), "tiles": dict(self.least_traffic.tiles)}
        return {**plain, "bytes_moved": self.bytes_moved, "least_traffic": least, "proof": vars(self.proof)}

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={value}" for name, value in self.sizes.items())
        parts = ", ".join(f"{_WORDS[name]} {1e6 * s:.1f}" for name, s in self.parts_s.items() if s)
        least, split = self.least_traffic, any(name.startswith("p_") for name in self.tiles)
        given = "nothing: no tile that fits moves fewer bytes"
        if least.bytes_moved < self.bytes_moved:
            given = (
                f"{least.bytes_ratio:.2f} times the least traffic, which is {least.bytes_moved:,} bytes at "
                f"{_tiles(least.tiles)}: {least.why}"
            )
        full = "the peak FLOP/s" if self.flops else "the peak HBM bandwidth"
        rate = f"{self.flops / self.time_s / 1e12:.1f} TFLOP/s, " if self.flops else ""
        return "\n".join(
            [
                f"{self.hardware}, {self.dtype}, {sizes}",
                f"tiles      {_tiles(self.tiles)} (g_: group tile, s_: stream block{', p_: parts' if split else ''}); "
                f"{_several(self.stages, 'buffer')} of each stream block; "
                f"{self.threads} threads ({_several(self.threads // 32, 'warp')})",
                f"on chip    a group takes {self.smem_bytes:,} bytes of SMEM and {self.registers_per_thread} registers "
                f"a thread, of which arrays fill {self.register_bytes:,} bytes in all",
                f"grid       {_several(self.groups, 'group')}, each a thread block, up to {self.resident} at once on "
                f"an SM; waves: {self.waves:,}",
                f"traffic    L2 to SMEM {self.load_bytes:,} bytes, results {self.save_bytes:,} bytes; "
                f"HBM {self.hbm_bytes:,} bytes",
                f"work       {self.flops:,} FLOPs of products, {self.intensity:.1f} a byte between L2 and SM",
                f"time       {1e6 * self.time_s:.1f} µs predicted, {rate}{100 * self.utilisation:.0f}% of {full}",
                f"bound by   {self.bound}",
                f"           one group needs, in µs: {parts}",
                f"given up   {given}",
                f"proved     {self.proof.statement} (bytes; z3, {1e3 * self.proof.seconds:.0f} ms)",
            ]
        )


def fit(
    diagram: Diagram | Any,
    hardware: Hardware | str,
    sizes: Mapping[str, int],
    dtype: str = "bf16",
    stages: int | None = None,
) -> Plan:
    """Group tiles, stream blocks, buffers and warps for one kernel on a chip, of least predicted time.

    `diagram` is a diagram or a derivation of one kernel, `sizes` gives every axis, `dtype` is the inputs' and
    outputs'. Raises SizeError for sizes that are missing, unknown or not positive, DoesNotFit with what each array of
    the smallest tile takes, and CatdiagError for an unknown chip or dtype and for several kernels.

    >>> import catdiag as cd
    >>> total = cd.algorithm("q x -> q")(lambda a: cd.sum(a, "x"))
    >>> plan = fit(total, "H100", {"q": 8, "x": 64})
    >>> plan.smem_bytes, plan.bound
    (1024, 'latency: loads, barriers and steps that wait for each other')
    """
    chip = chips.get(hardware)
    width(dtype)
    if stages is not None and (isinstance(stages, bool) or not isinstance(stages, int) or stages < 1):
        raise CatdiagError(f"stages is {stages!r}: expected a whole number of buffers, 1 or more")
    whole = getattr(diagram, "diagram", diagram)
    accounts: dict[int, Account] = {}
    for number in _STAGES if stages is None else (stages,):
        accounts[number] = measure(whole, dtype, number, registers=True)
    account = next(iter(accounts.values()))
    known = _checked(account, sizes)
    if len(account.kernels) != (1 if account.parted is None else 2):
        raise CatdiagError(
            f"fit plans one kernel, and the diagram has {len(account.kernels)}: group it as a whole, or fit its parts"
        )
    kernel = account.kernels[0]
    if stages is None and kernel.moments[LEVEL] == accounts[max(accounts)].kernels[0].moments[LEVEL]:
        accounts = {1: account}  # nothing is streamed
    whole = whole if account.parted is None else joined(whole)
    found = _Search(chip, dtype, known, accounts, measure(whole, dtype, registers=True).kernels[0])
    return found.plan()


def _checked(account: Account, sizes: Mapping[str, int]) -> dict[str, int]:
    needed = account.sizes
    listed = ", ".join(needed) or "none"
    for name in sizes:
        if name not in needed:
            raise SizeError(f"size {name!r} is given, and the diagram has no such axis: its sizes are {listed}")
    missing = [name for name in needed if name not in sizes]
    if missing:
        raise SizeError(f"the size of axis {missing[0]!r} is missing: expected sizes for {listed}")
    for name, value in sizes.items():
        if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < 1:
            raise SizeError(f"axis {name!r} has size {value!r}: expected a positive integer")
    return {name: int(sizes[name]) for name in needed}


def group_candidates(size: int) -> list[int]:
    """Powers of two, multiples of 16 (of 64 above 256) up to 1,024, and the whole axis."""
    found = {1 << k for k in range(size.bit_length()) if 1 << k <= size} | {size}
    found |= set(range(16, min(size, 256) + 1, 16)) | set(range(320, min(size, 1024) + 1, 64))
    return sorted(found)


def block_candidates(size: int) -> list[int]:
    """The same from 16 to 8,192 (beyond which fewer turns save nothing); the whole axis where it is shorter."""
    return [c for c in group_candidates(size) if 16 <= c <= _LONGEST or c == size < 16]


@dataclass
class _Choice:
    """One candidate: its stages, warps, tiles, and where it stands in a timing."""

    stages: int
    warps: int
    tiles: dict[str, int]
    timing: Timing
    place: int

    def get(self, name: str) -> float:
        """A prediction."""
        return _at(getattr(self.timing, name), self.place)

    @property
    def moved(self) -> float:
        return self.get("load") + self.get("save")

    @property
    def odd(self) -> bool:
        return any(t & (t - 1) for t in self.tiles.values())


def _at(numbers: Any, place: int) -> float:
    import numpy as np

    array = np.asarray(numbers)
    return float(array if array.ndim == 0 else array[place])


class _Search:
    """All candidates of one call of `fit`."""

    def __init__(
        self, chip: Hardware, dtype: str, sizes: dict[str, int], accounts: Mapping[int, Account], whole: Kernel
    ) -> None:
        self.chip, self.dtype, self.sizes, self.whole = chip, dtype, sizes, whole
        self.parted = next(iter(accounts.values())).parted
        # Of a split loop: the kernel that merges the states of the parts.
        self.merging = {stages: a.kernels[1] for stages, a in accounts.items()} if self.parted else {}
        self.kernels: dict[int, Kernel] = {stages: a.kernels[0] for stages, a in accounts.items()}
        self.kernel = next(iter(self.kernels.values()))
        self.least = min(self.kernels)

    def options(self) -> dict[str, list[int]]:
        """For each tile and block what it may be."""
        shared = {t for moved in self.kernel.transfers if moved.direction == "load" for t in moved.again}
        tiles = list(self.kernel.tiles)
        found: dict[str, list[int]] = {}
        if self.parted is not None:
            longest = Amount.of(self.parted.whole).value(self.sizes)
            found[self.parted.parts] = [1 << k for k in range(longest.bit_length()) if 1 << k <= max(1, longest // 16)]
        for tile, whole in self.kernel.tiles.items():
            if self.parted is not None and tile in self.parted.single:
                continue
            alone = tile not in shared and (bool(shared) or tile != tiles[-1])
            found[tile] = [1] if alone else group_candidates(int(whole.value(self.sizes)))
        for block, whole in self.kernel.loops:
            found[block] = block_candidates(math.ceil(whole.value(self.full(self.sizes))))
        return found

    def full(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values of all symbols, those of a split loop too: a part's length on average, and what is always 1."""
        if self.parted is None:
            return dict(values)
        parts = values.get(self.parted.parts, 1)
        length = Amount.of(self.parted.whole).value(values) / parts
        return {self.parted.parts: parts, self.parted.length: length, **dict.fromkeys(self.parted.single, 1), **values}

    def fitting(self, stages: int, values: Mapping[str, Any], warps: int) -> Any:
        """Whether the kernel, and the one that merges its parts, fit."""
        ok = fits(self.kernels[stages], self.chip, self.full(values), warps)
        return ok & fits(self.merging[stages], self.chip, self.full(values), warps) if self.merging else ok

    def predicted(self, stages: int, values: Mapping[str, Any], warps: int) -> Timing:
        """What a run takes; of a split loop, both kernels after one another, on chip the larger one."""
        import numpy as np

        values = self.full(values)
        first = predict(self.kernels[stages], self.chip, values, self.dtype, stages, warps)
        if not self.merging:
            return first
        then = predict(self.merging[stages], self.chip, values, self.dtype, stages, warps)
        both = {name: getattr(first, name) + getattr(then, name) for name in ("load", "save", "hbm", "seconds")}
        larger = {
            name: np.maximum(getattr(first, name), getattr(then, name)) for name in ("smem", "registers", "per_thread")
        }
        return replace(first, **both, **larger)

    def grid(self) -> tuple[dict[str, Any], dict[str, int]]:
        """The candidates as arrays, and the smallest. What does not fit beside the smallest others is left out."""
        import numpy as np

        options = self.options()
        smallest = {name: values[0] for name, values in options.items()}
        for name, values in options.items():
            tried = {**self.sizes, **smallest, name: np.array(values, dtype=np.int64)}
            fit_at_all = np.zeros(len(values), dtype=bool)
            for warps in WARPS:
                fit_at_all |= np.broadcast_to(self.fitting(self.least, tried, warps), fit_at_all.shape)
            options[name] = [v for v, ok in zip(values, fit_at_all, strict=True) if ok]
            if not options[name]:
                raise self.refusal(smallest)
        total = 1
        for values in options.values():
            total *= len(values)
        if total > _GRID:
            for name, values in options.items():
                last = values[-1]
                options[name] = [v for v in values if v & (v - 1) == 0 or v == last]
        axes = np.meshgrid(*(np.array(v, dtype=np.int64) for v in options.values()), indexing="ij") if options else []
        return {name: axis.ravel() for name, axis in zip(options, axes, strict=True)}, smallest

    def refusal(self, smallest: Mapping[str, int]) -> DoesNotFit:
        """Why nothing fits: what each array of the smallest tile takes, where it is too much."""
        kernel, values = self.kernels[self.least], self.full({**self.sizes, **smallest})
        chip = self.chip
        limits = {
            LEVEL: (f"{chip.smem_per_block:,} bytes of SMEM a thread block", chip.smem_per_block),
            REGISTERS: (f"{4 * chip.registers_per_sm:,} bytes of registers", 4 * chip.registers_per_sm),
        }
        tile = f"smallest tile, {_tiles(smallest)}," if smallest else "diagram, which has no groups and no stream,"
        lines = [f"nothing fits {chip.name}: the {tile} needs"]
        for place, (words, limit) in limits.items():
            moments = kernel.moments[place]
            if not moments:
                continue
            worst = max(moments, key=lambda m: int(m.total.value(values)))
            total = int(worst.total.value(values))
            verdict = "too much for" if total > limit else "of"
            lines.append(f"  {total:,} bytes, {verdict} {words}:")
            lines += [f"    {int(a.value(values)):>16,}  {name} ({role})" for name, role, a in worst.residents]
        lines.append(
            f"beside arrays a thread takes {OVERHEAD} of its at most {chip.registers_per_thread} registers; "
            "stream an axis, or group more axes, for smaller tiles"
        )
        return DoesNotFit("\n".join(lines))

    def choices(self) -> tuple[list[tuple[int, int, dict[str, Any], Timing]], int]:
        """Timings of all candidates that fit, by stages and warps."""
        import numpy as np

        grid, smallest = self.grid()
        found = []
        for stages in self.kernels:
            for warps in WARPS:
                values = {**self.sizes, **grid}
                ok = np.atleast_1d(self.fitting(stages, values, warps))
                if not ok.any():
                    continue
                kept = {name: axis[ok] for name, axis in grid.items()}
                timing = self.predicted(stages, {**self.sizes, **kept}, warps)
                found.append((stages, warps, kept, timing))
        if not found:
            raise self.refusal(smallest)
        count = sum(np.size(np.atleast_1d(t.seconds)) for _, _, _, t in found)
        return found, int(count)

    def plan(self) -> Plan:
        """The best candidate, proved to fit."""
        import numpy as np

        found, count = self.choices()
        best = min(float(np.min(timing.seconds)) for *_, timing in found)
        close: list[_Choice] = []
        fewest: _Choice | None = None
        for stages, warps, kept, timing in found:
            seconds = np.atleast_1d(timing.seconds)
            moved = np.broadcast_to(np.atleast_1d(timing.load + timing.save), seconds.shape)
            for place in np.flatnonzero(seconds <= best * _ODD * _NEAR):
                close.append(_choice(stages, warps, kept, timing, int(place)))
            first = int(np.lexsort((seconds, moved))[0])
            choice = _choice(stages, warps, kept, timing, first)
            if fewest is None or (choice.moved, choice.get("seconds")) < (fewest.moved, fewest.get("seconds")):
                fewest = choice
        even = [c for c in close if not c.odd and c.get("seconds") <= best * _ODD]
        pool = even or close
        quickest = min(c.get("seconds") for c in pool)
        chosen = min(
            (c for c in pool if c.get("seconds") <= quickest * _NEAR),
            key=lambda c: (
                c.warps,
                round(math.log(c.moved + 1) / _ALIKE),
                c.get("groups") < _USED * self.chip.sms,
                c.get("turns"),
                c.stages,
                c.get("seconds"),
                sorted(c.tiles.items()),
            ),
        )
        return self._plan(chosen, fewest or chosen, count)

    def _plan(self, chosen: _Choice, fewest: _Choice, count: int) -> Plan:
        timing, chip = chosen.timing, self.chip
        values = {**self.sizes, **chosen.tiles}
        threads = 32 * chosen.warps
        per_thread = int(chosen.get("per_thread"))
        seconds, hbm = chosen.get("seconds"), round(chosen.get("hbm"))
        work = flops(self.whole, values)
        moved = round(chosen.moved)
        parts = {name: _at(numbers, chosen.place) for name, numbers in timing.parts.items()}
        limit = chip.tensor.get(self.dtype, 2 * chip.alu_per_clock * chip.clock_hz * chip.sms)
        used = work / seconds / limit if work else hbm / seconds / chip.hbm_bytes_per_s
        return Plan(
            hardware=chip.name,
            dtype=self.dtype,
            sizes=dict(self.sizes),
            tiles=dict(chosen.tiles),
            stages=chosen.stages,
            threads=threads,
            registers_per_thread=per_thread,
            smem_bytes=int(chosen.get("smem")),
            register_bytes=int(chosen.get("registers")),
            resident=int(chosen.get("resident")),
            groups=int(chosen.get("groups")),
            waves=int(chosen.get("waves")),
            load_bytes=round(chosen.get("load")),
            save_bytes=round(chosen.get("save")),
            hbm_bytes=hbm,
            flops=work,
            intensity=work / moved if moved else 0.0,
            time_s=seconds,
            bound=self._bound(chosen, parts),
            utilisation=used,
            parts_s=parts,
            least_traffic=self._given_up(chosen, fewest),
            proof=self._proof(chosen, values),
            candidates=count,
        )

    def _bound(self, chosen: _Choice, parts: Mapping[str, float]) -> str:
        """What takes the time: HBM, the L2, loads that come late, a busy pipeline, or steps that wait."""
        chip, seconds, wave = self.chip, chosen.get("seconds"), chosen.get("wave")
        if chosen.get("hbm") / (chip.hbm_bytes_per_s * chip.sustained["hbm"]) >= _FULL * seconds:
            return "HBM bandwidth"
        blocks = min(chosen.get("resident"), float(ceil_div(int(chosen.get("groups")), chip.sms)))
        if parts["L2"] * blocks >= _BUSY * wave:
            return _WORDS["L2"]
        if chosen.get("loading") * _BUSY > chosen.get("computing"):
            return "loads that arrive late"
        busiest = max(("tensor", "exp", "alu"), key=lambda name: parts[name])
        if parts[busiest] * blocks >= _BUSY * wave:
            return _WORDS[busiest]
        if chosen.get("waits") > sum(parts[name] for name in ("tensor", "exp", "alu")):
            return "latency: loads, barriers and steps that wait for each other"
        return f"steps that wait for each other, most of them on {_WORDS[busiest]}"

    def _given_up(self, chosen: _Choice, fewest: _Choice) -> LeastTraffic:
        slower = fewest.get("seconds") / chosen.get("seconds")
        ratio = chosen.moved / fewest.moved if fewest.moved else 1.0
        if chosen.moved <= fewest.moved:
            why = "nothing was given up"
        else:
            reasons = []
            if fewest.get("groups") < self.chip.sms:
                reasons.append(f"only {_several(int(fewest.get('groups')), 'group')} for {self.chip.sms} SMs")
            elif fewest.get("waves") * fewest.get("resident") != chosen.get("waves") * chosen.get("resident"):
                waves = _several(int(fewest.get("waves")), "wave")
                reasons.append(f"{waves} of {int(fewest.get('resident'))} on an SM")
            reasons.append(f"{_several(fewest.stages, 'buffer')}, {32 * fewest.warps} threads")
            verdict = f"it would take {slower:.2f} times as long" if slower > 1.005 else "it is no quicker"
            why = f"{verdict} ({'; '.join(reasons)})"
        return LeastTraffic(dict(fewest.tiles), int(fewest.moved), ratio, slower, why)

    def _proof(self, chosen: _Choice, values: Mapping[str, int]) -> Proof:
        """That shared memory and registers suffice for this tile and every smaller one, remainders included."""
        chip, threads = self.chip, 32 * chosen.warps
        room = 4 * threads * (int(chosen.get("per_thread")) - OVERHEAD)
        kernels = [self.kernels[chosen.stages], *(self.merging[s] for s in (chosen.stages,) if self.merging)]
        single = self.parted.single if self.parted else ()
        moments = {
            place: [m.total.without(single) for k in kernels for m in k.moments[place]] for place in (LEVEL, REGISTERS)
        }
        level = prove_bound(moments[LEVEL], chip.smem_per_block, values)
        registers = prove_bound(moments[REGISTERS], room, values)
        return Proof(
            f"SMEM: {level.statement}; registers: {registers.statement}; whatever the other sizes",
            level.seconds + registers.seconds,
        )


def _choice(stages: int, warps: int, kept: Mapping[str, Any], timing: Timing, place: int) -> _Choice:
    return _Choice(stages, warps, {name: int(axis[place]) for name, axis in kept.items()}, timing, place)


def _several(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _tiles(tiles: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in tiles.items()) or "none"
