"""The width of an element in bytes, by array, for formulas. The rules are stated in `catdiag.cost.traffic`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from catdiag.category.op_facts import cast_dtype
from catdiag.category.ops import Box, GroupOp
from catdiag.category.substitution import inline
from catdiag.category.types import BYTES, COMPUTED, INTEGER_BYTES, STORED, ArrayType, element_bytes
from catdiag.schedule.live_ranges import view_roots
from catdiag.schedule.operand_types import widest_of
from catdiag.util.errors import CatdiagError

Dtype = str | Mapping[str, str] | None
REST = "*"
"""The name in a mapping of types by array that stands for all arrays of real numbers which are not named."""
_TYPES = {"int": ("integers", INTEGER_BYTES), "bool": ("truth values", {"bool": 1})}


def width(dtype: str) -> int:
    """Bytes of a real number. Raises CatdiagError for an unknown type."""
    if dtype not in BYTES:
        raise CatdiagError(f"unknown dtype {dtype!r}: expected one of {', '.join(BYTES)}")
    return BYTES[dtype]


def stored_type(name: str, ty: ArrayType, dtype: str | Mapping[str, str], default: str = "") -> str:
    """The hardware type of an array's elements in slow memory.

    `dtype` is the type of arrays of real numbers, or types by array. `default` is the type of a real array that it does
    not name; without it that of `"*"` in `dtype`, or fp32.
    Arrays of integers and of truth values have `catdiag.category.types.STORED` where they are not named. Raises
    CatdiagError for an unknown type, and for one that does not represent the array's elements.

    >>> index = ArrayType((), "int")
    >>> stored_type("row", index, "bf16"), stored_type("row", index, {"row": "int32"})
    ('int64', 'int32')
    """
    given = None if isinstance(dtype, str) else dtype.get(name)
    if ty.element in _TYPES:
        what, known = _TYPES[ty.element]
        if given is not None and given not in known:
            raise CatdiagError(f"dtype gives {given!r} for {name!r}, an array of {what}: expected {' or '.join(known)}")
        return given or STORED[ty.element]
    found = dtype if isinstance(dtype, str) else given or default or dtype.get(REST, "fp32")
    width(found)
    return found


def real_types(dtype: str | Mapping[str, str]) -> tuple[str, ...]:
    """The types that `dtype` gives to real numbers, in order; none if it names arrays of other elements only.

    >>> real_types("bf16"), real_types({"row": "int32", "A": "fp16"})
    (('bf16',), ('fp16',))
    """
    given = (dtype,) if isinstance(dtype, str) else tuple(dtype.values())
    return tuple(kind for kind in given if kind not in INTEGER_BYTES and kind != "bool")


@dataclass
class Widths:
    """Bytes of an element, by array; all 1 when elements are counted instead of bytes (`bytes` is False).

    `inputs` and `outputs` are by name, `between` is for arrays between kernels, `inner` for results on chip, `named`
    for states of loops. `types` are the types of inputs of real numbers, by name; `rest` is that of arrays between
    kernels.
    """

    inputs: dict[str, int] = field(default_factory=dict)
    outputs: dict[str, int] = field(default_factory=dict)
    between: int = 1
    inner: int = 1
    named: dict[str, int] = field(default_factory=dict)
    bytes: bool = False
    types: dict[str, str] = field(default_factory=dict)
    rest: str = ""

    def on_chip(self, ty: ArrayType, name: str = "") -> int:
        """The bytes of an element of an array that is computed on chip."""
        if not self.bytes:
            return 1
        return self.named.get(name) or (element_bytes(COMPUTED[ty.element]) if ty.element in COMPUTED else self.inner)

    def by_producer(self, box: Box, ty: ArrayType) -> int:
        """The bytes of an element of a box's result on chip: a cast gives the type."""
        if self.bytes and (cast := cast_dtype(box.op)):
            return BYTES[cast]
        return self.on_chip(ty)

    def saved_type(self, box: Box, k: int, statistic: bool) -> str:
        """The type of output `k` of a box, of real numbers, that a kernel saves for another; empty where elements are
        counted."""
        if not self.bytes or box.cod[k].element in ("int", "bool"):
            return ""
        return cast_type(box, k) or (widest_of(("fp32", self.rest)) if statistic else self.rest)

    def saved(self, box: Box, k: int, statistic: bool) -> int:
        """The bytes of an element of output `k` of a box (or of a box in a group) that a kernel saves for another. A
        `statistic` takes at least 4.

        States of the parts of a split loop are not asked here: they are as wide as on chip.
        """
        if not self.bytes:
            return 1
        kind = cast_type(box, k)
        if kind:
            return BYTES[kind]
        if box.cod[k].element in STORED:
            return element_bytes(STORED[box.cod[k].element])
        return max(4, self.between) if statistic else self.between


def cast_type(box: Box, k: int) -> str:
    """The type that a cast gives output `k` of a box (or of a box in a group); empty if no cast makes it."""
    while isinstance(box.op, GroupOp):
        body = inline(box.op.body).graph
        wire = view_roots(body)[body.outputs[k]]
        place = body.makers()[wire]
        if place < 0:
            return ""
        box, k = body.nodes[place].box, wire - body.first_wires()[place]
    return cast_dtype(box.op)
