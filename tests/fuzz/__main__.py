"""`python -m tests.fuzz TARGET [SECONDS] [SEED]` fuzzes; `python -m tests.fuzz replay` runs stored inputs again."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

TARGETS = {
    "certificate": "tests.fuzz.texts:certificate",
    "chip": "tests.fuzz.texts:chip",
    "arguments": "tests.fuzz.texts:arguments",
    "counterexample": "tests.fuzz.texts:counterexample",
    "program": "tests.fuzz.programs:target",
    "changed": "tests.fuzz.certificates:Fuzzed()",
}
CORPUS = Path(__file__).parent / "corpus"
FOUND = Path("fuzz-found")


def target(name: str):  # type: ignore[no-untyped-def]
    """The function of a target."""
    from importlib import import_module

    module, function = TARGETS[name].split(":")
    found = getattr(import_module(module), function.removesuffix("()"))
    return found() if function.endswith("()") else found


def replay() -> None:
    """Runs every stored input once."""
    for name in TARGETS:
        run, files = target(name), sorted((CORPUS / name).glob("*"))
        for file in files:
            run(file.read_bytes())
        print(f"{name}: {len(files)} inputs")


def fuzz(name: str, seconds: int, seed: int) -> None:
    """Fuzzes a target under coverage for so many seconds; what is found is written to ./fuzz-found/TARGET."""
    try:
        import atheris
    except ImportError:
        raise SystemExit("the fuzzer is atheris, which is not installed: pip install '.[fuzz]'") from None

    grown, crashes = FOUND / name / "corpus", FOUND / name / "crashes"
    for folder in (grown, crashes):
        folder.mkdir(parents=True, exist_ok=True)
    command = [sys.argv[0], str(grown), str(CORPUS / name), f"-artifact_prefix={crashes}/", f"-seed={seed}",
               f"-max_total_time={seconds}", "-timeout=60", "-rss_limit_mb=4000", "-max_len=4096", "-len_control=0",
               "-print_final_stats=1"]  # fmt: skip
    words = CORPUS / f"{name}.dict"
    if words.exists():
        command.append(f"-dict={words}")
    # To the end: much is imported when it is called.
    with atheris.instrument_imports(include=["catdiag"]):
        atheris.Setup(command, collecting(target(name), crashes))
        atheris.Fuzz()


def collecting(run: Callable[[bytes], None], folder: Path) -> Callable[[bytes], None]:
    """The target, going on after what it finds: one input is kept for each place that raises."""

    def call(data: bytes) -> None:
        try:
            run(data)
        except Exception as error:
            trace = error.__traceback__
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            place = "" if trace is None else f"{Path(trace.tb_frame.f_code.co_filename).stem}-{trace.tb_lineno}"
            file = folder / f"{type(error).__name__}-{place}"
            if not file.exists() or len(file.read_bytes()) > len(data):
                file.write_bytes(data)
                print(f"FOUND {file}: {str(error)[:300]}", flush=True)

    return call


def main() -> None:
    """The command."""
    arguments = sys.argv[1:]
    if arguments == ["replay"]:
        replay()
        return
    if not 1 <= len(arguments) <= 3 or arguments[0] not in TARGETS or not all(a.isdigit() for a in arguments[1:]):
        raise SystemExit(f"usage: python -m tests.fuzz replay | {'|'.join(TARGETS)} [SECONDS [SEED]]")
    name, seconds, seed = (*arguments, "60", "1")[0], *map(int, (*arguments[1:], *("60", "1")[len(arguments) - 1 :]))
    fuzz(name, seconds, seed)


if __name__ == "__main__":
    main()
