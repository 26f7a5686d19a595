"""The builder under programs made of bytes: a diagram, or an error of the library that says what is wrong.

What was built equals itself, is pickled and shown, gives on NumPy what it gives exactly, and is streamed and grouped
into what gives the same.
"""

from __future__ import annotations

import linecache
import math
import pickle
import types
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

import catdiag as cd
from catdiag import nn
from catdiag.category.diagram import Diagram
from catdiag.prover.assumptions import size_value
from catdiag.prover.export import NotExportable, program
from catdiag.prover.refute import exact_execution
from catdiag.util.errors import CatdiagError
from tests.fuzz.source import Source

_AXES = ["q", "x", "d", "2", "3", "1", "(q x)", "q+x", "y", "k", "q2", ""]
_NAMES = ["q", "x", "d", "y", "k", "q2", "q x", "x d", "", "a b", "(q x)", "i"]
_NUMBERS: list[Any] = [0, 1, 2, -1, 0.5, 3, float("inf"), -cd.inf, float("nan"), 10**20, True, None, "x", 1e308, 7]
_UNARY = [cd.exp, cd.log, cd.sqrt, cd.tanh, nn.sigmoid, cd.abs, nn.relu, nn.silu, nn.elu]
_BINARY: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / b, lambda a, b: a // b,
    lambda a, b: a < b, lambda a, b: a <= b, lambda a, b: a & b, lambda a, b: a | b, cd.maximum, cd.minimum, cd.equal,
    lambda a, b: a ** b, lambda a, b: a % b, lambda a, b: a @ b, lambda a, b: ~a,
]  # fmt: skip
_REDUCE = [cd.sum, cd.max, cd.min, cd.prod, cd.mean, cd.any, cd.all, nn.var, cd.softmax, nn.logsumexp, nn.log_softmax,
           cd.argmax, cd.reverse]  # fmt: skip


def own(error: BaseException) -> bool:
    """Whether an error is the library's, or a TypeError or ValueError that its author raised on purpose."""
    if isinstance(error, CatdiagError):
        return True
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if not isinstance(error, (TypeError, ValueError)) or trace is None:
        return False
    line = linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno).strip()
    return line.startswith("raise ")


def build(source: Source) -> Diagram:
    """A program of the bytes."""
    axes = [" ".join(source.choice(_AXES) for _ in range(source.below(4))) for _ in range(1 + source.below(3))]
    signature = ", ".join(axes) + " ->"
    if source.below(16) == 1:
        signature += " " + source.choice(_AXES)

    def body(*arrays: Any) -> Any:
        pool: list[Any] = list(arrays)
        for _ in range(1 + source.below(8)):
            if not source.left:
                break
            made = step(pool, source)
            pool.extend(made if isinstance(made, tuple) else [made])
        return pool[-1] if source.below(8) else tuple(pool[-2:])

    names = [f"a{k}" for k in range(len(axes))]
    # The names of parameters are those of the inputs.
    scope: dict[str, Any] = {"body": body}
    exec(f"def made({', '.join(names)}):\n    return body({', '.join(names)})", scope)
    made: types.FunctionType = scope["made"]
    return cd.algorithm(signature)(made)


def step(pool: list[Any], source: Source) -> Any:
    """One box, or several."""

    def one() -> Any:
        return source.choice(pool) if source.below(8) else source.choice(_NUMBERS)

    def name() -> Any:
        return source.choice(_NAMES) if source.below(16) else source.choice(_NUMBERS)

    def length() -> Any:
        return source.choice([0, 1, 2, 3, -1, "x", "q", 1.5, None, "x+1"])

    kind = source.below(20)
    if kind < 3:
        return source.choice(_UNARY)(one())
    if kind < 6:
        return source.choice(_BINARY)(one(), one())
    if kind < 9:
        return source.choice(_REDUCE)(one(), name())
    if kind == 9:
        left, right, out = (" ".join(source.choice(_AXES) for _ in range(source.below(3))) for _ in range(3))
        return cd.einsum(f"{left}, {right} -> {out}", one(), one())
    if kind == 10:
        return cd.where(one(), one(), one())
    if kind == 11:
        return cd.index(name())
    if kind == 12:
        return cd.size(name())
    if kind == 13:
        left, right = (" ".join(source.choice(_AXES) for _ in range(source.below(4))) for _ in range(2))
        return cd.rearrange(one(), f"{left} -> {right}")
    if kind == 14:
        return one().rename(**{str(name()): name()})
    if kind == 15:
        return cd.concat([one() for _ in range(source.below(3))], name())
    if kind == 16:
        return cd.slice(one(), name(), length(), length(), source.choice([1, 2, 0, -1]))
    if kind == 17:
        return source.choice([
            lambda: cd.pad(one(), name(), length(), length(), one()),
            lambda: cd.shift(one(), name(), length(), one()),
            lambda: cd.repeat(one(), name(), length()),
            lambda: cd.tile(one(), name(), length()),
            lambda: cd.split(one(), name()),
            lambda: cd.stride(one(), name(), name(), length(), length()),
        ])()  # fmt: skip
    if kind == 18:
        return cd.window(one(), name(), f"{name()} {name()}", length(), length())
    return source.choice([
        lambda: cd.gather(one(), name(), one()),
        lambda: cd.cast(one(), source.choice(["bf16", "fp32", "x", "int"])),
        lambda: cd.clip(one(), one(), one()),
        lambda: cd.broadcast(one(), name()),
        lambda: cd.apply("f", one()),
        lambda: bool(one()),
        lambda: one()[0],
    ])()  # fmt: skip


