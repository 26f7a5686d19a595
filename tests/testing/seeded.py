"""Kernels with seeded bugs, by class, and honest ones in every arithmetic: what `assert_implements` finds and accuses.

    python tests/testing/seeded.py [--seeds 5] [--only OPERATOR]

Each kernel is written once, as a loop over blocks that keeps a state, with an `Arithmetic` and the name of one bug; the
kernels in `zoo` have mistakes of formula beside. Prints for each class and type how many of its bugs are found, those
that are not found at each seed, and every honest kernel that is accused. `docs/how-to/test_a_kernel.md` has what it
printed.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from arithmetic import HONEST, Arithmetic, F, chain, lanes
from zoo import SUBJECTS

import catdiag as cd
from catdiag.testing.assert_kernel import Mismatch, assert_implements
from catdiag.testing.float_formats import format_of, rounded

DTYPES = ("float32", "float16", "bfloat16")
ZOO, FORMULA = "zoo: ", "formula (`zoo`)"
CLASSES: dict[str, tuple[str, ...]] = {
    "initial value": ("maximum from 0", "maximum from -1e4", "maximum from -6e4", "sum from 1"),
    "mask off by one": ("a key more", "a key less", "a position of padding"),
    "dropped tail": ("the last block if partial", "the last position", "the last 16 from 512 on",
                     "the last 16 from 4096 on"),
    "scale by 1e-3": ("result by 1e-3", "argument by 1e-3", "mean over one more"),
    "downcast inside": ("sum in 16 bits", "result of the loop in 16 bits", "element in 16 bits"),
    "swapped axes of equal size": ("result transposed where square", "operand transposed where square"),
    "missing eps": ("no eps", "eps outside of the root"),
    "stale buffer": ("state not reset", "result not written", "results of the call before"),
    FORMULA: tuple(dict.fromkeys(mistake for subject in SUBJECTS.values() for mistake in subject.mistakes)),
}  # fmt: skip


class Loop:
    """What a kernel takes its numbers, loops and buffers from, so that a bug can be put there."""

    def __init__(self, how: Arithmetic, bug: str = "", dtype: str = "float32") -> None:
        self.how, self.bug, self.dtype = how, bug, dtype
        self.half = format_of("bfloat16" if dtype == "bfloat16" else "float16")
        self.before: Any = None

    def top(self, *shape: int) -> Any:
        """Where a running maximum begins."""
        found = {"maximum from 0": 0, "maximum from -1e4": -1e4, "maximum from -6e4": -6e4}
        return np.full(shape, found.get(self.bug, -np.inf), F)

    def zero(self, *shape: int) -> Any:
        """Where a sum begins."""
        if self.bug == "state not reset":
            return np.empty(shape, F)
        return np.full(shape, 1 if self.bug == "sum from 1" else 0, F)

    def spans(self, n: int) -> list[slice]:
        """The blocks of an axis."""
        if self.bug == "the last block if partial" and n > self.how.block:
            n -= n % self.how.block
        if self.bug == "the last position" and n > 1:
            n -= 1
        if self.bug.startswith("the last 16 from") and n >= int(self.bug.split()[4]):
            n -= 16
        return [slice(start, min(start + self.how.block, n)) for start in self.how.starts(n)]

    def low(self, a: Any) -> Any:
        return rounded(a, self.half).astype(F)

    def total(self, a: Any) -> Any:
        """The next value of a sum."""
        return self.low(a) if self.bug == "sum in 16 bits" else a.astype(F)

    def element(self, a: Any) -> Any:
        """What is added up, as it is kept."""
        return self.low(a) if self.bug == "element in 16 bits" else a.astype(F)

    def argument(self, a: Any) -> Any:
        return (a * F(1.001)).astype(F) if self.bug == "argument by 1e-3" else a

    def count(self, n: int) -> Any:
        return F(n + 1 if self.bug == "mean over one more" else n)

    def operand(self, a: Any) -> Any:
        square = a.ndim == 2 and a.shape[0] == a.shape[1]
        return a.T if self.bug == "operand transposed where square" and square else a

    def shifted(self, columns: Any) -> Any:
        return columns + {"a key more": -1, "a key less": 1}.get(self.bug, 0)

    def rooted(self, square: Any, eps: Any) -> Any:
        if self.bug == "no eps":
            return np.sqrt(square)
        return np.sqrt(square) + eps if self.bug == "eps outside of the root" else np.sqrt(square + eps)

    def out(self, a: Any, kind: Any) -> Any:
        """The result, as it is handed back."""
        if self.bug == "result by 1e-3":
            a = a * F(1.001)
        if self.bug == "result of the loop in 16 bits":
            a = self.low(a)
        if self.bug == "result transposed where square" and a.ndim == 2 and a.shape[0] == a.shape[1]:
            a = a.T.copy()
        # Where NumPy has no bfloat16, its numbers come and go as numbers of float32.
        given = a.astype(kind) if self.dtype != "bfloat16" else rounded(a, format_of("bfloat16")).astype(kind)
        if self.bug == "result not written":
            out = np.empty(given.shape, kind)
            out[..., : -(-3 * given.shape[-1] // 4)] = given[..., : -(-3 * given.shape[-1] // 4)]
            return out
        if self.bug == "results of the call before":
            stale, self.before = self.before, given.copy()
            return stale if stale is not None and stale.shape == given.shape else given
        return given


def wide(*arrays: Any) -> list[Any]:
    return [a.astype(F) for a in arrays]


# -- kernels -----------------------------------------------------------------------------------------


def online(k: Loop, Q: Any, K: Any, V: Any, mask: Callable[[Any, Any], Any] | None = None) -> Any:
    """Attention over blocks of keys."""
    kind = Q.dtype
    Q, K, V = (k.operand(a) for a in wide(Q, K, V))
    q, d = Q.shape
    m, total, o = k.top(q), k.zero(q), k.zero(q, V.shape[1])
    for span in k.spans(len(K)):
        keys, values, columns = K[span], V[span], np.arange(span.start, span.stop)
        if k.bug == "a position of padding" and span.stop == len(K):
            keys, values = (np.pad(a, ((0, 1), (0, 0))) for a in (keys, values))
            columns = np.append(columns, 0)
        S = k.argument(k.how.dot(Q, keys) / F(np.sqrt(d)))
        if mask is not None:
            S = np.where(mask(np.arange(q)[:, None], k.shifted(columns)), S, F(-np.inf))
        n = np.maximum(m, S.max(-1))
        safe = np.where(np.isneginf(n), 0, n).astype(F)
        P, a = k.element(k.how.exp(S, safe[:, None])), k.how.rescaling(m, safe)
        total = k.total(total * a + k.how.sum(P))
        o = k.total(o * a[:, None] + k.how.dot(P, np.ascontiguousarray(values.T)))
        m = n
    return k.out(o / total[:, None], kind)


def causal(k: Loop, Q: Any, K: Any, V: Any) -> Any:
    return online(k, Q, K, V, lambda q, x: x <= q)


def window(k: Loop, Q: Any, K: Any, V: Any, width: Any) -> Any:
    return online(k, Q, K, V, lambda q, x: (x <= q) & (q - x < width))


def weights(k: Loop, a: Any) -> tuple[Any, Any]:
    """The maximum and the sum of exponentials of rows."""
    m, total = k.top(len(a)), k.zero(len(a))
    for span in k.spans(a.shape[1]):
        part = a[:, span]
        if k.bug == "a position of padding" and span.stop == a.shape[1]:
            part = np.pad(part, ((0, 0), (0, 1)))
        n = np.maximum(m, part.max(-1))
        e = k.element(k.how.exp(part, n[:, None]))
        total, m = k.total(total * k.how.rescaling(m, n) + k.how.sum(e)), n
    return m, total


def softmax(k: Loop, a: Any) -> Any:
    wider = k.argument(k.operand(wide(a)[0]))
    m, total = weights(k, wider)
    return k.out(k.how.exp(wider, m[:, None]) / total[:, None], a.dtype)


def log_sum_exp(k: Loop, a: Any) -> Any:
    m, total = weights(k, k.argument(k.operand(wide(a)[0])))
    return k.out(m + np.log(total), a.dtype)


def cross_entropy(k: Loop, Z: Any, label: Any) -> Any:
    wider = k.argument(k.operand(wide(Z)[0]))
    m, total = weights(k, wider)
    at = {"a key more": 1, "a key less": -1}.get(k.bug, 0)
    picked = wider[np.arange(len(Z)), np.clip(label + at, 0, Z.shape[1] - 1)]
    return k.out((m - picked) + np.log(total), Z.dtype)


def largest(k: Loop, a: Any) -> Any:
    wider, m = k.operand(wide(a)[0]), k.top(len(a))
    for span in k.spans(a.shape[1]):
        part = wider[:, span]
        if k.bug == "a position of padding" and span.stop == a.shape[1]:
            part = np.pad(part, ((0, 0), (0, 1)))
        m = np.maximum(m, part.max(-1))
    return k.out(m, a.dtype)


def summed(k: Loop, a: Any) -> Any:
    """The sum over the last axis, block by block."""
    total = k.zero(*a.shape[:-1])
    for span in k.spans(a.shape[-1]):
        total = k.total(total + k.how.sum(k.element(a[..., span])))
    return total


def mean(k: Loop, a: Any) -> Any:
    return k.out(summed(k, k.operand(wide(a)[0])) / k.count(a.shape[1]), a.dtype)


def running_mean(k: Loop, a: Any) -> Any:
    """A mean that each position moves: Welford's."""
    given, found, seen = k.operand(wide(a)[0]), k.zero(len(a)), 0
    for span in k.spans(a.shape[1]):
        for x in given[:, span].T:
            seen += 1
            found = k.total(found + (k.element(x) - found) / F(seen))
    return k.out(found, a.dtype)


