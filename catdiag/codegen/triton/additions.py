"""What a tile adds to an array in global memory: to a place of its own, or by an atomic addition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from catdiag.codegen.kernel_tree import Do, If
from catdiag.codegen.syntax import Name, Number, PythonExpression, call, dotted, joined


@dataclass(frozen=True)
class Addition:
    """What a tile adds to an array, by its name: the name of it, its shape, its place, and the mask of its entries.
    `part` names how far the parts of tiles are apart. `written` is how a single tile adds."""

    array: str
    added: Name
    shape: PythonExpression
    place: Name
    mask: Mapping[str, PythonExpression]
    part: str
    written: If

    def zero(self, tl: str) -> PythonExpression:
        """What a run of tiles begins with."""
        return call(f"{tl}.full", self.shape, Number(0), dotted(f"{self.array}.dtype.element_ty"))

    def of_run(self, total: Name, number: PythonExpression, tl: str) -> If:
        """How a run adds, by its number."""
        return addition(self.place, total, self.mask, number, self.part, tl)


def addition(
    place: Name, value: Name, mask: Mapping[str, PythonExpression], number: PythonExpression, part: str, tl: str
) -> If:
    """The statement that adds a value; `number` counts the places of its own, which are `part` entries apart.

    >>> from catdiag.codegen.kernel_tree import printed
    >>> print(printed([addition(Name("place"), Name("added"), {}, Name("pid"), "step", "tl")])[1].strip())
    tl.store(place + pid * step, added)
    """
    own = joined(place, "+", joined(number, "*", Name(part)))
    store = Do(call(f"{tl}.store", own, value, **mask))
    add_to = Do(call(f"{tl}.atomic_add", place, value, **mask, sem=Number("relaxed")))
    return If(Name("deterministic"), [store], [add_to], note="each program's part has a place of its own")
