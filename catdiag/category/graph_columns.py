"""Flat forms from columns of integers that users give: all wires are checked at once, by NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from catdiag.category.graph import Box, Graph
from catdiag.category.types import ArrayType, Ty
from catdiag.util.errors import TypeMismatch, require

if TYPE_CHECKING:
    from catdiag.category.graph import Ints


def of_arrays(dom: Ty, table: Sequence[Box], which: object, reads: object, outputs: object) -> tuple[Graph, Ty]:
    """A flat form from arrays or lists of integers, and its codomain, after a check of every wire by NumPy.

    The arrays are copied. Raises TypeMismatch, naming the first node that is wrong.
    """
    import numpy as np

    kinds, wires, leaving = _integers(which, "which"), _integers(reads, "reads"), _integers(outputs, "outputs")
    wrong = (kinds < 0) | (kinds >= len(table))
    if wrong.any():
        place = int(wrong.argmax())
        raise TypeMismatch(f"node {place} is box {kinds[place]}: expected the number of one of {len(table)}, from 0")
    numbers: dict[ArrayType, int] = {}
    # Types that many boxes share are checked once.
    known: dict[int, list[int]] = {}
    for ty in (dom, *(ty for b in table for ty in (b.dom, b.cod))):
        if id(ty) not in known:
            known[id(ty)] = [numbers.setdefault(t, len(numbers)) for t in ty.arrays]
    own, takes, gives = known[id(dom)], [known[id(b.dom)] for b in table], [known[id(b.cod)] for b in table]
    arity, ports = _each([len(t) for t in takes], kinds), _each([len(t) for t in gives], kinds)
    count = int(arity.sum()) if isinstance(arity, np.ndarray) else arity * len(kinds)
    if count != len(wires):
        raise TypeMismatch(f"reads has {len(wires)} wires: expected {count}, what the nodes read one after another")
    # The number of wires that exist before a node: those of the domain and of the earlier nodes.
    there = _before(ports, len(kinds)) + len(own)
    total = len(own) + (int(ports.sum()) if isinstance(ports, np.ndarray) else ports * len(kinds))
    limit = np.repeat(there, arity) if isinstance(arity, np.ndarray) or arity != 1 else there
    late = (wires < 0) | (wires >= limit)
    if late.any():
        place, wire = _reader(arity, int(late.argmax())), wires[late.argmax()]
        name = table[kinds[place]].name
        raise TypeMismatch(f"node {place}, {name}, reads wire {wire}: only {there[place]} are there by then")
    wrong = (leaving < 0) | (leaving >= total)
    if wrong.any():
        place = int(wrong.argmax())
        raise TypeMismatch(f"output {place} reads wire {leaving[place]}: there are {total}")
    types = list(numbers)
    if len(types) > 1:
        carried = np.concatenate([np.array(own, dtype=np.int64), gathered(gives, kinds)])
        wrong = carried[wires] != gathered(takes, kinds)
        if wrong.any():
            at = int(wrong.argmax())
            place = _reader(arity, at)
            b = table[kinds[place]]
            expected = types[gathered(takes, kinds)[at]]
            raise TypeMismatch(
                f"node {place}, {b.name}, reads wire {wires[at]}, which carries {types[carried[wires[at]]]}: "
                f"expected {expected}"
            )
        cod = Ty(*(types[k] for k in carried[leaving].tolist()))
    else:
        cod = Ty(*types * len(leaving)) if len(leaving) != len(own) else dom
    return Graph.of_columns(dom, table, kinds, wires, leaving.tolist()), cod


def _integers(values: object, name: str) -> Ints:
    """A column of integers, copied."""
    import numpy as np

    expected = "a list or an array, of one axis, of integers"
    try:
        found = np.array(values) if not isinstance(values, range) else np.arange(values.start, values.stop, values.step)
    except (ValueError, TypeError):
        found = np.array(None)
    require(found.ndim == 1 and (found.dtype.kind in "iu" or not found.size), name, values, expected)
    made: Ints = found.astype(np.int64, copy=False)
    made.flags.writeable = False
    return made


def _each(lengths: list[int], which: Ints) -> int | Ints:
    """The length of each node's list: one number if all are equal."""
    import numpy as np

    if len(set(lengths)) == 1:
        return lengths[0]
    found: Ints = np.array(lengths, dtype=np.int64)[which]
    return found


def _before(lengths: int | Ints, n: int) -> Ints:
    """The sum of the lengths before each node."""
    import numpy as np

    if isinstance(lengths, int):
        return np.arange(n, dtype=np.int64) * lengths
    found: Ints = np.cumsum(lengths) - lengths
    return found


def _reader(arity: int | Ints, at: int) -> int:
    """The node that a position in `reads` belongs to."""
    import numpy as np

    if isinstance(arity, int):
        return at // arity
    return int(np.searchsorted(np.cumsum(arity), at, side="right"))


def gathered(lists: Sequence[Sequence[int]], which: Ints) -> Ints:
    """The lists of numbers at the given places, concatenated.

    >>> import numpy as np
    >>> gathered([[1, 2], [], [3]], np.array([2, 0, 1, 0])).tolist()
    [3, 1, 2, 1, 2]
    """
    import numpy as np

    lengths = [len(found) for found in lists]
    if len(set(lengths)) == 1:
        made: Ints = np.array(lists, dtype=np.int64)[which].ravel()
        return made
    flat = np.array([k for found in lists for k in found], dtype=np.int64)
    each = np.array(lengths, dtype=np.int64)
    first = np.cumsum(each) - each
    mine = each[which]
    found_at = np.repeat(first[which] - (np.cumsum(mine) - mine), mine)
    picked: Ints = flat[found_at + np.arange(len(found_at))]
    return picked