def variance(k: Loop, a: Any) -> Any:
    given, n = k.operand(wide(a)[0]), k.count(a.shape[1])
    centred = given - (summed(k, given) / n)[:, None]
    return k.out(summed(k, centred * centred) / n, a.dtype)


def layer_norm(k: Loop, X: Any, g: Any, b: Any, eps: Any) -> Any:
    x, g, b, eps = wide(X, g, b, eps)
    x, n = k.operand(x), k.count(X.shape[1])
    centred = x - (summed(k, x) / n)[:, None]
    square = summed(k, centred * centred) / n
    return k.out(centred / k.rooted(square, eps)[:, None] * g + b, X.dtype)


def rms_norm(k: Loop, X: Any, g: Any, eps: Any) -> Any:
    x, g, eps = wide(X, g, eps)
    x = k.operand(x)
    return k.out(x / k.rooted(summed(k, x * x) / k.count(X.shape[1]), eps)[:, None] * g, X.dtype)


def matmul(k: Loop, A: Any, B: Any) -> Any:
    a, b = (k.operand(x) for x in wide(A, B))
    total = k.zero(a.shape[0], b.shape[1])
    for span in k.spans(A.shape[1]):
        total = k.total(total + k.how.dot(a[:, span], np.ascontiguousarray(b[span].T)))
    return k.out(total, A.dtype)


