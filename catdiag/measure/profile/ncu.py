"""Nsight Compute: the counters that are read, how it is run, and how its output is parsed.

`read` parses the CSV output of `ncu` in both of its forms: one line for each counter, or one for each kernel. It
accepts units, thousands separators, and other output of the program or the profiler in between. A counter without a
number ("n/a", "nan") is named in `.missing`. If nothing can be read, `profile` gives the reason as a sentence and
raises nothing.

>>> text = '''==PROF== Connected to process 7
... "ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
... "0","k(float *)","dram__bytes_read.sum","Mbyte","1,234.5"
... "0","k(float *)","launch__registers_per_thread","register/thread","n/a"
... '''
>>> reading, = read(text)
>>> reading.kernel, reading.values, reading.missing
('k', {'dram__bytes_read.sum': 1234500000.0}, ('launch__registers_per_thread',))
"""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

LOADED = "l1tex__m_xbar2l1tex_read_bytes.sum"
HBM_READ = "dram__bytes_read.sum"
HBM_WRITTEN = "dram__bytes_write.sum"
REQUESTED = "lts__t_sectors_srcunit_tex_op_read.sum"
STORED = "lts__t_sectors_srcunit_tex_op_write.sum"
REGISTERS = "launch__registers_per_thread"
SHARED = "launch__shared_mem_per_block_dynamic"
WARPS = "sm__warps_active.avg.pct_of_peak_sustained_active"
MOST_WARPS = "sm__maximum_warps_per_active_cycle_pct"
LOCAL_LOADS = "smsp__inst_executed_op_local_ld.sum"
LOCAL_STORES = "smsp__inst_executed_op_local_st.sum"
L1_HITS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"
TIME = "gpu__time_duration.sum"

METRICS: Mapping[str, str] = {
    LOADED: "bytes loaded from L2 into the L1 caches of the SMs",
    HBM_READ: "bytes read from HBM",
    HBM_WRITTEN: "bytes written to HBM while the kernel runs",
    REQUESTED: "sectors of 32 bytes that L2 reads for the SMs, coalesced requests counted once",
    STORED: "sectors of 32 bytes that the SMs write to L2",
    REGISTERS: "registers per thread",
    SHARED: "dynamic shared memory per block, in bytes",
    WARPS: "active warps, in percent of the most that an SM can have (achieved occupancy)",
    MOST_WARPS: "the same, as limited by the kernel's registers and shared memory (theoretical occupancy)",
    LOCAL_LOADS: "instructions that load spilled registers",
    LOCAL_STORES: "instructions that spill registers",
    L1_HITS: "sectors of 32 bytes that loads hit in L1",
    TIME: "nanoseconds",
}
"""The counters that are read, each with its meaning."""

SECTOR = 32
"""The bytes of a sector, the smallest unit of a cache transfer."""

_ID, _KERNEL, _NAME, _UNIT, _VALUE = "ID", "Kernel Name", "Metric Name", "Metric Unit", "Metric Value"
_SCALE = {
    "": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40,
}  # fmt: skip
_SECONDS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9, "nsecond": 1.0, "usecond": 1e3, "msecond": 1e6, "second": 1e9}
_BYTES = re.compile(r"^([KMGT]i?)?bytes?$", re.IGNORECASE)
_NUMBER = re.compile(r"^[-+]?(\d+(,\d{3})+|\d+)?(\.\d+)?([eE][-+]?\d+)?$")

_CAUSES = (
    ("ERR_NVGPUCTRPERM", "this user may not read the GPU's counters (ERR_NVGPUCTRPERM): run as root, or have the "
     "administrator allow it in the driver"),
    ("LibraryNotLoaded", "Nsight Compute could not be loaded into the driver (LibraryNotLoaded), as in some virtual "
     "machines"),
    ("driver resource", "another profiler holds the GPU's counters"),
    ("Driver was unable to satisfy", "the driver refuses the profiler (is another one running?)"),
    ("not supported on", "Nsight Compute does not support this GPU"),
    ("No kernels were profiled", "no kernel was launched between the marks of the profile"),
    ("No metrics to collect", "no counter is known to this Nsight Compute on this GPU"),
)  # fmt: skip
_UNKNOWN = re.compile(r"Failed to find metric (?:regex:)?\^?([\w.]+)")


@dataclass(frozen=True)
class CounterReading:
    """The counters of one launch, in bytes, nanoseconds or plain numbers, by name; and those without a number."""

    kernel: str
    order: int
    values: Mapping[str, float]
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Profile:
    """The readings in order of launch; or, as a sentence, why there are none (`unavailable`)."""

    readings: tuple[CounterReading, ...] = ()
    unavailable: str = ""
    left_out: tuple[str, ...] = field(default=())
    """Counters that this version does not have."""


def number(text: str, unit: str = "") -> float | None:
    """A number of a table in base units (bytes, nanoseconds); None if the cell has none.

    >>> number("1,234.5", "Kbyte"), number("2", "Mibyte/block"), number("n/a"), number("3.5", "usecond")
    (1234500.0, 2097152.0, None, 3500.0)
    """
    plain = text.strip().replace("\u202f", "").replace("\xa0", "").replace("'", "")
    if not plain or not _NUMBER.match(plain):
        return None
    try:
        found = float(plain.replace(",", ""))
    except ValueError:
        return None
    first = unit.strip().split("/")[0]
    scaled = _BYTES.match(first)
    if scaled:
        prefix = scaled[1] or ""
        return found * _SCALE[prefix[:1].upper() + prefix[1:].lower()]
    return found * _SECONDS.get(first, 1.0)


