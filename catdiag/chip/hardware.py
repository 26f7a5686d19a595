"""Chips: rates, memory sizes and limits, each number with its source.

>>> get("H100").sms, get("h100").tensor["bf16"]
(132, 989400000000000.0)
>>> names()
('A100', 'H100', 'H200', 'B200', 'MI300X', 'TPU v5p')
>>> [level.name for level in get("MI300X").hierarchy.levels]
['HBM', 'LLC', 'L2', 'SMEM', 'registers']

To describe your own chip, write a TOML file and read it with `load` (its keys are the fields of `Hardware`, and `dumps`
writes one), or derive a `Hardware` from one of these: `dataclasses.replace(H100, name="mine", sms=114)`. The chips here
are such files too. Rates are the vendor's peaks, unless the source says otherwise. `sustained` is the share of the peak
that plain copies and large matrix products were measured to reach; predicted times use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from catdiag.chip.hierarchy import CACHE, Edge, Hierarchy, Level
from catdiag.chip.toml_file import dump, mismatch, read
from catdiag.util.errors import CatdiagError, require
from catdiag.util.files import read_whole

_BY_NAME = ("tensor", "sustained", "words", "energy_pj_per_byte")
_MAY_BE_ZERO = ("smem_reserved", "l2_bytes", "tmem_per_sm", "llc_bytes", "llc_bytes_per_s", "dependent_launch_s")
PLACES = ("registers", "TMEM", "SMEM")
"""The levels where results on chip may be."""
LAUNCH_S = 2e-6
"""Seconds between two kernels, where a chip does not say: what an H200 took at most."""
_LARGEST = 2**16
"""Bytes of a hardware file above which it is not read."""
_LEAST, _MOST, _MOST_WHOLE = 1e-15, 1e30, 2**53
"""Between these are the numbers of a chip, in base units; above the last, whole numbers are no floats."""
_WORDS = ("core", "HBM", "LLC", "L2", "SMEM", "TMEM", "registers")


@dataclass(frozen=True)
class Hardware:
    """A chip of equal cores (streaming multiprocessors, compute units, …) with caches and one main memory.

    Sizes are in bytes; registers are counted in units of 4 bytes. Rates are of the whole chip, in bytes or operations a
    second; rates per clock are of one core. The fields:

    - `sms`: the number of cores; per core `smem_per_sm`, `registers_per_sm`, `threads_per_sm`, `blocks_per_sm`; per
      thread block `smem_per_block`, `threads_per_block`, and `smem_reserved` bytes that the driver takes;
    - `latency_s`: the latency of a load from main memory;
    - `launch_s`: seconds from the end of a kernel to the start of the next one in a stream; `dependent_launch_s`: the
      same where the next one is launched as a dependent, which begins while the one before ends (0: the chip has no
      such launches);
    - `tensor`: dense FLOP/s of the matrix units, by dtype; a dtype that is missing runs on the ALUs;
    - `matrix_rows`, `matrix_columns`: rows and columns of matrix instructions are multiples of these; `matrix_warps`
      warps work on `matrix_rows` rows; `matrix_depth`: the summed axis is a multiple of this, for 2-byte elements (half
      for 4 bytes, and so on);
    - `row_bytes`: rows of arrays are loaded in multiples of this;
    - `sustained`: the share of the peak that is reached, of `tensor` and of `hbm_bytes`;
    - `wait_clocks`: the stall of threads when a step needs what other threads made in the step before (a barrier or
      shuffles, and a pipeline that drains and fills again);
    - `iteration_clocks`: the issue clocks of a loop iteration's instructions beside its arithmetic, per warp;
    - `warp`: threads of a warp; `warps`: the numbers of warps that are tried for a kernel;
    - `l2_count` L2 caches of `l2_bytes` each (0: none), each shared by equally many cores; before them a last-level
      cache (LLC) of `llc_bytes` (0: none), with `llc_bytes_per_s`;
    - `accumulators`: where results on chip are. "registers"; or "TMEM" for results of matrix units (`tmem_per_sm` bytes
      a core) and registers for the rest; or "SMEM" for all;
    - `words`: the vendor's own words for a core and the levels; `energy_pj_per_byte`: by edge, such as "HBM-L2", if
      published; `sources`: where each number is from.

    Raises CatdiagError for a number that is not positive, a sustained share above 1, a block that may have more shared
    memory than a core, cores that the L2s do not share evenly, and unknown levels, words and edges.
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
    iteration_clocks: float
    tensor: Mapping[str, float] = field(hash=False)
    sustained: Mapping[str, float] = field(hash=False)
    sources: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    warp: int = 32
    warps: tuple[int, ...] = (4, 8, 16)
    register_step: int = 8
    matrix_columns: int = 8
    matrix_depth: int = 16
    row_bytes: int = 128
    l2_count: int = 1
    llc_bytes: int = 0
    llc_bytes_per_s: float = 0.0
    tmem_per_sm: int = 0
    accumulators: str = ""
    words: Mapping[str, str] = field(default_factory=dict, hash=False)
    energy_pj_per_byte: Mapping[str, float] = field(default_factory=dict, hash=False)
    launch_s: float = LAUNCH_S
    dependent_launch_s: float = 0.0

    def __post_init__(self) -> None:
        if not self.accumulators:
            object.__setattr__(self, "accumulators", "TMEM" if self.tmem_per_sm else "registers")
        for name, value in vars(self).items():
            numbers = (
                value.values()
                if name in ("tensor", "sustained")
                else value
                if isinstance(value, tuple)
                else [value]
                if isinstance(value, (int, float))
                else []
            )
            least = name in _MAY_BE_ZERO
            if any(not (number > 0 or (least and number == 0)) for number in numbers):
                raise CatdiagError(f"hardware {self.name!r}: {name} is {value!r}, expected a positive number")
            for number in numbers:
                most = _MOST_WHOLE if isinstance(number, int) else _MOST
                if number and not _LEAST <= number <= most:
                    raise CatdiagError(
                        f"hardware {self.name!r}: {name} is {number:.3g}, out of range: expected "
                        f"{_LEAST:.0e} to {most:.0e} in base units"
                        if isinstance(number, float)
                        else f"hardware {self.name!r}: {name} is above 2**53: expected at most {most}"
                    )
        for part in ("tensor", "hbm"):
            if not 0 < self.sustained.get(part, 0) <= 1:
                raise CatdiagError(
                    f"hardware {self.name!r}: sustained is {dict(self.sustained)!r}, expected a share of the peak, "
                    f"above 0 and at most 1, of {part!r}; give 1.0 if you do not know it"
                )
        for wrong in self._at_odds():
            raise CatdiagError(f"hardware {self.name!r}: {wrong}")
        for name in (*_BY_NAME, "sources"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        known = {f"{e.upper}-{e.lower}" for e in self.hierarchy.edges}
        for edge, energy in self.energy_pj_per_byte.items():
            if edge not in known or not energy >= 0:
                raise CatdiagError(
                    f"hardware {self.name!r}: energy_pj_per_byte of {edge!r} is {energy!r}; expected picojoules a "
                    f"byte, 0 or more, of an edge: {', '.join(sorted(known))}"
                )

    def _at_odds(self) -> Iterator[str]:
        if self.smem_per_block > self.smem_per_sm:
            yield f"smem_per_block is {self.smem_per_block}, more than smem_per_sm, {self.smem_per_sm}"
        if self.sms % self.l2_count:
            yield f"l2_count is {self.l2_count}, which does not divide sms, {self.sms}"
        if self.l2_count > 1 and not self.l2_bytes:
            yield f"l2_count is {self.l2_count} and l2_bytes 0: expected the bytes of one"
        if bool(self.llc_bytes) != bool(self.llc_bytes_per_s):
            yield "llc_bytes and llc_bytes_per_s go together: expected both or neither"
        if self.llc_bytes and not self.l2_bytes:
            yield "llc_bytes is given and l2_bytes is 0: call a single cache L2"
        if self.accumulators not in PLACES:
            yield f"accumulators is {self.accumulators!r}: expected one of {', '.join(PLACES)}"
        if (self.accumulators == "TMEM") != bool(self.tmem_per_sm):
            yield f"accumulators is {self.accumulators!r} and tmem_per_sm {self.tmem_per_sm}: one needs the other"
        for word in self.words:
            if word not in _WORDS:
                yield f"words has {word!r}: expected a word for one of {', '.join(_WORDS)}"

    def word(self, what: str) -> str:
        """The vendor's word for a core or a level."""
        require(isinstance(what, str), "what", what, "a name that the chip may have another word for, such as 'SMEM'")
        return self.words.get(what, "SM" if what == "core" else what)

    def depth_piece(self, element: int) -> int:
        """The multiple of the summed axis in a matrix instruction, for elements of so many bytes."""
        return max(1, self.matrix_depth * 2 // element)

    @property
    def kernel_gap_s(self) -> float:
        """Seconds from the end of a kernel to the start of the next: of a dependent, where it has such launches.

        >>> f"{get('H200').kernel_gap_s:.1e}", f"{get('A100').kernel_gap_s:.1e}"
        ('1.7e-06', '2.0e-06')
        """
        return self.dependent_launch_s or self.launch_s

    @property
    def sustained_hbm_bytes_per_s(self) -> float:
        """The bytes a second that kernels are found to get of HBM, or to give it."""
        return self.hbm_bytes_per_s * self.sustained["hbm"]

    @property
    def sustained_bytes_per_s(self) -> dict[str, float]:
        """The bytes a second that cross the edge below HBM, and below each cache, by the name of the level above it."""
        return {"HBM": self.sustained_hbm_bytes_per_s, "LLC": self.llc_bytes_per_s, "L2": self.l2_bytes_per_s}

    @property
    def by_warpgroups(self) -> bool:
        """Whether four warps (a warpgroup) issue one matrix instruction: on chips that copy boxes of arrays themselves
        (TMA; Hopper and later)."""
        return self.matrix_warps >= 4

    @property
    def hierarchy(self) -> Hierarchy:
        """Its memory hierarchy: HBM, caches, SMEM (one a core; the capacity is that of one block), TMEM and
        registers."""
        found: list[tuple[Level, Edge | None]] = [(Level("HBM", None), None)]

        def below(upper: str, level: Level, rate: float | None) -> None:
            energy = self.energy_pj_per_byte.get(f"{upper}-{level.name}")
            called = self.words.get(level.name, "")
            level = Level(level.name, level.capacity, level.kind, level.count, called)
            found.append((level, Edge(upper, level.name, rate, energy)))

        top, rate = "HBM", self.hbm_bytes_per_s
        if self.llc_bytes:
            below(top, Level("LLC", self.llc_bytes, CACHE), rate)
            top, rate = "LLC", self.llc_bytes_per_s
        if self.l2_bytes:
            below(top, Level("L2", self.l2_bytes, CACHE, self.l2_count), rate)
            top, rate = "L2", self.l2_bytes_per_s
        below(top, Level("SMEM", self.smem_per_block, count=self.sms // self.l2_count), rate)
        on_chip = self.smem_bytes_per_clock * self.clock_hz * self.sms
        edges: list[Edge] = []
        if self.tmem_per_sm:
            below("SMEM", Level("TMEM", self.tmem_per_sm), on_chip)
            edges = [Edge("TMEM", "registers", None, self.energy_pj_per_byte.get("TMEM-registers"))]
        below("SMEM", Level("registers", 4 * self.registers_per_sm), on_chip)
        return Hierarchy(self.name, tuple(level for level, _ in found), (*(edge for _, edge in found if edge), *edges))

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, sources included."""
        return {n: dict(v) if isinstance(v, Mapping) else v for n, v in vars(self).items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.as_dict(),)

    def __str__(self) -> str:
        rows = []
        for name, value in self.as_dict().items():
            if name in ("name", "sources") or value in ("", {}):
                continue
            if name in _BY_NAME:
                shown = ", ".join(f"{k} {v}" if isinstance(v, str) else f"{k} {v:.4g}" for k, v in value.items())
            elif isinstance(value, tuple):
                shown = ", ".join(map(str, value))
            else:
                shown = value if isinstance(value, str) else f"{value:,}"
            if name in self.sources or value != _DEFAULTS.get(name):
                rows.append(f"  {name:21} {shown:>22}  {self.sources.get(name, 'no source given')}")
        return "\n".join([self.name, *rows])


_DEFAULTS = {f.name: f.default for f in fields(Hardware) if f.default is not MISSING}


def _rebuild(plain: dict[str, Any]) -> Hardware:
    return Hardware(**plain)


def load(path: str | Path) -> Hardware:
    """The chip that a TOML file describes.

    Its keys are the fields of `Hardware`. Numbers are in base units (bytes, bytes/s, Hz, …) or texts with units ("228
    KiB", "3.35 TB/s"). `base = "H100"` takes what is not given from a known chip. Raises CatdiagError, with the file
    and the key, for a file that cannot be read, unknown or missing keys, and values of a wrong type, in a wrong unit,
    or negative.
    """
    require(isinstance(path, (str, Path)), "the hardware file", path, "a path to a TOML file")
    place = Path(path)
    try:
        text = read_whole(place, _LARGEST).decode("utf-8")
    except (OSError, ValueError) as error:
        raise CatdiagError(f"cannot read the hardware file {place}: {error}") from error
    return loads(text, str(place))


def loads(text: str, file: str = "the text") -> Hardware:
    """`load` for a text; `file` is its name in errors. Raises CatdiagError for text that is no TOML, and for keys and
    sources that are missing or unknown.

    >>> mine = loads('name = "mine"\\nbase = "H100"\\nhbm_bytes_per_s = "2 TB/s"')
    >>> mine.hbm_bytes_per_s, mine.sms, mine.sources["sms"] == H100.sources["sms"], "hbm_bytes_per_s" in mine.sources
    (2000000000000.0, 132, True, False)
    """
    require(isinstance(text, str), "the description of a chip", text, "a text of TOML")
    given = read(text, file, Hardware)
    base = given.pop("base", None)
    plain: dict[str, Any] = {}
    if base is not None:
        known = _TABLE.get(_key(base))
        if known is None:
            raise CatdiagError(f"{file}: key 'base' is {base!r}: expected one of {', '.join(names())}")
        plain = known.as_dict()
        plain["sources"] = {n: s for n, s in known.sources.items() if n not in given}
        if "tmem_per_sm" in given and "accumulators" not in given:
            plain.pop("accumulators")
    for name, value in given.items():
        plain[name] = {**plain.get(name, {}), **value} if name == "sources" else value
    needed = [f.name for f in fields(Hardware) if f.default is MISSING and f.default_factory is MISSING]
    missing = [name for name in needed if name not in plain]
    if missing:
        raise CatdiagError(
            f"{file}: the key {missing[0]!r} is missing"
            + (f" (and {', '.join(missing[1:])})" if missing[1:] else "")
            + '; or take the rest from a chip of the table, as in base = "H100"'
        )
    unsourced = sorted(set(plain.get("sources", {})) - {f.name for f in fields(Hardware)})
    if unsourced:
        raise CatdiagError(f"{file}: sources names {unsourced[0]!r}, {mismatch(unsourced[0], needed)}")
    try:
        return Hardware(**plain)
    except CatdiagError as error:
        raise CatdiagError(f"{file}: {error.message}") from None


def dumps(hardware: Hardware) -> str:
    """A TOML text that `loads` reads back as an equal chip. Raises CatdiagError for names that cannot be printed.

    >>> loads(dumps(A100)) == A100
    True
    """
    require(isinstance(hardware, Hardware), "what is written", hardware, "a Hardware")
    text = dump({n: v for n, v in hardware.as_dict().items() if n not in _DEFAULTS or v != _DEFAULTS[n]})
    read(text, f"the chip {hardware.name!r}", Hardware)  # do not write a file that cannot be read back
    return text


def _key(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())


_TABLE: dict[str, Hardware] = {}
for _file in ("A100", "H100", "H200", "B200", "MI300X", "TPUv5p"):
    _chip = load(Path(__file__).parent / f"{_file}.toml")
    _TABLE[_key(_chip.name)] = _chip
A100, H100, H200, B200, MI300X, TPU_V5P = _TABLE.values()
_TABLE = MappingProxyType(_TABLE)  # type: ignore[assignment]


def names() -> tuple[str, ...]:
    """The names of the known chips."""
    return tuple(h.name for h in _TABLE.values())


def get(name: str | Path | Hardware) -> Hardware:
    """The chip of that name, in any case, or of that TOML file (a path, or a text that ends in ".toml").

    Raises CatdiagError, listing the known ones, for any other name, and as `load` does.
    """
    if isinstance(name, Hardware):
        return name
    if isinstance(name, Path) or (isinstance(name, str) and name.endswith(".toml")):
        return load(name)
    found = _TABLE.get(_key(name)) if isinstance(name, str) else None
    if found is None:
        raise CatdiagError(
            f"unknown hardware {name!r}: known are {', '.join(names())}; or write a TOML file, or make a "
            "catdiag.hardware.Hardware"
        )
    return found
