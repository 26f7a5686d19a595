"""Listings: `catdiag hardware` lists chips, `catdiag derive` without arguments lists the operators of the library."""

from __future__ import annotations

from catdiag.cli.exit_status import UsageError, shown


def run_hardware(name: str | None, as_json: bool = False) -> None:
    """Runs `catdiag hardware`: the chips in short, or one of them with its levels, edges, and the source of each
    number.

    Raises CatdiagError for an unknown name, and for a file that does not describe a chip.
    """
    from catdiag.chip import hardware

    if as_json:
        import json

        chips = [hardware.get(n) for n in (hardware.names() if name is None else [name])]
        plain = [{**chip.as_dict(), "hierarchy": chip.hierarchy.as_dict()} for chip in chips]
        print(json.dumps(plain if name is None else plain[0], ensure_ascii=False, indent=1))
        return
    if name is not None:
        chip = hardware.get(name)
        # The file is untrusted.
        print("\n".join(map(shown, f"{chip}\n\n{chip.hierarchy}".split("\n"))))
        return
    for known in hardware.names():
        chip = hardware.get(known)
        rates = ", ".join(f"{dtype} {rate / 1e12:.0f}" for dtype, rate in chip.tensor.items())
        cache = f"L2 {chip.l2_bytes * chip.l2_count // 2**20} MiB, " if chip.l2_bytes else "no cache, "
        print(
            f"{chip.name}: {chip.sms} {chip.word('core')}s, {chip.smem_per_block // 1024} KiB of {chip.word('SMEM')} "
            f"a group, {cache}HBM {chip.hbm_bytes_per_s / 1e12:.2f} TB/s; in TFLOP/s {rates}"
        )
    print("catdiag hardware NAME gives every number with its source; NAME may be a TOML file of your own")


def run_library(alone: bool = True) -> None:
    """Runs `catdiag derive` without an operator: the library's names, each with the first line of its mathematics.

    Raises UsageError if options were given, which need an operator.
    """
    from catdiag.library.diagrams import describe, names

    if not alone:
        raise UsageError("no operator is given: expected a name of the library, or path.py:name, before the options")
    listed = names()
    width = max(map(len, listed))
    for name in listed:
        print(f"{name:<{width}}  {describe(name).splitlines()[0]}")
    print("catdiag derive NAME derives one of them; catdiag derive path.py:name one of a file")