def read(text: str) -> tuple[CounterReading, ...]:
    """The readings in the output of `ncu --csv`, in order of launch.

    Lines outside tables are ignored. A line with another number of columns than its table is ignored too.
    """
    rows = _tables(text)
    found: dict[tuple[str, str], tuple[str, dict[str, float], list[str]]] = {}
    for process, row in rows:
        key = (process, row.get(_ID, ""))
        _, values, missing = found.setdefault(key, (_plain(row.get(_KERNEL, "")), {}, []))
        pairs = (
            [(row[_NAME], row.get(_UNIT, ""), row.get(_VALUE, ""))]
            if _NAME in row
            else [(name.split("\n")[0], row.get(f"unit of {name}", ""), value) for name, value in row.items()]
        )
        for name, unit, value in pairs:
            if "__" not in name or name.startswith("unit of "):
                continue
            measured = number(value, unit)
            if measured is None:
                missing.append(name)
            else:
                values[name] = measured
    return tuple(
        CounterReading(kernel, order, values, tuple(missing))
        for order, (kernel, values, missing) in enumerate(found.values())
    )


def _tables(text: str) -> list[tuple[str, dict[str, str]]]:
    """The rows of all tables, each with its process; a wide table's second line has units, which are added to rows."""
    found: list[tuple[str, dict[str, str]]] = []
    header: list[str] | None = None
    units: list[str] | None = None
    lines = [line for line in text.splitlines() if not line.startswith("==")]
    for cells in csv.reader(io.StringIO("\n".join(lines))):
        if _ID in cells and _KERNEL in cells:
            header, units = cells, None
            continue
        if header is None or len(cells) != len(header):
            continue
        row = dict(zip(header, cells, strict=True))
        if not row[_ID].strip():
            units = cells
            continue
        if units is not None:
            row.update({f"unit of {name}": unit for name, unit in zip(header, units, strict=True)})
        found.append((row.get("Process ID", ""), row))
    return found


def _plain(name: str) -> str:
    """A kernel's name without its parameters."""
    return re.split(r"[(<]", name.strip(), maxsplit=1)[0].split()[-1] if name.strip() else ""


def unavailable_reason(text: str, status: int) -> str:
    """Why a run of `ncu` gave no readings, as a sentence.

    >>> unavailable_reason("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", 1)[:43]
    "this user may not read the GPU's counters ("
    """
    for sign, cause in _CAUSES:
        if sign in text:
            return cause
    errors = [line.removeprefix("==ERROR==").strip() for line in text.splitlines() if line.startswith("==ERROR==")]
    if errors:
        return f"Nsight Compute says: {errors[0]}"
    last = [line.strip() for line in text.splitlines() if line.strip()]
    return f"ncu ended with status {status}" + (f": {last[-1][:200]}" if last else "")


def command(program: Sequence[str], metrics: Sequence[str], ncu: str = "ncu") -> list[str]:
    """The command that reads the counters of launches between `cudaProfilerStart` and `cudaProfilerStop`.

    Clocks are not locked. Caches are flushed before each launch, so that a kernel's inputs come from HBM.
    """
    return [
        ncu, "--clock-control", "none", "--cache-control", "all", "--profile-from-start", "off",
        "--csv", "--page", "raw", "--print-units", "base", "--metrics", ",".join(metrics), *program,
    ]  # fmt: skip


def profile(
    program: Sequence[str],
    metrics: Sequence[str] = tuple(METRICS),
    *,
    timeout: float = 300.0,
    env: Mapping[str, str] | None = None,
    ncu: str = "ncu",
) -> Profile:
    """Runs a program under Nsight Compute; `timeout` is in seconds.

    If this version does not know some counters, it is run again without them.

    >>> profile(["true"], ncu="no-such-profiler").unavailable
    'Nsight Compute is not installed: there is no no-such-profiler'
    """
    if shutil.which(ncu) is None:
        return Profile(unavailable=f"Nsight Compute is not installed: there is no {ncu}")
    wanted, left_out = list(metrics), list[str]()
    while True:
        try:
            done = subprocess.run(
                command(program, wanted, ncu),
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
                check=False,
                env=None if env is None else dict(env),
            )
        except subprocess.TimeoutExpired:
            return Profile(unavailable=f"ncu was stopped after {timeout:.0f} seconds")
        except OSError as error:
            return Profile(unavailable=f"ncu cannot be started: {error.strerror or error}")
        output = done.stdout + "\n" + done.stderr
        readings = read(done.stdout)
        unknown = {m for m in _UNKNOWN.findall(output) if m in wanted}
        if not readings and unknown and len(unknown) < len(wanted):
            left_out += sorted(unknown)
            wanted = [m for m in wanted if m not in unknown]
            continue
        if not any(r.values for r in readings):
            return Profile(unavailable=unavailable_reason(output, done.returncode), left_out=tuple(left_out))
        return Profile(readings, left_out=tuple(left_out))
