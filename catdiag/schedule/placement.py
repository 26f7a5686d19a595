"""Where on chip the arrays of a kernel are, by the role that they play in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from catdiag.util.errors import CatdiagError

LEVEL, REGISTERS, MATRIX = "level", "registers", "matrix"


@dataclass(frozen=True)
class Placement:
    """The places that are counted, and those that hold arrays of each role, nearest to the slow memory first.

    `operand` and `streamed` are the places with a copy of what is loaded, whole or block by block; `state` is where
    the states of loops are, `temporary` where everything else is made, `output` which places hold outputs beside that.
    `stages` are the buffers of a streamed block, by place (1 where left out). With `matrix`, what is made on chip with
    the axes of the result of some contraction is there, whatever its role: the memory of the matrix units.

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
    """Whether the places after the states' take their pieces one after the other, loading the states each time."""
    matrix: str = ""
    nested: bool = False
    """Whether what only loops inside a loop read comes block by block there, in every turn (see
    `live_ranges.postponed`)."""
    fleeting: bool = False
    """Whether what a scalar function makes, and only further ones and reductions read, takes no room in the last place:
    it is made element by element where it is read, and what it is made of stays until then."""

    def of(self, role: str) -> tuple[str, ...]:
        """The places of what is made on chip: an accumulator, an output or a temporary."""
        if role == "accumulator":
            return (self.state,)
        extra = self.output if role == "output" else ()
        return (*(p for p in self.names if p in extra and p != self.temporary), self.temporary)

    def path(self, role: str) -> tuple[str, ...]:
        """The places that a load passes, the slow memory (`""`) first.

        >>> two(registers=True).path("streamed")
        ('', 'level')
        """
        return ("", *(self.streamed if role == "streamed" else self.operand))

    def path_up(self, role: str) -> tuple[str, ...]:
        """The places that a save passes, which are all above where it was made, the slow memory (`""`) first.

        >>> two(registers=True).path_up("output"), two(registers=True).path_up("operand")
        (('', 'level', 'registers'), ('', 'level'))
        """
        last = {"accumulator": self.state, "output": self.temporary, "operand": self.operand[-1]}
        return ("", *self.names[: self.names.index(last.get(role, self.names[-1])) + 1])


def two(stages: int = 1, registers: bool = False, matrix: bool = False) -> Placement:
    """One fast level; with `registers`, a second place for all but the operands' tiles and blocks; with `matrix`, a
    third for what has the axes of the result of a contraction.

    Raises CatdiagError for a number of stages that is no positive whole number.
    """
    check_stages(stages)
    inner = REGISTERS if registers else LEVEL
    names = (LEVEL, REGISTERS, *([MATRIX] if matrix else []))
    return Placement(
        names, (LEVEL,), (LEVEL,), inner, inner, (), {LEVEL: stages}, matrix=MATRIX if matrix else "", nested=True
    )


def check_stages(stages: object) -> None:
    """Raises CatdiagError unless this is a positive whole number."""
    if isinstance(stages, bool) or not isinstance(stages, int) or stages < 1:
        raise CatdiagError(f"stages is {stages!r}: expected a whole number of buffers, 1 or more")
