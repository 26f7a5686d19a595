"""What a tile adds to an array in global memory: to a place of its own, or by an atomic addition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from catdiag.codegen.kernel_tree import Do, If
from catdiag.codegen.syntax import Name, Number, PythonExpression, call, joined


@dataclass(frozen=True)
class Addition:
    """What a tile adds to an array: the name of it, and of its place; the `zero` that a run begins with, and the
    `mask` of entries. `part` names how far the parts of tiles are apart. `written` is how a single tile adds."""

    added: Name
    place: Name
    zero: PythonExpression
    mask: Mapping[str, PythonExpression]
    part: str
    written: If

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
