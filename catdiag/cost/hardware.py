"""What chips can do, as numbers with their sources.

>>> get("H100").sms, get("h100").tensor["bf16"]
(132, 989400000000000.0)

A chip of one's own is a `Hardware` like these: `dataclasses.replace(H100, name="mine", sms=114)`.
Rates are peaks that the vendor states, unless the source says otherwise; `sustained` is the part of them that plain
copies and large matrix products were measured to reach, by which predicted times reckon.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from catdiag.cost.hierarchy import CACHE, Edge, Hierarchy, Level
from catdiag.errors import CatdiagError

_KIB, _MIB = 1024, 1024 * 1024
_BY_NAME = ("tensor", "sustained")


@dataclass(frozen=True)
class Hardware:
    """A chip of equal streaming multiprocessors (SMs) under one L2 cache and one memory.

    Sizes are in bytes, registers in pieces of 4. Rates are in bytes or operations a second and of the whole chip;
    those per clock are of one SM. `latency_s` is how long a load takes to arrive. `tensor` gives dense FLOP/s by dtype;
    a dtype that it lacks runs on the ALUs. Matrix units take rows in pieces of `matrix_rows`, each worked on by
    `matrix_warps` warps. `sustained` gives the part of the peak that is reached, of `tensor` and of `hbm`.
    `wait_clocks` is how long threads wait where one step needs what others made in the step before (a barrier or
    shuffles, and a pipeline that drains and fills again); `turn_clocks` is what the instructions of a turn of a loop
    take of a warp beside its arithmetic. `sources` says where each number is from. Raises CatdiagError for a
    number that is not positive, or a sustained part above 1.
    """

    name: str
    sms: int
    smem_per_sm: int
    smem_per_block: int
    smem_reserved: int
    registers_per_sm: int
    registers_per_thread: int
    threads_per_sm: int
    threads_per_block: int
    blocks_per_sm: int
    l2_bytes: int
    hbm_bytes_per_s: float
    l2_bytes_per_s: float
    latency_s: float
    clock_hz: float
    special_per_clock: float
    alu_per_clock: float
    matrix_rows: int
    matrix_warps: int
    smem_bytes_per_clock: float
    wait_clocks: float
    turn_clocks: float
    tensor: Mapping[str, float] = field(hash=False)
    sustained: Mapping[str, float] = field(hash=False)
    sources: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            numbers = value.values() if name in _BY_NAME else [value] if isinstance(value, (int, float)) else []
            if any(not number > 0 for number in numbers) and name != "smem_reserved":
                raise CatdiagError(f"hardware {self.name!r}: {name} is {value!r}, expected a positive number")
        for part in ("tensor", "hbm"):
            if not 0 < self.sustained.get(part, 0) <= 1:
                raise CatdiagError(
                    f"hardware {self.name!r}: sustained is {dict(self.sustained)!r}, expected a part of the peak, "
                    f"above 0 and at most 1, of {part!r}; give 1.0 if you do not know it"
                )
        for name in (*_BY_NAME, "sources"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def hierarchy(self) -> Hierarchy:
        """Its memories: HBM, L2 (a cache), SMEM (one an SM; what a block may have of it) and registers."""
        on_chip = self.smem_bytes_per_clock * self.clock_hz * self.sms
        return Hierarchy(
            self.name,
            (
                Level("HBM", None),
                Level("L2", self.l2_bytes, CACHE),
                Level("SMEM", self.smem_per_block, count=self.sms),
                Level("registers", 4 * self.registers_per_sm),
            ),
            (
                Edge("HBM", "L2", self.hbm_bytes_per_s),
                Edge("L2", "SMEM", self.l2_bytes_per_s),
                Edge("SMEM", "registers", on_chip),
            ),
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, sources included."""
        return {n: dict(v) if isinstance(v, Mapping) else v for n, v in vars(self).items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.as_dict(),)

    def __str__(self) -> str:
        rows = []
        for name, value in self.as_dict().items():
            if name in ("name", "sources"):
                continue
            shown = ", ".join(f"{k} {v:.4g}" for k, v in value.items()) if name in _BY_NAME else f"{value:,}"
            rows.append(f"  {name:21} {shown:>22}  {self.sources.get(name, 'no source given')}")
        return "\n".join([self.name, *rows])


def _rebuild(fields: dict[str, Any]) -> Hardware:
    return Hardware(**fields)


_AMPERE = "NVIDIA A100 Tensor Core GPU architecture whitepaper, 2020"
_HOPPER = "NVIDIA H100 Tensor Core GPU architecture whitepaper, 2022"
_GUIDE = "CUDA C++ programming guide, compute capabilities"
_MIXED = "CUDA C++ programming guide, throughput of native arithmetic instructions"
_LATENCY = "uncertain: unofficial measurements give 0.2 µs from L2 and 0.5 µs from HBM; the longer is taken"
_BANKS = "CUDA C++ programming guide: 32 banks of 4 bytes a clock"
_WAIT = (
    "assumed: of the order of a barrier and the latency of dependent matrix instructions or shuffles; fitted, as the "
    "one free number, to kernels measured on an H200 (catdiag.cost.timing has the figures)"
)
_TURN = "assumed: some 64 instructions a warp for addresses, counters and barriers"