def convolution(k: Loop, a: Any, w: Any) -> Any:
    x, f = wide(a, w)
    y = x.shape[1] - len(f) + 1
    total = k.zero(len(x), y, f.shape[2])
    for tap in range(len(f) - (k.bug == "the last position" and len(f) > 1)):
        at = np.clip(np.arange(y) + tap - k.shifted(0), 0, x.shape[1] - 1)
        for span in Loop(k.how).spans(x.shape[2]):
            total = k.total(total + k.how.dot(x[:, at][:, :, span], np.ascontiguousarray(f[tap][span].T)))
    return k.out(total, a.dtype)


# -- which bugs each may have --------------------------------------------------------------------------


@dataclass(frozen=True)
class Operator:
    """A kernel, its diagram, the axis that it loops over, and the bugs that make a difference to it."""

    kernel: Callable[..., Any]
    diagram: cd.category.Diagram
    bugs: tuple[str, ...]
    axis: str = "x"
    inputs: dict[str, Any] = field(default_factory=dict)


MAXIMUM = ("maximum from 0", "maximum from -1e4", "maximum from -6e4")
TAIL = CLASSES["dropped tail"]
EVERY = ("result by 1e-3", "state not reset", "result not written", "results of the call before")
SUMS = ("sum from 1", "sum in 16 bits")
ONLINE = (*MAXIMUM, "sum in 16 bits", *TAIL, *EVERY, "argument by 1e-3", "result of the loop in 16 bits",
          "operand transposed where square", "result transposed where square")  # fmt: skip