def target(data: bytes) -> None:
    """Builds, and looks at what was built."""
    source = Source(data)
    try:
        diagram = build(source)
    except Exception as error:
        if own(error) or raw_of_python(error):
            return
        raise
    look(diagram)
    if source.below(4) == 0:
        compare(diagram, source)
    if source.below(32) == 1:
        derive(diagram, source)


def raw_of_python(error: BaseException) -> bool:
    """Whether the misuse was of Python's own: an attribute of a number, say, which a program of ours asks for."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_filename == __file__ and not isinstance(error, CatdiagError)


def look(diagram: Diagram) -> None:
    """What holds of every diagram."""
    if diagram != diagram or hash(diagram) != hash(pickle.loads(pickle.dumps(diagram))):
        raise AssertionError("a diagram that is not equal to itself")
    if pickle.loads(pickle.dumps(diagram)) != diagram:
        raise AssertionError("a diagram that is not what it was before it was pickled")
    str(diagram), repr(diagram)
    for kernels in (True, False):
        try:
            str(diagram.io(fused=kernels))
        except CatdiagError:
            continue


def compare(diagram: Diagram, source: Source) -> None:
    """The diagram on NumPy, against its exact value, on small arrays of small whole numbers."""
    try:
        data = program(diagram)
    except NotExportable:
        return
    symbols = sorted(exact_execution.symbols_of(data))
    sizes = {name: 1 + source.below(3) for name in symbols}
    arrays, inputs = [], []
    if "apply:" in str(data):
        return
    for declared in data["inputs"]:
        shape = [size_value(s, sizes) for _, s in declared["axes"]]
        if math.prod(shape) > 300:
            return
        numbers = np.array([source.below(5) - 1 for _ in range(math.prod(shape))]).reshape(shape)
        arrays.append(numbers.astype(float))
        names = [a for a, _ in declared["axes"]]
        inputs.append(exact_execution.build(names, shape, lambda at, n=numbers: Fraction(int(n[at]))))  # type: ignore[misc]
    try:
        wanted = exact_execution.run(data, inputs, sizes, {}, {}, exact_execution.Budget(100_000))
    except (exact_execution.Exhausted, OverflowError):
        return
    try:
        with np.errstate(all="ignore"):
            given = diagram.run(*arrays, sizes=sizes)
    except CatdiagError:
        return
    for got, want in zip(given if isinstance(given, tuple) else (given,), wanted, strict=True):
        got = np.asarray(got)
        for at, value in want.values.items():
            if isinstance(value, (Fraction, int)) and abs(value) < 10**12:
                found = float(got[at])
                if not abs(found - float(value)) <= 1e-6 * max(1.0, abs(float(value))):
                    raise AssertionError(f"{diagram} at {at}: {found} by NumPy, {value} exactly, sizes {sizes}")


def derive(diagram: Diagram, source: Source) -> None:
    """The diagram streamed or grouped along one of its axes."""
    axes = sorted({a.name for ty in (*diagram.dom, *diagram.cod) for a in ty.axes})
    if not axes:
        return
    axis = source.choice(axes)
    try:
        made = diagram.stream(axis) if source.below(2) else diagram.group(axis)
    except CatdiagError:
        return
    made.theorem, str(made.io()), made.code("pseudocode")
