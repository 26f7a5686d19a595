"""Design sweeps: the plans of many operators on many chips at many sizes, in the workers of an executor.

A point is an operator, a chip, an element type and a size of each axis; its result says which tiles fit it best, what
they are predicted to take, or why there is no plan. Sizes that an operator does not have, lacks or cannot take are
such a reason, and end nothing. Operators are streamed and grouped here, once, with their proofs; a worker is sent the
diagram and plans. **A plan that comes back is made again here from its tiles**, which is quick, and a worker whose
numbers are not those of its tiles is not believed; that no other tile is better is its word.

Results are kept line by line beside the file while the sweep runs (`FILE.partial`), so that one that was interrupted
goes on where it stopped; the file is written whole at the end, in the order of the points, the same bytes however the
work was spread.

>>> found = sweep(["matmul"], ["H100", "A100"], {"a": [512], "b": [512], "c": [512, 0]})
>>> [(r.hardware, r.sizes["a"], r.status, r.plan["tiles"]["g_a"]) for r in found if r.plan]
[('H100', 512, 'fits', 64), ('A100', 512, 'fits', 64)]
>>> {r.message for r in found if r.status == "refused"}
{"axis 'c' has size 0: expected a positive integer"}
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from catdiag.category.diagram import diagram_of
from catdiag.category.types import size_symbols
from catdiag.util.errors import CatdiagError, DoesNotFit
from catdiag.util.executors import Failed, Progress, each
from catdiag.util.files import read_whole, write_whole

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from catdiag.category.diagram import Diagram
    from catdiag.chip.hardware import Hardware
    from catdiag.rewrite.derivation import Derivation

    Operator: TypeAlias = str | Diagram | Derivation

STATUSES = ("fits", "does not fit", "refused", "failed")
"""`refused` are points without a plan by what was asked; `failed` are those whose worker died, raised, or said what is
not so: they are done again when the sweep is resumed."""
_PLAN = ("tiles", "stages", "threads", "time_s", "bound", "utilization", "load_bytes", "save_bytes", "hbm_bytes",
         "flops", "shared_memory_bytes", "register_bytes", "groups", "waves", "blocks_per_sm",
         "registers_per_thread", "warps", "warp_specialized", "backend")  # fmt: skip
_LARGEST = 2**30
"""Bytes of the results of an earlier run above which they are not read."""
_MOST_POINTS = 10_000_000


@dataclass(frozen=True)
class SweepResult:
    """A point, and what became of it: `plan` has the fields of a plan where it fits, `message` says why not elsewhere.

    `digest` is a digest of the operator and the chip, so that results of others of these names are not taken for them.
    """

    operator: str
    hardware: str
    dtype: str
    sizes: Mapping[str, Any]
    status: str
    digest: str
    message: str = ""
    plan: Mapping[str, Any] = field(default_factory=dict)

    def line(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=True, sort_keys=True)

    @property
    def key(self) -> str:
        """What tells points apart."""
        return json.dumps([self.operator, self.hardware, self.dtype, dict(self.sizes), self.digest], sort_keys=True)


@dataclass(frozen=True)
class _Subject:
    """An operator as it is planned for: its name, its diagram in blocks, the names of its sizes, and a digest."""

    name: str
    diagram: Diagram
    sizes: tuple[str, ...]
    digest: str


def sweep(
    operators: Sequence[Operator],
    hardware: Sequence[Hardware | str],
    sizes: Mapping[str, Sequence[int]] | Sequence[Mapping[str, int]],
    *,
    dtypes: Sequence[str] = ("bf16",),
    executor: Executor | None = None,
    file: str | Path | None = None,
    progress: Progress | None = None,
) -> list[SweepResult]:
    """The plan of each operator on each chip in each element type at each of the sizes, in that order.

    An operator is a name of the library, a diagram (both are streamed and grouped as `catdiag derive` would), or a
    derivation, which is taken as it is. `sizes` are lists of lengths by name, of which every combination is taken, or
    the combinations themselves; an operator takes those of its own names, and points that are then the same are one.
    `executor` is any `concurrent.futures.Executor`, in whose workers the plans are made; without it they are made here.
    `file` (.jsonl, or .csv for a table) is written at the end. Where there are results of a run that was stopped, or of
    an earlier one in .jsonl, only what they lack is done. `progress` is called with how many points
    are done, and how many there are.

    Raises CatdiagError for unknown operators and chips, for sizes that no operator has, and for a file that cannot be
    read; OSError where the file cannot be written.
    """
    subjects = [_subject(op) for op in _listed(operators, "operators")]
    chips = [_chip(name) for name in _listed(hardware, "hardware")]
    wanted = list(_points(subjects, chips, _listed(dtypes, "dtypes"), sizes))
    records = _Records(None if file is None else Path(file))
    old = records.read()
    todo = [(subject, chip, point) for subject, chip, point in wanted if point.key not in old]
    found = {point.key: old[point.key] for _, _, point in wanted if point.key in old}
    items = [(s.diagram, c, p.dtype, dict(p.sizes)) for s, c, p in todo]
    already = len(wanted) - len(todo)

    def report(done: int, _: int) -> None:
        if progress is not None:
            progress(already + done, len(wanted))

    with records, closing(each(plan, items, executor=executor, progress=report)) as coming:
        for (subject, chip, point), given in zip(todo, coming, strict=True):
            result = _result(point, given)
            if executor is not None and result.status == "fits":
                result = _replanned(result, subject, chip)
            found[result.key] = result
            records.append(result)
    results = [found[point.key] for _, _, point in wanted]
    records.write(results)
    return results


def plan(diagram: Diagram, chip: Hardware, dtype: str, sizes: Mapping[str, Any], **fixed: Any) -> dict[str, Any]:
    """What a worker does: the plan of one point as plain data, or the reason why there is none."""
    from catdiag.planner.fit import fit

    try:
        made = fit(diagram, chip, sizes, dtype, **fixed).as_dict()
    except DoesNotFit as error:
        return {"status": "does not fit", "message": error.message}
    except CatdiagError as error:
        return {"status": "refused", "message": error.message}
    return {"status": "fits", "plan": {name: made[name] for name in _PLAN}}


def _result(point: SweepResult, given: Any) -> SweepResult:
    """The result of a point from what came back; what is no answer has failed."""
    from dataclasses import replace

    if isinstance(given, Failed):
        return replace(point, status="failed", message=given.reason)
    try:
        plain = json.loads(json.dumps(given))
        status, message, planned = plain["status"], plain.get("message", ""), plain.get("plan", {})
        if status not in STATUSES[:3] or not isinstance(message, str) or not isinstance(planned, dict):
            raise ValueError(status)
        if (status == "fits") != (set(planned) == set(_PLAN)):
            raise ValueError(sorted(planned))
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError):
        return replace(point, status="failed", message=f"what came back is no plan: {str(given)[:200]}")
    return replace(point, status=status, message=message, plan=planned)


def _replanned(result: SweepResult, subject: _Subject, chip: Hardware) -> SweepResult:
    """A plan made once more from its tiles: the same numbers, or a failure."""
    from dataclasses import replace

    chosen = result.plan
    try:
        fixed = {name: chosen[name] for name in ("tiles", "stages", "threads", "backend")}
        again = plan(subject.diagram, chip, result.dtype, result.sizes, **fixed)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        again = {"status": "refused", "message": str(error)}
    if again["status"] == "fits" and json.loads(json.dumps(again["plan"])) == chosen:
        return result
    said = again.get("message") or f"its tiles give {again['plan']}"
    return replace(result, status="failed", message=f"what came back is not so: {said}", plan={})


def _listed(given: Any, what: str) -> list[Any]:
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence) or not given:
        raise CatdiagError(f"{what} is {given!r}: expected a list of one or more, such as {_EXAMPLES[what]}")
    return list(given)


_EXAMPLES = {"operators": '["matmul"]', "hardware": '["H100"]', "dtypes": '["bf16"]', "sizes": '{"q": [1024, 2048]}'}


def _chip(given: Hardware | str) -> Hardware:
    from catdiag.chip import hardware

    return hardware.get(given)


def _subject(operator: Operator) -> _Subject:
    """An operator streamed and grouped, unless it is a derivation already."""
    from catdiag.rewrite.derivation import derivation_of

    if isinstance(operator, str):
        from catdiag.library.diagrams import get

        name, whole = operator, get(operator)
        made = _derived(operator)
    else:
        whole = diagram_of(operator, "the operator")
        name, made = whole.title, whole if derivation_of(operator).steps else _blocked(whole)
    symbols: dict[str, None] = {}
    for ty in (*whole.dom, *whole.cod):
        for axis in ty.axes:
            symbols.update(dict.fromkeys(sorted(size_symbols(axis.size))))
    scalars = [n for n, ty in zip(whole.input_names, whole.dom, strict=True) if ty.element == "int" and not ty.axes]
    from catdiag.prover.export import NotExportable, program

    try:
        core = json.dumps(program(made), sort_keys=True)
    except NotExportable:
        core = str(made)
    tiles = hashlib.sha256((core + str(made)).encode("utf-8", "surrogatepass")).hexdigest()
    return _Subject(name or "diagram", made, (*symbols, *scalars), tiles)


@cache
def _derived(name: str) -> Diagram:
    from catdiag.library.diagrams import get

    return _blocked(get(name))


def _blocked(diagram: Diagram) -> Diagram:
    """A diagram streamed and grouped as takes the least memory; itself where neither can be done."""
    from catdiag.planner.derivation_search import attempts, best, memory
    from catdiag.solvers.z3 import borrowed

    with borrowed() as ask:
        tried, _ = attempts(diagram, ask, memory)
        return best(tried).derivation.diagram


def _points(
    subjects: Sequence[_Subject], chips: Sequence[Hardware], dtypes: Sequence[str], sizes: Any
) -> Iterator[tuple[_Subject, Hardware, SweepResult]]:
    """The points in their order, each once."""
    rows = _rows(sizes)
    known = {name for subject in subjects for name in subject.sizes}
    unknown = sorted({str(name) for row in rows for name in row} - known)
    if unknown:
        listed = ", ".join(sorted(known)) or "none"
        raise CatdiagError(f"size {unknown[0]!r} is given, and no operator has such an axis: their sizes are {listed}")
    seen: set[str] = set()
    for subject, chip in product(subjects, chips):
        described = json.dumps(chip.as_dict(), sort_keys=True, default=str)
        digest = hashlib.sha256((subject.digest + described).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        for dtype, row in product(dtypes, rows):
            own = {name: row[name] for name in subject.sizes if name in row}
            point = SweepResult(subject.name, chip.name, str(dtype), own, "failed", digest)
            if point.key not in seen:
                seen.add(point.key)
                yield subject, chip, point


def _rows(sizes: Any) -> list[dict[str, Any]]:
    """The combinations of sizes, plain numbers where they are numbers."""

    def plain(value: Any) -> Any:
        whole = hasattr(value, "__index__") and not isinstance(value, bool)
        return int(value) if whole else value if isinstance(value, (str, float, bool, type(None))) else str(value)

    if isinstance(sizes, Mapping):
        names = [str(name) for name in sizes]
        lists = [_listed(list(v) if isinstance(v, range) else v, "sizes") for v in sizes.values()]
        count = 1
        for values in lists:
            count *= len(values)
        if count > _MOST_POINTS:
            raise CatdiagError(f"the sizes are {count} combinations: expected at most {_MOST_POINTS}")
        return [dict(zip(names, map(plain, row), strict=True)) for row in product(*lists)]
    rows = _listed(sizes, "sizes")
    for row in rows:
        if not isinstance(row, Mapping):
            raise CatdiagError(f"sizes has {row!r}: expected sizes by name, such as {{'q': 1024}}")
    return [{str(name): plain(value) for name, value in row.items()} for row in rows]


class _Records:
    """The file of a sweep, and the lines beside it while the sweep runs."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.partial = None if path is None else path.with_name(path.name + ".partial")
        self._handle: int | None = None
        if path is not None and path.suffix not in (".jsonl", ".csv"):
            raise CatdiagError(f"cannot write {path}: expected a name that ends in .jsonl or .csv")

    def read(self) -> dict[str, SweepResult]:
        """The results of an earlier run by their keys. A last line that is cut off is left out."""
        found: dict[str, SweepResult] = {}
        if self.path is None or self.partial is None:
            return found
        for path in [self.path] * (self.path.suffix == ".jsonl") + [self.partial]:
            try:
                lines = read_whole(path, _LARGEST).decode("utf-8").split("\n")
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                raise CatdiagError(f"cannot read {path}, which an earlier sweep wrote: {error}") from error
            for number, line in enumerate(lines, 1):
                if not line:
                    continue
                result = _of_line(line)
                if result is None and number < len(lines):
                    raise CatdiagError(f"{path}:{number} is no result of a sweep: name another file")
                if result is not None and result.status != "failed":
                    found[result.key] = result
        return found

    def __enter__(self) -> _Records:
        if self.partial is not None:
            # One line is written at a time, at the end, by one call: another process that looks sees whole lines.
            self._handle = os.open(self.partial, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
            whole = read_whole(self.partial, _LARGEST).rfind(b"\n") + 1
            os.ftruncate(self._handle, whole)  # what was cut off goes
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def append(self, result: SweepResult) -> None:
        """Adds a result beside the file. Raises OSError where the disk is full."""
        if self._handle is None or self.partial is None:
            return
        line = result.line().encode() + b"\n"
        if os.write(self._handle, line) < len(line):
            raise OSError(28, "no space left for the results", str(self.partial))

    def write(self, results: Sequence[SweepResult]) -> None:
        """The file, whole, and nothing beside it any more."""
        if self.path is None or self.partial is None:
            return
        write_whole(self.path, table(results) if self.path.suffix == ".csv" else lines(results))
        self.partial.unlink(missing_ok=True)


def _of_line(line: str) -> SweepResult | None:
    """The result of a line, or None."""
    try:
        found = SweepResult(**json.loads(line))
    except (ValueError, TypeError, RecursionError):
        return None
    texts = (found.operator, found.hardware, found.dtype, found.status, found.digest, found.message)
    plain = all(isinstance(text, str) for text in texts) and found.status in STATUSES
    return found if plain and isinstance(found.sizes, dict) and isinstance(found.plan, dict) else None


def lines(results: Sequence[SweepResult]) -> str:
    """Results as lines of JSON."""
    return "".join(f"{result.line()}\n" for result in results)


def table(results: Sequence[SweepResult]) -> str:
    """Results as a table of CSV: a column for each size and each tile."""
    sizes = sorted({name for r in results for name in r.sizes})
    tiles = sorted({name for r in results for name in r.plan.get("tiles", {})})
    columns = [name for name in _PLAN if name != "tiles"]
    out = io.StringIO()
    # Python's writer leaves a lone carriage return bare, at which readers end the row.
    texts = (
        t for r in results for t in (r.operator, r.hardware, r.dtype, r.message, *r.sizes, *r.sizes.values(), *tiles)
    )
    bare = any(isinstance(t, str) and "\r" in t for t in texts)
    writer = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL if bare else csv.QUOTE_MINIMAL)
    writer.writerow(["operator", "hardware", "dtype", *sizes, "status", *tiles, *columns, "message"])
    for r in results:
        chosen = r.plan.get("tiles", {})
        head = [r.operator, r.hardware, r.dtype, *(r.sizes.get(name, "") for name in sizes), r.status]
        numbers = [*(chosen.get(name, "") for name in tiles), *(r.plan.get(name, "") for name in columns)]
        writer.writerow([*head, *numbers, r.message])
    return out.getvalue()
