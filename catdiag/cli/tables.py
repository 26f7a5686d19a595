"""`catdiag hardware`: the chips that tiles can be chosen for."""

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