ROWS = (*(bug for bug in ONLINE if bug != "result transposed where square"), "element in 16 bits")
FLAT = ("sum from 1", *(bug for bug in ROWS if bug not in (*MAXIMUM, "argument by 1e-3")))
MEANS = (*FLAT, "mean over one more")
NORMS = (*MEANS, *CLASSES["missing eps"], "result transposed where square")
EPS = {"eps": lambda rng, n: 10.0 ** -rng.integers(1, 5)}
get = cd.library.get
row_maximum = cd.algorithm("q x -> q", name="row_maximum")(lambda a: cd.max(a, "x"))
OPERATORS = {
    "attention": Operator(online, get("attention"), (*ONLINE, "a position of padding")),
    "causal attention": Operator(causal, get("causal_attention"), (*ONLINE, "a key more", "a key less")),
    "window attention": Operator(
        window, get("sliding_window_attention"), (*MAXIMUM, *TAIL, *EVERY, "a key more", "a key less")
    ),
    "softmax": Operator(softmax, get("softmax"), (*ONLINE, "a position of padding", "element in 16 bits")),
    "log sum exp": Operator(log_sum_exp, get("log_sum_exp"), (*ROWS, "a position of padding")),
    "cross entropy": Operator(cross_entropy, get("cross_entropy"), (*ROWS, "a key more", "a key less"), "v"),
    "row maximum": Operator(
        largest, row_maximum,
        (*MAXIMUM, *TAIL, *EVERY[:1], *EVERY[2:], "a position of padding", "operand transposed where square"),
    ),
    "mean": Operator(mean, get("mean"), MEANS),
    "running mean": Operator(running_mean, get("mean"), tuple(b for b in FLAT if b != "sum from 1")),
    "variance": Operator(variance, get("variance"), MEANS),
    "layer norm": Operator(layer_norm, get("layer_norm"), NORMS, "d", EPS),
    "rms norm": Operator(rms_norm, get("rms_norm"), NORMS, "d", EPS),
    "matmul": Operator(
        matmul, get("matmul"), (*(b for b in FLAT if b != "element in 16 bits"), "result transposed where square"), "b"
    ),
    "convolution": Operator(
        convolution, get("conv1d"), (*SUMS, *EVERY, "the last position", "a key more", "a key less"), "c"
    ),
}  # fmt: skip


def known(name: str, bug: str, dtype: str) -> bool:
    """Whether a bug makes a difference in a type: what has 16 bits loses nothing where it is rounded to them.

    A thousandth of a number of bfloat16 is less than half of the distance to the next.
    """
    if dtype == "float32":
        return True
    same = [("result by 1e-3", "row maximum")] if dtype == "bfloat16" else []
    same += [("element in 16 bits", "mean"), ("element in 16 bits", "running mean")]
    return bug != "result of the loop in 16 bits" and (bug, name) not in same


def honest(dtype: str) -> Iterator[Arithmetic]:
    """The arithmetics that are honest for inputs of a type."""
    for how in HONEST:
        if how.operands == "half" and dtype != "float32":
            yield replace(how, operands=dtype)
        elif how.operands == "half":
            yield replace(how, name="bfloat16 operands", operands="bfloat16")
        elif how.operands != "tf32" or dtype == "float32":
            yield how


