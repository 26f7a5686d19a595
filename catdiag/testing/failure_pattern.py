"""A short description of the sizes at which something fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

Test = Callable[[int], bool]


def condition(name: str, fails: Sequence[int], holds: Sequence[int], blocks: Sequence[int] = ()) -> str | None:
    """A simple condition on one size that all failing sizes meet and no passing one; None where there is none.

    >>> condition("x", [1, 2, 63, 65], [64, 128], [64])
    'x % 64 != 0'
    >>> condition("x", [2, 3, 4], [1]), condition("x", [65, 127, 129], [1, 2, 63, 64, 128], [64])
    ('x >= 2', 'x > 64 and x % 64 != 0')
    >>> condition("x", [1, 4], [2, 3, 5, 7]), condition("x", [1, 2], [])
    ('x in (1, 4)', '')
    """
    if not holds:
        return ""
    for text, test in _candidates(name, [*fails, *holds], blocks):
        if all(map(test, fails)) and not any(map(test, holds)):
            return text
    return f"{name} in {tuple(sorted(fails))}" if 1 < len(fails) <= 4 else None


def _candidates(name: str, values: Sequence[int], blocks: Sequence[int]) -> Iterator[tuple[str, Test]]:
    """The conditions to try, simple ones first."""
    ends = sorted(set(values))
    for n in ends:
        yield f"{name} >= {n}", lambda v, n=n: v >= n  # type: ignore[misc]
    for n in ends:
        yield f"{name} <= {n}", lambda v, n=n: v <= n  # type: ignore[misc]
    for n in ends:
        yield f"{name} == {n}", lambda v, n=n: v == n  # type: ignore[misc]
        yield f"{name} != {n}", lambda v, n=n: v != n  # type: ignore[misc]
    steps = list(dict.fromkeys([*blocks, 2, 4, 8, 16, 32, 64, 128, 256, 3, 5, 6, 7]))
    for m in steps:
        yield f"{name} % {m} != 0", lambda v, m=m: v % m != 0  # type: ignore[misc]
        yield f"{name} % {m} == 0", lambda v, m=m: v % m == 0  # type: ignore[misc]
        if m <= 8:
            for r in range(1, m):
                yield f"{name} % {m} == {r}", lambda v, m=m, r=r: v % m == r  # type: ignore[misc]
        yield f"{name} > {m} and {name} % {m} != 0", lambda v, m=m: v > m and v % m != 0  # type: ignore[misc]
        yield f"{name} < {m} or {name} % {m} == 0", lambda v, m=m: v < m or v % m == 0  # type: ignore[misc]
        yield f"{name} % {m} == 1", lambda v, m=m: v % m == 1  # type: ignore[misc]
    yield f"{name} is no power of 2", lambda v: v & (v - 1) != 0
    yield f"{name} is a power of 2", lambda v: v & (v - 1) == 0


def relation(left: str, right: str, fails: Sequence[tuple[int, int]], holds: Sequence[tuple[int, int]]) -> str | None:
    """A comparison of two sizes that all failing pairs meet and no passing one; None where there is none.

    >>> relation("q", "x", [(1, 2), (2, 3)], [(2, 2), (3, 1)])
    'q < x'
    """
    tests: Mapping[str, Callable[[int, int], bool]] = {
        "<": lambda a, b: a < b, ">": lambda a, b: a > b, "!=": lambda a, b: a != b, "==": lambda a, b: a == b,
        "<=": lambda a, b: a <= b, ">=": lambda a, b: a >= b,
    }  # fmt: skip
    if not fails or not holds:
        return None
    for sign, test in tests.items():
        if all(test(*pair) for pair in fails) and not any(test(*pair) for pair in holds):
            return f"{left} {sign} {right}"
    return None
