"""What is written to files is read again as it was: chips, counterexamples, results of sweeps, verdicts."""

from __future__ import annotations

import csv
import io
import json
import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import catdiag as cd
from catdiag.cli.check_verdict import CheckVerdict
from catdiag.cli.counterexample_npz import npz, read
from catdiag.planner.sweep import STATUSES, SweepResult, lines, table
from catdiag.planner.sweep import _of_line as result_of
from catdiag.prover.refute.counterexample_data import Counterexample

# What formats have marks for: quotes, separators, comments, ends of lines, controls, other scripts, other planes.
LETTERS = ["a", "Z", "_", " ", '"', "'", "\\", ",", ";", "#", "=", "[", "]", "{", "}", "\n", "\r", "\t", "\0", "\x7f",
           "\x1b", "\u2028", "\ufeff", "é", "é"[::-1], "名", "𝔸", "0", "9", ".", "-", "$", "%"]  # fmt: skip


def words(rng: random.Random) -> str:
    return "".join(rng.choices(LETTERS, k=rng.randrange(12)))


def printed(rng: random.Random) -> str:
    return "".join(c for c in words(rng) if c.isprintable())


def number(rng: random.Random) -> float:
    return rng.choice([rng.random(), 10.0 ** rng.randrange(-12, 15), 1 / 3, 2.0**-40, float(rng.randrange(10**9))])


def test_chips() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        chip = cd.hardware.get(rng.choice(cd.hardware.names()))
        changed = replace(
            chip,
            name=f"chip {printed(rng)}",
            sms=chip.l2_count * rng.randrange(1, 10**4),
            latency_s=rng.random() * 1e-6 + 1e-9,
            hbm_bytes_per_s=max(1.0, number(rng)),
            words=dict(chip.words) | ({"SMEM": printed(rng) or "shared"} if rng.random() < 0.5 else {}),
            sources=dict(chip.sources) | ({"sms": printed(rng) or "counted"} if rng.random() < 0.5 else {}),
        )
        again = cd.hardware.loads(cd.hardware.dumps(changed))
        assert again == changed and again.sources == changed.sources and again.words == changed.words
        assert cd.hardware.dumps(again) == cd.hardware.dumps(changed)


def test_chips_in_files(tmp_path: Path) -> None:
    chip = replace(cd.hardware.get("H100"), name='a "chip" of 名 # 1')
    file = tmp_path / "chip.toml"
    file.write_text(cd.hardware.dumps(chip), encoding="utf-8")
    assert cd.hardware.load(file) == chip
    with pytest.raises(cd.errors.CatdiagError, match="expected one line that prints"):
        cd.hardware.dumps(replace(chip, name="chip\r"))


def exact(rng: random.Random, element: str) -> Any:
    if element == "bool":
        return rng.random() < 0.5
    if element == "int":
        return rng.randrange(-(10**9), 10**9)
    return Fraction(rng.randrange(-(10**30), 10**30), rng.randrange(1, 10**30))


def filled(rng: random.Random, shape: tuple[int, ...], element: str) -> Any:
    return exact(rng, element) if not shape else [filled(rng, shape[1:], element) for _ in range(shape[0])]


def test_counterexamples(tmp_path: Path) -> None:
    # Names of inputs may be those of NumPy's parameters, of the file's own fields, or of another script.
    names = ["A", "file", "exact", "arr_0", "allow_pickle", "undefined", "é", "名", "sizes"]
    for seed in range(60):
        rng = random.Random(seed)
        sizes = {axis: rng.randrange(4) for axis in ("q", "x", "名")}
        chosen = rng.sample(names, rng.randrange(1, 5))
        elements = {name: rng.choice(["real", "int", "bool"]) for name in chosen}
        shapes = {name: tuple(rng.choices(list(sizes.values()), k=rng.randrange(3))) for name in chosen}
        arrays = {name: filled(rng, shapes[name], elements[name]) for name in chosen}
        index = {axis: rng.randrange(3) for axis in ("q", "x")[: rng.randrange(3)]}
        undefined = rng.random() < 0.3
        found = Counterexample(
            sizes, arrays, exact(rng, "real"), None if undefined else exact(rng, "real"), index, rng.randrange(2),
            {"s_x": rng.randrange(1, 9)}, {}, "rhs" if undefined else None, printed(rng) if undefined else "",
            None, shapes, elements,
        )  # fmt: skip
        file = tmp_path / f"{seed}.npz"
        file.write_bytes(npz(found))
        assert npz(found) == npz(found)
        again = read(file)
        for part in ("sizes", "arrays", "index", "output", "blocks", "undefined", "reason", "shapes", "elements"):
            assert getattr(again, part) == getattr(found, part), part


def drawn(rng: random.Random) -> SweepResult:
    status = rng.choice(sorted(STATUSES))
    plan: dict[str, Any] = {}
    if rng.random() < 0.5:
        plan = {"tiles": {"g_q": rng.randrange(1, 99), words(rng): 3}, "seconds": number(rng), "bound_by": words(rng)}
    sizes = {name: rng.choice([rng.randrange(10**12), number(rng), words(rng)]) for name in ("q", "x", words(rng))}
    return SweepResult(words(rng), words(rng), "bf16", sizes, status, words(rng), words(rng), plan)


def test_results_of_sweeps() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        results = [drawn(rng) for _ in range(rng.randrange(4))]
        text = lines(results)
        assert text.isascii() and text.count("\n") == len(results)
        assert [result_of(line) for line in text.splitlines()] == results
        assert len({r.key for r in results}) == len(results)
        rows = list(csv.DictReader(io.StringIO(table(results), newline="")))
        assert len(rows) == len(results)
        for row, result in zip(rows, results, strict=True):
            assert (row["operator"], row["message"], row["status"]) == (result.operator, result.message, result.status)


def test_verdicts() -> None:
    for seed in range(50):
        rng = random.Random(seed)
        verdict = CheckVerdict(rng.randrange(4), words(rng), tuple(words(rng) for _ in range(rng.randrange(3))),
                          rng.random() < 0.5, rng.randrange(99), rng.randrange(99))  # fmt: skip
        assert CheckVerdict.of(json.loads(json.dumps(verdict.as_dict()))) == verdict


@pytest.mark.parametrize("cut", [1, 7, 100])
def test_a_file_cut_short_is_said_to_be(tmp_path: Path, cut: int) -> None:
    found = Counterexample({"x": 1}, {"A": [Fraction(1, 3)]}, Fraction(1), Fraction(2), {})
    file = tmp_path / "cut.npz"
    file.write_bytes(npz(found)[:-cut])
    with pytest.raises(cd.errors.CatdiagError, match="cannot read the counterexample"):
        read(file)
    assert result_of(drawn(random.Random(1)).line()[:-cut]) is None
