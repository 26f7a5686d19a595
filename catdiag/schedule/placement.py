"""Placement: the memory levels at which a kernel's arrays are allocated, by their role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from catdiag.util.errors import CatdiagError

LEVEL, REGISTERS, MATRIX = "level", "registers", "matrix"


@dataclass(frozen=True)
class Placement:
    """The memory levels that are counted, and which of them have arrays of each role; nearest to slow memory first.

    `operand` and `streamed` are the levels with a copy of what is loaded, in full or block by block. `state` is where
    the states of loops are, `temporary` where everything else is computed. `output` are the levels that have a further
    copy of outputs. `stages` is the number of pipeline buffers of a streamed block, by level (1 if it is not there). If
    `matrix` is given, it is the memory of the matrix units: whatever is computed on chip with the axes of some
    contraction's result is there, whatever its role.

    >>> two(2, registers=True).streamed, two(2, registers=True).state
    (('level',), 'registers')
    """

    names: tuple[str, ...]
    operand: tuple[str, ...]
    streamed: tuple[str, ...]
    state: str
    temporary: str
    output: tuple[str, ...] = ()
    stages: Mapping[str, int] = field(default_factory=dict)
    phased: bool = False
    """Whether the levels below the states' take their tiles one after the other, and load the states for each."""
    matrix: str = ""
    nested: bool = False
    """Whether an input that only inner loops read is loaded block by block there, in every iteration of the outer loop
    (see `live_ranges.postponed`)."""
    fleeting: bool = False
    """Whether the result of a scalar function takes no memory at the last level if only scalar functions and reductions
    read it: it is recomputed element by element where it is read (fused), and its inputs stay live until then."""
    peaks: bool = True
    """Whether what is live at each time is added up."""

    def of(self, role: str) -> tuple[str, ...]:
        """The levels of what is computed on chip with a role: accumulator, output or temporary."""
        if role == "accumulator":
            return (self.state,)
        extra = self.output if role == "output" else ()
        return (*(p for p in self.names if p in extra and p != self.temporary), self.temporary)

    def path(self, role: str) -> tuple[str, ...]:
        """The levels that a load passes, slow memory (`""`) first.

        >>> two(registers=True).path("streamed")
        ('', 'level')
        """
        return ("", *(self.streamed if role == "streamed" else self.operand))

    def path_up(self, role: str) -> tuple[str, ...]:
        """The levels that a save passes, slow memory (`""`) first. They are all above the level at which the array was
        made.

        >>> two(registers=True).path_up("output"), two(registers=True).path_up("operand")
        (('', 'level', 'registers'), ('', 'level'))
        """
        last = {"accumulator": self.state, "output": self.temporary, "operand": self.operand[-1]}
        return ("", *self.names[: self.names.index(last.get(role, self.names[-1])) + 1])


def two(stages: int = 1, registers: bool = False, matrix: bool = False) -> Placement:
    """One fast level. With `registers`, a second level for all arrays but the operands' tiles and blocks; with
    `matrix`, a third one for arrays with the axes of a contraction's result.

    Raises CatdiagError if `stages` is not a positive integer.
    """
    check_stages(stages)
    inner = REGISTERS if registers else LEVEL
    names = (LEVEL, REGISTERS, *([MATRIX] if matrix else []))
    return Placement(
        names, (LEVEL,), (LEVEL,), inner, inner, (), {LEVEL: stages}, matrix=MATRIX if matrix else "", nested=True
    )


def check_stages(stages: object) -> None:
    """Raises CatdiagError unless `stages` is a positive integer."""
    if isinstance(stages, bool) or not isinstance(stages, int) or stages < 1:
        raise CatdiagError(f"stages is {stages!r}: expected a whole number of buffers, 1 or more")
