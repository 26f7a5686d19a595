"""`catdiag bench`: an operator's kernel on a GPU, compared with its reference form under torch.compile and with the
user's functions.

With `--to` the comparison is written to a file instead. It can be run on a machine with a GPU and without solvers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from catdiag.cli.exit_status import DONE, REFUTED, UsageError
from catdiag.cli.operator_loading import function, operator
from catdiag.cli.option_values import check_sizes, check_writable, integers_of, parse_sizes
from catdiag.frontend.signature import axis_names
from catdiag.util.files import read_whole, write_whole

if TYPE_CHECKING:
    from catdiag.category.diagram import Diagram
    from catdiag.cli.command_options import BenchArgs
    from catdiag.measure.bench import Contestant
    from catdiag.measure.bench_case import BenchCase

_LARGEST = 64 * 2**20
_DRAWS = "expected name=normal*0.02, name=uniform*4, or for integers name=below*1000"


def run_bench(request: BenchArgs) -> int:
    """Runs the comparison and returns the exit status: 1 if the kernel's results are wrong. Raises CatdiagError for
    wrong use, and without a GPU."""
    from catdiag.measure.bench import (
        OURS,
        BenchDevice,
        of_kernels,
        run_case,
        torch_reference_of,
        torch_with_gpu,
        versions,
    )
    from catdiag.measure.bench_table import page

    to = request.to
    check_writable(to, request.write, request.json)
    if request.on != "gpu":
        raise UsageError(f"--on {request.on}: expected gpu; tiles are chosen for a chip by --chip, such as --chip h200")
    if request.rounds < 1 or request.proposals < 1:
        raise UsageError("--rounds and --proposals are integers, 1 or more")
    if to is None:
        torch_with_gpu()  # before anything is proved
    made = _read(request) if request.op.endswith(".json") else _case(request, to is None)
    if to is not None:
        write_whole(to, json.dumps(made.as_dict(), ensure_ascii=False, indent=1) + "\n")
        print(f"{made.name}: {_summary(made)}; catdiag bench {to} --on gpu runs it")
        return DONE
    contestants = [*of_kernels(made), torch_reference_of(made), *map(_theirs, request.against)]
    row = run_case(made, BenchDevice.gpu(), contestants, rounds=request.rounds)
    about = versions()
    text = page([row], about)
    print(_summary(made))
    print(text)
    if request.write is not None:
        write_whole(request.write, text)
    if request.json is not None:
        data = {"versions": about, "row": asdict(row), "case": made.as_dict()}
        write_whole(request.json, json.dumps(data, ensure_ascii=False, indent=1) + "\n")
    ours = row.result(OURS)
    return DONE if ours is not None and ours.median_ms else REFUTED


def _summary(case: BenchCase) -> str:
    flops = f"{case.flops:.4g} operations of contractions, " if case.flops else ""
    kernels = "; ".join(k.about for k in case.kernels) or case.refused
    return f"{flops}{case.bytes:.4g} bytes of inputs and results; {kernels}"


def _read(request: BenchArgs) -> BenchCase:
    """A comparison that `--to` wrote. Raises UsageError for another file."""
    from catdiag.measure.bench_case import BenchCase

    if (
        request.size
        or request.draw
        or request.scalar
        or request.stream
        or request.group
        or request.split
        or request.skip
    ):
        raise UsageError(f"{request.op} contains the derivation and the sizes: leave out the options")
    try:
        return BenchCase.of(json.loads(read_whole(request.op, _LARGEST)))
    except OSError as error:
        raise UsageError(f"cannot read {request.op}: {error.strerror or error}") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise UsageError(f"{request.op} is not a comparison: expected a file that catdiag bench --to wrote") from None


def _case(request: BenchArgs, here: bool) -> BenchCase:
    from catdiag.measure.bench_case import case_of
    from catdiag.measure.bench_kernels import kernels_of, planned, proposed

    diagram = operator(request.op)
    sizes = parse_sizes(request.size)
    whole = {n: sizes.pop(n) for n in integers_of(diagram) if n in sizes}
    sizes = check_sizes(diagram, sizes)
    scalars = {**_numbers(request.scalar, diagram), **whole}
    draws = _draws(request.draw, diagram)
    # Report what is missing or unknown before anything is proved.
    case_of(diagram, sizes, request.dtype, scalars=scalars, draws=draws)
    chip = request.chip or (_chip() if here else None)
    if chip is None:
        raise UsageError("tiles are chosen for a chip: give one, as in --chip h200")
    known = {**sizes, **whole}
    if request.stream or request.group or request.split or request.skip:
        derivation = _derived(diagram, request, chip, sizes, whole)
        kernels = kernels_of(derivation, chip, known, request.dtype, most=request.proposals)
    else:
        found = planned(diagram, chip, known, request.dtype)
        derivation = found[0].derivation
        kernels = proposed(found, chip, known, request.dtype, most=request.proposals)
    return case_of(
        diagram,
        sizes,
        request.dtype,
        scalars=scalars,
        draws=draws,
        name=", ".join([diagram.title or request.op, *(f"{n} {k}" for n, k in known.items())]),
        group=diagram.title or request.op,
        derivation=derivation,
        kernels=kernels,
    )


def _derived(
    diagram: Diagram, request: BenchArgs, chip: str, sizes: Mapping[str, int], whole: Mapping[str, int]
) -> Any:
    from catdiag.chip import hardware
    from catdiag.cli.derive_report_data import DeriveRequest, DeriveTarget, derive
    from catdiag.solvers.z3 import borrowed

    target = DeriveTarget(hardware.get(chip), sizes, request.dtype, None, whole)
    groups = None if request.group is None else axis_names(request.group)
    with borrowed() as ask:
        wanted = DeriveRequest(request.stream, groups, split=request.split, skip=request.skip)
        report = derive(diagram, ask, target, wanted)
    return report.derivation


def _chip() -> str:
    """The chip that this machine's GPU is. Raises UsageError if it is not a known chip."""
    import torch

    from catdiag.chip import hardware

    name = str(torch.cuda.get_device_name(0))
    found = [chip for chip in hardware.names() if chip.lower() in name.lower()]
    if not found:
        raise UsageError(f"the GPU {name!r} is not a known chip: give the one that is most like it, as in --chip h200")
    return max(found, key=len)


