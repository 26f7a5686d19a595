"""Which products read a load of their loop, and which loads go to buffers on AMD's chips."""

from __future__ import annotations

from catdiag.runtime.abstract_interpreter.tile_values import Dot, TileValue, TracedLoad

Reader = tuple[Dot, TileValue, bool]
"""A product, the factor of it that depends on a load, and whether that is the first one."""


def direct_readers(number: int, readers: list[Reader]) -> list[Reader]:
    """The products that read a load itself; all that read it, where none does. Those beside them read it through
    the result of another product: what else is computed of a load is known of it (`TracedLoad.others`)."""
    return (
        [(d, v, f) for d, v, f in readers if v.direct == number]
        or [(d, v, f) for d, v, f in readers if not v.matrix]
        or readers
    )


def chained(dots: list[Dot]) -> bool:
    """Whether a loop has two products, of which one takes what the other has made. On CDNA, those of a loop with four
    stages are scheduled with one buffer of each load (`ChainedDotSchedule` in Triton's AMD `ScheduleLoops.cpp`)."""
    first, factors = dots[0].left.loads | dots[0].right.loads, (dots[-1].left, dots[-1].right)
    return len(dots) == 2 and any(first <= value.loads and not value.from_loads for value in factors)


def buffered_on_cdna(load: TracedLoad, readers: list[Reader]) -> bool:
    """Whether a load goes to buffers on CDNA (`getSharedEncIfAllUsersAreDotEnc` in Triton's AMD `LowerLoops.cpp`):
    where products alone read it, as it is or by elementwise functions of loads, which are computed as each product
    reads it. What is made of a transposed one, up to the product, must have one reader each (`getDotEncoding`)."""
    found = [value for _, value, _ in direct_readers(load.number, readers)]
    return (
        len(load.shape) > 1
        and not load.reduced
        and sum(value.swapped for value in found) < 2
        and all(
            value.direct == load.number
            or (value.from_loads and not value.matrix and not (value.swapped and value.forked))
            for value in found
        )
    )
