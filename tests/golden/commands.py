"""The command line on representative arguments, right and wrong: what it prints, writes, and ends with."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.golden.normalize import ROOT

HERE = Path(__file__).resolve().parent

_ALL = "--json j.json --certificate c.json --numpy loops.py --pseudocode loops.txt"
_KERNEL = f"{_ALL} --triton kernel.py"
_BF = "--chip h200 --stream b --group 'a c'"


@dataclass(frozen=True)
class Command:
    """Arguments; `quick` if it is run with the suite; `needs` are packages without which it is passed over."""

    arguments: str
    quick: bool = True
    needs: tuple[str, ...] = ()


def _slow(arguments: str, *needs: str) -> Command:
    return Command(arguments, False, needs)


_NAMES = "derive prove check io fusions shard draw sweep plot bench counters hardware axioms"
HELP: dict[str, Command] = {"catdiag": Command("--help"), **{n: Command(f"{n} --help") for n in _NAMES.split()}}
"""The help pages. Not `--version`: it says nothing else."""

COMMANDS: dict[str, Command] = {
    # derive
    "derive-list": Command("derive"),
    "derive-matmul": Command(f"derive matmul --on h100 --size a=4096,b=4096,c=4096 {_KERNEL} --theorems"),
    "derive-attention": _slow(
        f"derive attention --on h100 --size q=8192,x=8192,d=128 {_KERNEL} --theorems --html page.html", "matplotlib"
    ),
    "derive-attention-mi300x": _slow("derive attention --on mi300x --size q=8192,x=8192,d=128 --triton kernel.py"),
    "derive-attention-stages": _slow(
        "derive attention --on a100 --size q=4096,x=4096,d=64 "
        "--stages 2 --dtype fp16 --stream x --group q --json j.json"
    ),
    "derive-mlp-kernels": _slow(f"derive mlp --on h100 --size t=4096,d=1024,f=4096,o=1024 {_KERNEL}"),
    "derive-norm-linear": _slow(f"derive layer_norm_linear --on h200 --size t=4096,d=4096,o=4096 {_KERNEL}"),
    "derive-masked": _slow(f"derive causal_attention --stream x --group q --skip x {_ALL} --html page.html"),
    "derive-parts": Command("derive log_sum_exp --stream x --split x --group q --pseudocode loops.txt --json j.json"),
    "derive-passes": Command("derive softmax --stream x --passes 2 --pseudocode --numpy loops.py"),
    "derive-expand": _slow("derive distance_attention --expand d --html page.html --json j.json"),
    "derive-of-file": Command("derive operators.py:moments --theorems"),
    # derive, wrong
    "derive-unknown": Command("derive atention"),
    "derive-no-colon": Command("derive operators.py"),
    "derive-no-file": Command("derive nowhere.py:f"),
    "derive-not-in-file": Command("derive operators.py:nothing"),
    "derive-no-diagram": Command("derive operators.py:no_diagram"),
    "derive-no-algorithm": Command("derive operators.py:no_algorithm"),
    "derive-fails-in-file": Command("derive failing.py:f"),
    "derive-error-in-file": Command("derive mistaken.py:f"),
    "derive-not-streamed": Command("derive operators.py:far_from_mean --stream x"),
    "derive-not-grouped": Command("derive softmax --group x"),
    "derive-nothing": Command("derive operators.py:one_row"),
    "derive-no-axis": Command("derive matmul --stream z"),
    "derive-no-chip": Command("derive matmul --on h1000 --size a=64,b=64,c=64"),
    "derive-no-size": Command("derive matmul --on h100 --size a=64,b=64"),
    "derive-bad-size": Command("derive matmul --on h100 --size a=64,b=-64,c=64"),
    "derive-size-twice": Command("derive matmul --on h100 --size a=64,b=64,c=64,a=32"),
    "derive-no-target": Command("derive matmul --size a=64"),
    "derive-no-dtype": Command("derive matmul --on h100 --size a=64,b=64,c=64 --dtype bf17"),
    "derive-bad-stages": Command("derive matmul --on h100 --size a=64,b=64,c=64 --stages 0"),
    "derive-bad-cuts": Command("derive matmul --cuts few"),
    "derive-bad-option": Command("derive matmul --streams b"),
    "derive-no-folder": Command("derive matmul --json nowhere/j.json"),
    "derive-does-not-fit": Command("derive softmax --on h100 --size q=64,x=100000000 --cuts none"),
    # prove
    "prove-proved": Command("prove attention operators.py:unscaled --certificate c.json"),
    "prove-refuted": Command("prove operators.py:doubled attention --counterexample found.npz"),
    "prove-conditional": Command("prove operators.py:count operators.py:count_by_division"),
    "prove-roots": Command("prove operators.py:root_of_square operators.py:absolute_value"),
    "prove-other-types": Command("prove softmax attention"),
    "prove-bad-assumption": Command("prove softmax softmax --assume 'x >='"),
    "prove-no-right": Command("prove softmax"),
    # check
    "check-one": Command(f"check {ROOT}/proofs/grouped_queries.json {ROOT}/proofs/chan_mean.json --workers 1"),
    "check-long": Command(f"check {ROOT}/proofs/chan_mean.json {ROOT}/proofs/einsum_path.json --long --workers 1"),
    "check-no-file": Command("check nowhere.json"),
    "check-no-certificate": Command("check operators.py"),
    # io
    "io-matmul": Command("io matmul"),
    "io-attention": Command("io attention --stream x --group q --dtype bf16 --stages 2"),
    "io-attention-json": Command("io attention --stream x --group q --json"),
    "io-unfused": Command("io attention --unfused"),
    "io-levels": Command("io attention --levels HBM,SMEM,registers --place operand=SMEM --place streamed=SMEM"),
    "io-chip-json": _slow("io attention --on h100 --wave 132 --json"),
    "io-latex": Command("io attention --latex"),
    "io-density": _slow("io document_attention --stream x --group q --skip x --density 0.5"),
    "io-saved": Command("io attention --saved 'softmax [q x]'"),
    "io-two-forms": Command("io matmul --latex --json"),
    "io-no-array": Command("io attention --saved 'nothing [q x]'"),
    "io-no-level": Command("io matmul --levels HBM,SMEM --place operands=SMEM"),
    # fusions, shard
    "fusions": Command("fusions softmax_contraction --size q=64,x=32 --memory 20"),
    "fusions-json": Command("fusions softmax_contraction --size q=64,x=32 --memory 20 --cases --json"),
    "fusions-attention": _slow("fusions attention --cases"),
    "fusions-none": Command("fusions matvec"),
    "fusions-no-size": Command("fusions dot --size y=3 --memory 9"),
    "shard": Command("shard matmul --stream b --group 'a c' --over a=P --stored B=all"),
    "shard-json": Command("shard matmul --stream b --group 'a c' --over a=2,c=R --json"),
    "shard-neither": Command("shard matmul --group a --over c=2"),
    # draw
    "draw": Command("draw softmax_contraction --open softmax"),
    "draw-derived": Command("draw matmul --derived --levels HBM,SMEM,registers --items --join --theme light"),
    "draw-program": Command("draw dot --stream x --program --levels HBM,SMEM,registers --theme dark"),
    "draw-tikz": Command("draw matmul --derived -o picture.tikz --no-legend --no-colour"),
    "draw-tex": Command("draw matmul -o picture.tex"),
    "draw-no-suffix": Command("draw matmul -o picture"),
    "draw-no-theme": Command("draw matmul --theme blue"),
    # plans at many sizes, plots, comparisons with what is measured
    "sweep": Command("sweep matmul --on h100,a100 --size a=1024/2048,b=1024,c=1024 --to found.jsonl --workers 1"),
    "sweep-csv": Command("sweep softmax --on h100 --size q=1024,x=1024/100000000 --to found.csv --workers 1"),
    "sweep-bad-size": Command("sweep matmul --on h100 --size a=many"),
    "plot-roofline": _slow("plot roofline attention --on h100 --size q=4096,x=4096,d=64", "matplotlib"),
    "plot-transfers": _slow("plot transfers softmax --size q=512,x=256", "matplotlib"),
    "plot-landscape": _slow("plot landscape attention --on h100 --size q=2048,x=2048,d=64", "matplotlib"),
    "plot-waterfall": _slow("plot waterfall attention --on h100 --size q=2048,x=2048,d=64", "matplotlib"),
    "plot-no-kind": Command("plot pie softmax"),
    "bench-to": _slow(f"bench matmul --size a=4096,b=4096,c=4096 {_BF} --to case.json --proposals 2"),
    "bench-no-draw": Command(f"bench matmul --size a=64,b=64,c=64 --to case.json {_BF} --draw B=evenly"),
    "counters-no-warps": Command("counters matmul --size a=64,b=64,c=64 --stream b --group 'a c' --warps 3"),
    # tables
    "hardware": Command("hardware"),
    **{f"hardware-{c}": Command(f"hardware {c}") for c in ("A100", "B200", "H100", "H200", "MI300X", "TPUv5p")},
    "hardware-json": Command("hardware h100 --json"),
    "hardware-unknown": Command("hardware h1000"),
    "axioms": Command("axioms"),
    "no-command": Command("report matmul"),
}

FILES = {
    "failing.py": "import catdiag as cd\n\nraise ValueError('not today')\n",
    "mistaken.py": (
        "import catdiag as cd\n\n\n@cd.algorithm('q d, x d -> q x')\ndef f(Q, K):\n"
        "    return cd.einsum('q d, x e -> q x', Q, K)\n"
    ),
}
"""What is in the folder where commands run, beside `operators.py`."""

_TEXTS = {".json", ".jsonl", ".csv", ".html", ".py", ".txt", ".svg", ".tikz", ".tex"}


def text_of(command: Command) -> str:
    """What a command prints, its exit status, and the files that it writes, each after a line that says what it is."""
    import shlex

    with _own_folder() as folder:
        before = set(os.listdir(folder))
        status, out, err = _run(shlex.split(command.arguments))
        said = command.arguments.replace(f"{ROOT}/", "")
        parts = [f"$ catdiag {said}\n", out, f"--- errors\n{err}" if err else "", f"--- status {status}\n"]
        for name in sorted(set(os.listdir(folder)) - before):
            path = Path(folder, name)
            if path.suffix in _TEXTS:
                content = path.read_text(encoding="utf-8")
            else:
                content = hashlib.sha256(path.read_bytes()).hexdigest() + "\n"
            parts.append(f"--- {name}\n{content}")
    return "".join(parts)


def _run(arguments: list[str]) -> tuple[int, str, str]:
    from catdiag.cli import main

    out, err = io.StringIO(), io.StringIO()
    given, status = sys.argv, 0
    sys.argv = ["catdiag", *arguments]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(bool(end.code))
    finally:
        sys.argv = given
    return status, out.getvalue(), err.getvalue()


@contextlib.contextmanager
def _own_folder() -> Iterator[str]:
    """A new folder to run in, with a terminal of 80 columns, no colours."""
    fixed = {"COLUMNS": "80", "TERM": "dumb", "NO_COLOR": "1"}
    back, before = os.getcwd(), {name: os.environ.get(name) for name in fixed}
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(HERE / "operators.py", folder)
        for name, text in FILES.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        os.environ.update(fixed)
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(back)
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