A100 = Hardware(
    name="A100",
    sms=108,
    smem_per_sm=164 * _KIB,
    smem_per_block=163 * _KIB,
    smem_reserved=_KIB,
    registers_per_sm=64 * 1024,
    registers_per_thread=255,
    threads_per_sm=2048,
    threads_per_block=1024,
    blocks_per_sm=32,
    l2_bytes=40 * _MIB,
    hbm_bytes_per_s=2039e9,
    l2_bytes_per_s=5.0e12,
    latency_s=0.5e-6,
    clock_hz=1410e6,
    special_per_clock=16,
    alu_per_clock=64,
    matrix_rows=16,
    matrix_warps=1,
    smem_bytes_per_clock=128,
    wait_clocks=130,
    turn_clocks=64,
    tensor={"bf16": 312e12, "fp16": 312e12, "tf32": 156e12, "fp64": 19.5e12},
    sustained={"tensor": 0.8, "hbm": 0.896},
    sources={
        "sms": _AMPERE, "smem_per_sm": _GUIDE, "smem_per_block": _GUIDE, "smem_reserved": _GUIDE,
        "registers_per_sm": _GUIDE, "registers_per_thread": _GUIDE, "threads_per_sm": _GUIDE,
        "threads_per_block": _GUIDE, "blocks_per_sm": _GUIDE, "l2_bytes": _AMPERE,
        "hbm_bytes_per_s": "NVIDIA A100 80GB SXM datasheet",
        "l2_bytes_per_s": "uncertain: unofficial measurements give 5 to 7 TB/s; the lower is taken",
        "latency_s": _LATENCY,
        "clock_hz": _AMPERE + " (boost)", "special_per_clock": _MIXED, "alu_per_clock": _MIXED,
        "matrix_rows": "PTX ISA: mma.m16n8k16, by one warp", "matrix_warps": "PTX ISA: mma is by one warp",
        "smem_bytes_per_clock": _BANKS, "wait_clocks": _WAIT, "turn_clocks": _TURN,
        "tensor": _AMPERE + ", dense",
        "sustained": "assumed: the parts measured on an H200",
    },
)  # fmt: skip

H100 = Hardware(
    name="H100",
    sms=132,
    smem_per_sm=228 * _KIB,
    smem_per_block=227 * _KIB,
    smem_reserved=_KIB,
    registers_per_sm=64 * 1024,
    registers_per_thread=255,
    threads_per_sm=2048,
    threads_per_block=1024,
    blocks_per_sm=32,
    l2_bytes=50 * _MIB,
    hbm_bytes_per_s=3.35e12,
    l2_bytes_per_s=9.0e12,
    latency_s=0.5e-6,
    clock_hz=1830e6,
    special_per_clock=16,
    alu_per_clock=128,
    matrix_rows=64,
    matrix_warps=4,
    smem_bytes_per_clock=128,
    wait_clocks=130,
    turn_clocks=64,
    tensor={"bf16": 989.4e12, "fp16": 989.4e12, "fp8": 1978.9e12, "tf32": 494.7e12, "fp64": 66.9e12},
    sustained={"tensor": 0.8, "hbm": 0.896},
    sources={
        "sms": _HOPPER + ", SXM5", "smem_per_sm": _GUIDE, "smem_per_block": _GUIDE, "smem_reserved": _GUIDE,
        "registers_per_sm": _GUIDE, "registers_per_thread": _GUIDE, "threads_per_sm": _GUIDE,
        "threads_per_block": _GUIDE, "blocks_per_sm": _GUIDE, "l2_bytes": _HOPPER,
        "hbm_bytes_per_s": "NVIDIA H100 SXM5 datasheet",
        "l2_bytes_per_s": "uncertain: published measurements give 5.5 to 9 TB/s; a streaming kernel of 64-row tiles "
        "on an H200, which has the same SMs, sustained 8.7 over a run of 7.8 waves, so 9.0 in its full ones",
        "latency_s": _LATENCY,
        "clock_hz": "the clock at which the stated dense rates hold: 989.4e12 / (132 × 4096)",
        "special_per_clock": _MIXED, "alu_per_clock": _MIXED,
        "matrix_rows": "PTX ISA: wgmma.m64nNk16, by one warpgroup", "matrix_warps": "PTX ISA: a warpgroup is 4 warps",
        "smem_bytes_per_clock": _BANKS, "wait_clocks": _WAIT, "turn_clocks": _TURN,
        "tensor": _HOPPER + ", SXM5, dense",
        "sustained": "assumed: the parts measured on an H200, which has the same SMs",
    },
)  # fmt: skip

H200 = Hardware(
    **{
        **H100.as_dict(),
        "name": "H200",
        "l2_bytes": 60 * _MIB,
        "hbm_bytes_per_s": 4.8e12,
        "sources": {
            **H100.sources,
            "sms": "NVIDIA H200 SXM datasheet: the H100's chip",
            "l2_bytes": "the driver's report on an H200 (the H100 whitepaper states 50 MiB for its chip)",
            "hbm_bytes_per_s": "NVIDIA H200 SXM datasheet",
            "sustained": "measured on an H200: bf16 matrix products at 690 to 790 of 989 TFLOP/s (the highest is "
            "taken, since what a kernel loses is reckoned apart), a copy at 4.30 of 4.8 TB/s",
            "l2_bytes_per_s": "uncertain: a streaming kernel of 64-row tiles sustained 8.7 TB/s over a run of 7.8 "
            "waves, so 9.0 in its full ones; published measurements of the H100 give 5.5 to 9 TB/s",
        },
    }
)

_TABLE: Mapping[str, Hardware] = MappingProxyType({h.name.lower(): h for h in (A100, H100, H200)})


def names() -> tuple[str, ...]:
    """The chips of the table."""
    return tuple(h.name for h in _TABLE.values())


def get(name: str | Hardware) -> Hardware:
    """The chip of that name, whatever its case. Raises CatdiagError, listing the known ones, for any other."""
    if isinstance(name, Hardware):
        return name
    found = _TABLE.get(name.strip().lower())
    if found is None:
        raise CatdiagError(
            f"unknown hardware {name!r}: known are {', '.join(names())}; or make a catdiag.hardware.Hardware"
        )
    return found
