"""A reference implementation: the meaning of a diagram as a function of PyTorch tensors, without this library.

The text has two uses. On float64 tensors it is the reference against which a kernel is checked. On tensors of the
kernel's type it is the program that `torch.compile` compiles where a kernel is compared with it. It has no loops over
blocks: a loop is replaced by its state for the whole list, and a group by its body on whole arrays.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catdiag.category.diagram import Diagram, HasDiagram, Node, diagram_of
from catdiag.category.named_axes import named_axes, named_sizes
from catdiag.category.ops import Box, Generic, Index, Rename
from catdiag.category.types import ArrayType, Axis, size_symbols
from catdiag.codegen.array_expressions import ArrayPrinter, Value
from catdiag.codegen.names import Names
from catdiag.codegen.program_sizes import sizes_of_box, symbols_of_sizes
from catdiag.codegen.syntax import Name
from catdiag.codegen.torch_expressions import TORCH
from catdiag.rewrite.list_states import unrolled
from catdiag.util.errors import TypeMismatch

# Expressions of at most _LONGEST characters that are read once are inlined; numbers of at most _SHORT always are.
_LONGEST, _SHORT = 72, 24
_HELPERS = {
    "_floor": '''def _floor(a, b):
    """a / b rounded down, and 0 for a b that is not positive."""
    if not torch.is_tensor(a) and not torch.is_tensor(b):
        return a // b if b > 0 else 0
    if not torch.is_tensor(b):
        return torch.div(a, b, rounding_mode="floor") if b > 0 else torch.zeros_like(a)
    return torch.where(b > 0, torch.div(a, b.clamp(min=1), rounding_mode="floor"), 0)''',
    "_uniform": '''def _uniform(seed, *counter):
    """Philox 4x32-10: numbers in [0, 1) of a seed and a counter, as tl.rand makes them."""
    low = 0xFFFFFFFF
    seed, c0, c1, c2, c3 = (torch.as_tensor(v).to(torch.int64) for v in (seed, *counter))
    k0, k1, c0, c1, c2, c3 = seed & low, (seed >> 32) & low, c0 & low, c1 & low, c2 & low, c3 & low
    for _ in range(10):
        a, b = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = ((b >> 32) & low) ^ c1 ^ k0, b & low, ((a >> 32) & low) ^ c3 ^ k1, a & low
        k0, k1 = (k0 + 0x9E3779B9) & low, (k1 + 0xBB67AE85) & low
    return torch.where(c0 < 2**31, c0, low - c0).float() * 4.6566127342e-10''',
    "_within": '''def _within(place, length):
    """A position, or the nearest one that is in range."""
    if torch.is_tensor(place):
        return place.clamp(0, length - 1)
    return min(max(place, 0), length - 1)''',
}


@dataclass(frozen=True)
class TorchReference:
    """A function of tensors as text: `entry` takes the inputs in the diagram's order, scalars as Python numbers.

    - `sizes`: the keyword argument of each size that no input shows.
    - `functions`: the keyword arguments for uninterpreted functions and boxes.
    - `slices`: the axes along which it can be evaluated in slices. Applied to slices of the inputs that have the axis,
      it gives the slice of each result.
    - `starts`: for the axes of `slices` whose positions matter, the keyword argument (`from_AXIS`) for the first
      position of the slice.
    - `between`: the types of intermediate arrays, each once.
    """

    text: str
    entry: str
    inputs: tuple[tuple[str, tuple[str, ...]], ...]
    outputs: tuple[tuple[str, ...], ...]
    sizes: Mapping[str, str]
    functions: tuple[str, ...]
    slices: tuple[str, ...]
    starts: Mapping[str, str]
    between: tuple[ArrayType, ...]

    def function(self) -> Callable[..., Any]:
        """The function itself. Raises ImportError without PyTorch."""
        return function_of(self.text, self.entry)


def function_of(text: str, entry: str) -> Callable[..., Any]:
    """The function `entry` of a reference implementation. Raises ImportError without PyTorch."""
    namespace: dict[str, Any] = {}
    exec(compile(text, f"<reference {entry}>", "exec", dont_inherit=True), namespace)
    made: Callable[..., Any] = namespace[entry]
    return made


def torch_reference(subject: Diagram | HasDiagram) -> TorchReference:
    """The meaning of a diagram as a function of PyTorch tensors.

    Elementwise functions and reductions compute in float32 if the inputs are narrower. Operands of contractions and
    results have the type of the first floating-point input. Casts are identities, as in the diagram's meaning.

    >>> import catdiag as cd
    >>> dot = cd.algorithm("q d, x d -> q x", name="dot")(lambda A, B: cd.exp(cd.einsum("q d, x d -> q x", A, B)))
    >>> print(torch_reference(dot).text)
    import math
    <BLANKLINE>
    import torch
    <BLANKLINE>
    <BLANKLINE>
    def dot(A, B):
        stored = A.dtype if A.dtype.itemsize > 1 else torch.bfloat16
        wide = torch.promote_types(stored, torch.float32)
        A, B = A.to(stored), B.to(stored)
        return torch.exp(torch.einsum("qd,xd->qx", A, B).to(wide)).to(stored)  # [q x]
    <BLANKLINE>
    >>> torch_reference(dot).slices
    ('q', 'x')

    Raises TypeMismatch for an input whose name is not an identifier, and for a user's box with several results.
    """
    diagram = diagram_of(subject)
    return _TorchPrinter(diagram).printed()


class _TorchPrinter:
    """Prints the boxes of a diagram, its loops and groups removed, as a function of tensors."""

    def __init__(self, diagram: Diagram) -> None:
        self.diagram = diagram
        graph = unrolled(diagram).graph
        self.steps, self.outputs = graph.nodes, graph.outputs
        several = next((node.box for node in self.steps if len(node.box.cod) != 1), None)
        if several is not None:
            raise TypeMismatch(
                f"{several.name} has {len(several.cod)} results: expected one, as in all of a PyTorch reference",
                several.line,
            )
        for name in diagram.input_names:
            if not name.isidentifier():
                raise TypeMismatch(f"input {name!r} cannot be an argument of a function: expected an identifier")
        reserved = ("torch", "math", "stored", "wide", "device", "max", "min")
        self.names = Names({*diagram.input_names, *keyword.kwlist, *reserved})
        self.symbols: dict[str, str] = {}
        self.shown: dict[str, str] = {}
        for name, ty in zip(diagram.input_names, diagram.dom, strict=True):
            for k, axis in enumerate(ty.axes):
                if isinstance(axis.size, str):
                    self.shown.setdefault(axis.size, f"{name}.shape[{k}]")
        found = [a.size for ty in diagram.dom for a in ty.axes]
        for symbol in symbols_of_sizes([*found, *(size for step in self.steps for size in sizes_of_box(step.box))]):
            self.symbols[symbol] = self.names.fresh(symbol if symbol.isidentifier() else "t")

    def printed(self) -> TorchReference:
        """The function and its description."""
        diagram = self.diagram
        slices, counted = _slices(diagram, self.steps)
        code = ArrayPrinter(TORCH, {s: Name(name) for s, name in self.symbols.items()})
        code.starts = {axis: self.names.fresh("from_" + re.sub(r"\W+", "_", axis)) for axis in counted}
        values: dict[int, Value] = {}
        for k, (name, ty) in enumerate(zip(diagram.input_names, diagram.dom, strict=True)):
            kind = "number" if not ty.axes else {"int": "int", "bool": "bool"}.get(ty.element, "stored")
            values[k] = Value(Name(name), ty.names, kind, frozenset([name]))
        uses = self._uses()
        lines: list[tuple[str, Value]] = []
        count = 0
        for output, step in enumerate(self.steps, len(diagram.dom)):
            value = code.expression(step.box, [values[w] for w in step.inputs])
            once = uses.get(output, 0) <= 1
            if (
                str(value.code).isidentifier()
                or (once and len(str(value.code)) <= _LONGEST)
                or (value.number and len(str(value.code)) <= _SHORT)
            ):
                values[output] = value
                continue
            count += 1
            name = self.names.fresh(f"t{count}")
            lines.append((name, value))
            values[output] = Value(Name(name), value.axes, value.kind, frozenset([name]))
        results = []
        for wire, ty in zip(self.outputs, diagram.cod, strict=True):
            results.append(code.stored(code.broadcast(values[wire], ty)))
        return self._assembled(code, lines, results, slices)

    def _uses(self) -> dict[int, int]:
        uses: dict[int, int] = {}
        for step in self.steps:
            for w in step.inputs:
                uses[w] = uses.get(w, 0) + 1
        for w in self.outputs:
            uses[w] = uses.get(w, 0) + 1
        return uses

    def _assembled(
        self,
        code: ArrayPrinter,
        lines: list[tuple[str, Value]],
        results: list[Value],
        slices: tuple[str, ...],
    ) -> TorchReference:
        """The function, assembled from lines of assignments and the expressions of the results."""
        diagram = self.diagram
        reads = frozenset[str]().union(*(v.reads for v in (*(value for _, value in lines), *results)))
        entry = re.match(r"[A-Za-z_]\w*", diagram.title)
        title = entry.group() if entry and entry.group() not in self.names.taken else self.names.fresh("reference")
        starts = {axis: name for axis, name in code.starts.items() if name in reads}
        sizes = {s: self.symbols[s] for s in code.sizes_used if s not in self.shown}
        keywords = [*sizes.values(), *code.functions, *(f"{name}=0" for name in starts.values())]
        arguments = ", ".join([*diagram.input_names, *(["*", *keywords] if keywords else [])])
        helpers = [f"{body}\n\n" for name, body in _HELPERS.items() if name in reads]
        parts = ["import math\n", "import torch\n\n", *helpers, f"def {title}({arguments}):"]
        parts += [f"    {line}" for line in (*self._head(code, reads), *self._body(lines, results))]
        return TorchReference(
            "\n".join(parts) + "\n",
            title,
            tuple((name, ty.names) for name, ty in zip(diagram.input_names, diagram.dom, strict=True)),
            tuple(ty.names for ty in diagram.cod),
            sizes,
            tuple(code.functions),
            slices,
            starts,
            tuple(dict.fromkeys(ty for step in self.steps for ty in step.box.cod if ty.axes)),
        )

    def _head(self, code: ArrayPrinter, reads: frozenset[str]) -> list[str]:
        """The lines that name sizes, the device and the two floating-point types, where these names are read."""
        tensors = [(n, ty) for n, ty in zip(self.diagram.input_names, self.diagram.dom, strict=True) if ty.axes]
        floating = [n for n, ty in tensors if ty.element in ("real", "extended")]
        head = [
            f"{self.symbols[s]} = {self.shown[s]}"
            for s in code.sizes_used
            if s in self.shown and self.symbols[s] in reads
        ]
        if "device" in reads:
            head.append(f"device = {tensors[0][0]}.device" if tensors else 'device = torch.device("cpu")')
        if floating:
            first = floating[0]
            head.append(f"stored = {first}.dtype if {first}.dtype.itemsize > 1 else torch.bfloat16")
        elif reads & {"stored", "wide"}:
            head.append("stored = torch.float32")
        if "wide" in reads:
            head.append("wide = torch.promote_types(stored, torch.float32)")
        read = [n for n in floating if n in reads]
        if read:
            head.append(f"{', '.join(read)} = {', '.join(f'{n}.to(stored)' for n in read)}")
        return head

    def _body(self, lines: list[tuple[str, Value]], results: list[Value]) -> list[str]:
        """The assignments and the return. Arrays are deleted after their last use, to free their memory."""
        last: dict[str, int] = {}
        for k, value in enumerate([*(value for _, value in lines), *results]):
            last.update(dict.fromkeys(value.reads, min(k, len(lines))))
        made = {name for name, value in lines if value.axes}
        body: list[str] = []
        for k, (name, value) in enumerate(lines):
            comment = f"  # [{' '.join(value.axes)}]" if value.axes else ""
            body.append(f"{name} = {value.code}{comment}")
            dead = sorted((n for n in made if last.get(n) == k and n != name), key=_natural)
            if dead:
                body.append(f"del {', '.join(dead)}")
        comment = f"  # {', '.join(f'[{chr(32).join(ty.names)}]' for ty in self.diagram.cod)}"
        return [*body, f"return {', '.join(str(v.code) for v in results) or '()'}{comment}"]


def _natural(name: str) -> tuple[int, str]:
    return len(name), name


def _slices(diagram: Diagram, steps: Sequence[Node]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The axes along which a diagram can be evaluated in slices, and those of them whose positions it reads.

    An axis qualifies if all results have it and each box maps slices to slices. The order is that of the first result.
    """
    if not diagram.cod:
        return (), ()
    found: list[str] = []
    counted: list[str] = []
    for axis in diagram.cod[0].axes:
        name = axis.name
        if not isinstance(axis.size, str) or any(name not in ty.names for ty in diagram.cod):
            continue
        positions = False
        for step in steps:
            slicewise, indexed = _slicewise(step.box, axis)
            positions = positions or indexed
            if not slicewise:
                break
        else:
            if all(_independent(a, axis) for ty in diagram.dom for a in ty.axes):
                found.append(name)
                counted += [name] if positions else []
    return tuple(found), tuple(counted)


def _independent(axis: Axis, sliced: Axis) -> bool:
    """Whether the size of an axis does not depend on the size of the sliced one, or it is the sliced one."""
    return axis.name == sliced.name or sliced.size not in size_symbols(axis.size)


def _slicewise(box: Box, sliced: Axis) -> tuple[bool, bool]:
    """Whether a box maps slices along an axis to slices; and whether it reads positions along the axis."""
    op, name = box.op, sliced.name
    if not all(_independent(a, sliced) for ty in (*box.dom, *box.cod) for a in ty.axes):
        return False, False
    if isinstance(op, Index):
        return True, op.axis == name
    if name in named_axes(box) or any(sliced.size in size_symbols(size) for size in named_sizes(box)):
        return False, False
    has, gives = any(name in ty.names for ty in box.dom), any(name in ty.names for ty in box.cod)
    if isinstance(op, Generic):
        return not has and not gives, False
    return has == gives or isinstance(op, Rename), False  # a transposition may repeat an array along the axis