def _theirs(path: str) -> Contestant:
    """The user's function `path.py:name`, which takes the inputs in order."""
    from catdiag.measure.bench import Contestant

    found = function(path)
    return Contestant(path.rpartition(":")[2], _input_draws(found))


def _input_draws(found: Callable[..., Any]) -> Callable[[], Callable[..., Any]]:
    return lambda: found


def _numbers(texts: Sequence[str], diagram: Diagram) -> dict[str, float]:
    """The values of scalars, by name, from texts such as `eps=1e-5`."""
    scalars = {n: ty for n, ty in zip(diagram.input_names, diagram.dom, strict=True) if not ty.axes}
    found: dict[str, float] = {}
    for text in (part for given in texts for part in given.split(",")):
        name, _, value = (p.strip() for p in text.partition("="))
        if name not in scalars:
            raise UsageError(f"{name!r} is not a scalar input: expected one of {', '.join(scalars) or 'none'}")
        try:
            found[name] = int(value) if scalars[name].element == "int" else float(value)
        except ValueError:
            raise UsageError(
                f"cannot read the scalar {text!r}: expected name=number, as in --scalar eps=1e-5"
            ) from None
    return found


def _draws(texts: Sequence[str], diagram: Diagram) -> dict[str, dict[str, Any]]:
    """The distributions of random inputs, by name, from texts such as `W=normal*0.02`.

    >>> from catdiag.library.diagrams import get
    >>> _draws(["W=normal*0.02", "label=below*1000"], get("linear_cross_entropy"))
    {'W': {'draw': 'normal', 'scale': 0.02}, 'label': {'below': 1000}}
    """
    elements = dict(zip(diagram.input_names, (ty.element for ty in diagram.dom), strict=True))
    found: dict[str, dict[str, Any]] = {}
    for text in (part for given in texts for part in given.split(",")):
        name, _, how = (p.strip() for p in text.partition("="))
        kind, _, number = how.partition("*")
        if name not in elements:
            raise UsageError(f"{name!r} is not an input: expected one of {', '.join(elements)}")
        wanted = ("below",) if elements[name] == "int" else ("normal", "uniform")
        if kind not in wanted:
            raise UsageError(f"cannot read how {name} is drawn, {how!r}: {_DRAWS}")
        try:
            found[name] = {"below": int(number)} if kind == "below" else {"draw": kind, "scale": float(number or 1)}
        except ValueError:
            raise UsageError(f"cannot read how {name} is drawn, {how!r}: {_DRAWS}") from None
    return found
