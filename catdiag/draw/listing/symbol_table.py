"""Symbol table: names and formulas for a program that is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from catdiag.category.diagram import Diagram
from catdiag.category.formula import Formula, symbol, word
from catdiag.category.index_maps import read_off
from catdiag.category.op_facts import cast_dtype
from catdiag.category.ops import Box, Reduce, SizeOf
from catdiag.category.substitution import inline
from catdiag.category.types import BYTES, COMPUTED, STORED, ArrayType, Size, element_bytes
from catdiag.rewrite.box_formulas import formula_of
from catdiag.schedule.element_widths import Dtype, stored_type
from catdiag.schedule.kernel_analysis import Account
from catdiag.schedule.live_ranges import rematerialized, view_roots
from catdiag.schedule.stored_types import output_names

LONGEST = 60
"""Longer lines, in letters, are not joined with the line before."""
_MAX_FORMULA = 300  # longer formulas, in letters, are cut


class SymbolTable:
    """The symbol table of all kernels: unique names, and formulas."""

    def __init__(self, account: Account, dtype: Dtype) -> None:
        flat, split_loop = account.flat, account.split_loop
        self.flat, self.dtype, self.split_loop = flat, dtype, split_loop
        self.single = split_loop.single if split_loop is not None else ()
        self.name_counts: dict[str, int] = {}
        self.taken: set[str] = {*flat.input_names}
        graph = flat.graph
        free = rematerialized(graph, [False] * len(graph.dom))
        root = view_roots(graph)
        self.ends: dict[int, list[str]] = {}
        for w, name in zip(graph.outputs, output_names(flat), strict=True):
            self.ends.setdefault(root[w], []).append(name)
        self.formulas: list[Formula] = [symbol(name) for name in flat.input_names]
        for node in graph.nodes:
            first = len(self.formulas)
            made = self.formula(node.box, [self.formulas[w] for w in node.inputs])
            for k in range(len(node.box.cod)):
                w = first + k
                self.formulas.append(made if free[w] else self.formulas[root[w]] if root[w] < w else word(""))
        self.formulas += [word("")] * len(account.partial_states)

    def name(self, wanted: str = "") -> str:
        """A name that nothing else has."""
        k = self.name_counts.get(wanted, 0) + 1
        name = f"t{k}" if not wanted else wanted if k == 1 else f"{wanted}_{k}"
        while name in self.taken:
            k += 1
            name = f"{wanted}_{k}" if wanted else f"t{k}"
        self.name_counts[wanted] = k
        self.taken.add(name)
        return name

    def release(self, name: str) -> None:
        """Withdraws the name given last."""
        if name == f"t{self.name_counts.get('', 0)}":
            self.name_counts[""] -= 1
            self.taken.discard(name)

    def formula(self, box: Box, args: Sequence[Formula]) -> Formula:
        """The formula of a box's result; a reduction over an axis of length 1 is the identity."""
        if isinstance(box.op, Reduce) and any(
            a.name == box.op.axis and (a.size == 1 or a.size in self.single) for a in box.dom[0].axes
        ):
            return args[0]
        made = formula_of(box, args)
        # The formula of a rematerialized array that is read twice per step would double at every step.
        return made if len(made.text) <= _MAX_FORMULA else word(made.text[:LONGEST] + "…")

    def formulas_of(self, diagram: Diagram, args: Sequence[Formula], wholes: Mapping[str, Size]) -> list[Formula]:
        """The formulas of a diagram's outputs, with blocks of these sizes."""
        graph = inline(diagram).graph
        made = list(args)
        for node in graph.nodes:
            box = node.box
            if isinstance(box.op, SizeOf):
                size: Size = read_off(box.op.size, lambda v: wholes.get(v, v), lambda op, a, b: (op, a, b))
                box = replace(box, op=SizeOf(size))
            made += [self.formula(box, [made[w] for w in node.inputs])] * len(box.cod)
        return [made[w] for w in graph.outputs]

    def element(self, ty: ArrayType, name: str, width: int, box: Box | None = None) -> str:
        """The element type of an array: as given for slow memory, and by its width on chip."""
        if self.dtype is None:
            return ty.element if ty.element in STORED else "real"
        if ty.element in STORED:
            stored = stored_type(name, ty, self.dtype)
            return stored if element_bytes(stored) == width else COMPUTED[ty.element]
        if box is not None and (cast := cast_dtype(box.op)):
            return cast
        given = self.dtype if isinstance(self.dtype, str) else self.dtype.get(name, "")
        if BYTES.get(given) == width:
            return given
        return {4: "fp32", 8: "fp64"}.get(width, f"{8 * width} bits")
