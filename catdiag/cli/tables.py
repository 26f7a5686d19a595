"""What there is by name: `catdiag hardware` lists chips, `catdiag derive` alone the operators of the library."""

from __future__ import annotations


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


def run_library(alone: bool = True) -> None:
    """`catdiag derive` without an operator: the library's names, each with the first line of its mathematics.

    Raises UsageError where options were given, which are for an operator.
    """
    from catdiag import library
    from catdiag.cli.outcome import UsageError

    if not alone:
        raise UsageError("which operator is meant? expected a name of the library, or path.py:name, before the options")
    names = library.names()
    width = max(map(len, names))
    for name in names:
        print(f"{name:<{width}}  {library.describe(name).splitlines()[0]}")
    print("catdiag derive NAME derives one of them; catdiag derive path.py:name one of a file")
