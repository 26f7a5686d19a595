"""Uniform registers that the machine code of a kernel reads before anything has written them: an error of ptxas.

ptxas 12.8 (that of Triton 3.6) loses the statement that begins an address where instructions of a warpgroup multiply a
factor in registers by a narrow one in shared memory; the kernel then reads other memory than it was told to. The
assembly shows this without a GPU: a register is read there, from top to bottom, before it is written.
"""

from __future__ import annotations

import re

_INSTRUCTION = re.compile(r"^\s*(?:@!?U?P\w+\s+)?([A-Z][\w.]*)\s*(.*?)\s*;")
_UNIFORM = re.compile(r"UR(\d+)")
_READ = re.compile(r"(g?desc)?\[?UR(\d+)")
_WRITERS = ("U", "R2UR", "S2UR", "LDCU", "CS2UR", "REDUX", "VOTEU")
"""How the names of instructions begin that write a uniform register, their first operand."""
_WORDS = {".64": 2, ".WIDE": 2, ".128": 4}
"""How many registers an instruction writes, by a part of its name; one, where it has none of them."""


def unwritten_registers(sass: str) -> dict[str, str]:
    """The uniform registers that are read and not written before, each with the instruction; `sass` is what nvdisasm
    prints of a kernel. Descriptors of products (`gdesc`) are left out: of these registers, some are not read.

    >>> print(unwritten_registers("UMOV UR4, URZ ;\\nUIADD3 UR6, UP0, UR5, 0x20, URZ ;\\nUIADD3 UR7, UR6, UR4, URZ ;"))
    {'UR5': 'UIADD3 UR6, UP0, UR5, 0x20, URZ'}
    """
    written: set[int] = set()
    found: dict[str, str] = {}
    for line in re.sub(r"/\*.*?\*/", "", sass).splitlines():
        match = _INSTRUCTION.match(line)
        if match is None:
            continue
        name, operands = match[1], match[2].split(", ")
        words = next((n for part, n in _WORDS.items() if part in name), 1)
        target = _UNIFORM.fullmatch(operands[0]) if name.startswith(_WRITERS) else None
        for operand in operands[1:] if target else operands:
            for kind, number in _READ.findall(operand):
                pair = 2 if kind == "desc" or (name.startswith("U") and name.endswith(".64")) else 1
                read = [] if kind == "gdesc" else range(int(number), int(number) + pair)
                for register in read:
                    if register not in written:
                        found.setdefault(f"UR{register}", line.strip().rstrip(" ;"))
        if target:
            written.update(range(int(target[1]), int(target[1]) + words))
    return found