def report_of(name: str, dtype: str, seed: int, bug: str = "", how: Arithmetic | None = None, **options: Any) -> str:
    """The report of a test of one kernel, empty where nothing was found."""
    if name.startswith(ZOO):
        subject = SUBJECTS[name.removeprefix(ZOO)]
        return _report(subject.kernel(bug), subject.diagram, dtype, seed, block=subject.block, **subject.options)
    of = OPERATORS[name]
    # Blocks that nobody tells the test of, of a length that comes with the seed.
    chosen = how or Arithmetic("", (chain, lanes(8))[seed % 2], block=(64, 16, 32, 128)[seed % 4])
    loop = Loop(chosen, bug, dtype)

    def kernel(*arrays: Any) -> Any:
        with np.errstate(all="ignore"):
            return of.kernel(loop, *arrays)

    if dtype == "float32" and chosen.operands:
        options["operands"] = chosen.operands
    kernel.__name__ = name.replace(" ", "_")
    return _report(kernel, of.diagram, dtype, seed, inputs=of.inputs, **options)


def _report(kernel: Callable[..., Any], diagram: cd.category.Diagram, dtype: str, seed: int, **options: Any) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert_implements(kernel, diagram, dtype, seed=seed, **options)
    except Mismatch as error:
        return str(error)
    return ""


# -- the report --------------------------------------------------------------------------------------------

Job = tuple[str, str, int, str, Arithmetic | None]


def _run(job: Job) -> str:
    from catdiag.testing.shrink import Shrinker

    # Nothing is made smaller: that is not measured here.
    Shrinker.shrink = lambda self, sizes, arrays, failure: (sizes, arrays, failure)  # type: ignore[method-assign]
    Shrinker.common = lambda self, sizes, arrays, failure: []  # type: ignore[method-assign]
    return report_of(*job)


def jobs(seeds: int, only: str = "") -> list[Job]:
    found: list[Job] = []
    for name, of in OPERATORS.items():
        if only not in name:
            continue
        for dtype in DTYPES:
            for seed in range(seeds):
                found += [(name, dtype, seed, bug, None) for bug in of.bugs if known(name, bug, dtype)]
                found += [(name, dtype, seed, "", how) for how in honest(dtype)]
    for name, subject in SUBJECTS.items():
        if only in ZOO + name:
            kinds = [(bug, ("float16",) if bug in subject.half else DTYPES) for bug in ("", *subject.mistakes)]
            found += [(ZOO + name, d, seed, bug, None) for bug, types in kinds for d in types for seed in range(seeds)]
    return found


def main(seeds: int, only: str) -> int:
    work = jobs(seeds, only)
    with ProcessPoolExecutor(os.cpu_count()) as executor:
        reports = list(executor.map(_run, work, chunksize=4))
    caught = dict(zip(work, map(bool, reports), strict=True))
    print(f"| class | {' | '.join(DTYPES)} |\n|---|{'---|' * len(DTYPES)}")
    for kind, bugs in CLASSES.items():
        cells = []
        for dtype in DTYPES:
            here = [job for job in work if job[1] == dtype and job[0].startswith(ZOO) == (bugs is CLASSES[FORMULA])]
            mine = [caught[job] for job in here if job[3] in bugs]
            cells.append(f"{sum(mine)} of {len(mine)}" if mine else "–")
        print(f"| {kind} | {' | '.join(cells)} |")
    right = {job: report for job, report in zip(work, reports, strict=True) if not job[3]}
    cells = [
        f"{sum(bool(r) for j, r in right.items() if j[1] == d)} of {sum(j[1] == d for j in right)}" for d in DTYPES
    ]
    print(f"| honest kernels accused | {' | '.join(cells)} |\n")
    for name, dtype, bug in dict.fromkeys((j[0], j[1], j[3]) for j in work if j[3]):
        hits = [caught[j] for j in work if (j[0], j[1], j[3]) == (name, dtype, bug)]
        if not all(hits):
            print(f"not always found: {name}, {dtype}, {bug}: {sum(hits)} of {len(hits)}")
    for job, report in right.items():
        if report:
            print(f"accused: {job[0]}, {job[1]}, seed {job[2]}, {job[4].name if job[4] else ''}\n{report[:1500]}\n")
    return int(any(right.values()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    sys.exit(main(given.seeds, given.only))
