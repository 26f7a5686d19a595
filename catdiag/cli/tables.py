"""The commands that list what there is: chips, and what must be believed."""

from __future__ import annotations

from pathlib import Path


def run_hardware(name: str | None) -> None:
    """`catdiag hardware`: the chips in short, or one of them with the source of each number."""
    from catdiag.cost import hardware

    if name is not None:
        print(hardware.get(name))
        return
    for known in hardware.names():
        chip = hardware.get(known)
        rates = ", ".join(f"{dtype} {rate / 1e12:.0f}" for dtype, rate in chip.tensor.items())
        print(
            f"{chip.name}: {chip.sms} SMs, {chip.smem_per_block // 1024} KiB of SMEM a thread block, "
            f"L2 {chip.l2_bytes // 2**20} MiB, HBM {chip.hbm_bytes_per_s / 1e12:.2f} TB/s; in TFLOP/s {rates}"
        )
    print("catdiag hardware NAME gives every number with its source")


def run_axioms() -> None:
    """`catdiag axioms`: the rules of the kernel in its own words, its files, and the solver."""
    from catdiag import kernel
    from catdiag.cli.check import solver
    from catdiag.kernel import axioms, check

    print("Theorems, list induction (A10) and groups (A1), as the checker states them:\n")
    print(_indented(check.__doc__ or ""))
    print("\nRules: each gives an equal term, under A2 inside a reduction\n")
    for name, rule in axioms.RULES.items():
        words = " ".join((rule.__doc__ or "").split())
        print(f"  {name:9} {axioms.AXIOMS[name]:>3}  {words.removeprefix(axioms.AXIOMS[name] + ': ')}")
    print("\nFiles to read to believe it:\n")
    total = 0
    for file in sorted(Path(kernel.__file__).parent.glob("*.py")):
        count = len(file.read_text(encoding="utf-8").splitlines())
        total += count
        print(f"  {count:5}  catdiag/kernel/{file.name}")
    print(f"  {total:5}  lines in all")
    print(f"\nSolver, asked about integers only: {solver()}")


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.strip().splitlines())
