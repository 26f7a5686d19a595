"""Products that a launch leaves to torch, which has them from cuBLAS: one contraction of two arrays, and nothing else.

That torch computes the product is an assumption, which a plan names (`catdiag.planner.library_products`): no proof is
about its code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from catdiag.category.diagram import Diagram
from catdiag.category.ops import Box, Einsum, Reindex, Rename
from catdiag.category.substitution import inline
from catdiag.codegen.triton.array_accesses import StoredArray


@dataclass(frozen=True)
class ProductAxes:
    """The axes of a product of two arrays: of both factors and the result; of the first and the result; of the second
    and the result; and those that are summed."""

    batch: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    summed: tuple[str, ...]


def product_axes(box: Box) -> ProductAxes | None:
    """The axes of a contraction that is a product of two matrices, or of batches of them; None for another box."""
    if not isinstance(box.op, Einsum) or len(box.dom) != 2 or any(ty.element != "real" for ty in (*box.dom, *box.cod)):
        return None
    first, second, made = (ty.names for ty in (*box.dom, *box.cod))
    summed = tuple(n for n in second if n in first and n not in made)
    alone = [n for n in (*first, *second) if n not in made and n not in summed]
    if not summed or alone or any(len(set(names)) < len(names) for names in (first, second, made)):
        return None
    return ProductAxes(
        tuple(n for n in made if n in first and n in second),
        tuple(n for n in made if n in first and n not in second),
        tuple(n for n in made if n in second and n not in first),
        summed,
    )


def plain_product(diagram: Diagram) -> Box | None:
    """The contraction that is all of a diagram, but for views of its inputs that rename axes and then merge some, if
    there is one.

    >>> import catdiag as cd
    >>> plain_product(cd.library.get("matmul").diagram) is not None
    True
    >>> scaled = cd.algorithm("a b, b c -> a c")(lambda A, B: 2 * cd.einsum("a b, b c -> a c", A, B))
    >>> plain_product(scaled.diagram) is None
    True
    """
    graph = inline(diagram).graph
    if not graph.nodes:
        return None
    views, (last,) = graph.nodes[:-1], graph.nodes[-1:]
    source = list(range(len(graph.dom)))
    merged = [False] * len(graph.dom)
    for node in views:
        op = node.box.op
        is_merge = isinstance(op, Reindex) and op.kind == "merge"
        if not (is_merge or isinstance(op, Rename)) or merged[node.inputs[0]]:
            return None
        source.append(source[node.inputs[0]])
        merged.append(is_merge)
    # An axis of a renaming stays in its place, so that the product reads the input as it is.
    if [source[w] for w in last.inputs] != list(range(len(graph.dom))) or graph.outputs != (len(source),):
        return None
    return last.box if product_axes(last.box) is not None else None


@dataclass(frozen=True, eq=False)
class ProductCall:
    """A product that torch computes, in the place of a kernel: `result` = `first` · `second`."""

    first: StoredArray
    second: StoredArray
    result: StoredArray
    box: Box
    """The contraction, by whose types the axes of the arrays are called."""
    axes: ProductAxes
    place: int
    """The number of its group."""

    @property
    def arrays(self) -> tuple[StoredArray, ...]:
        """What it reads and writes."""
        return self.first, self.second, self.result

    @property
    def reads(self) -> Mapping[StoredArray, tuple[()]]:
        """What it reads, at no positions that are known."""
        return {self.first: (), self.second: ()}

    @property
    def writes(self) -> Mapping[StoredArray, tuple[()]]:
        """What it writes."""
        return {self.result: ()}

    def names(self, array: StoredArray) -> tuple[str, ...]:
        """The axes of an array, in its order, as the contraction calls them."""
        ty = {self.first: self.box.dom[0], self.second: self.box.dom[1], self.result: self.box.cod[0]}[array]
        return ty.names

    def merged(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Rows, columns and summed axes, each in an order in which they can be merged without a copy: as the inputs of
        the module have them, whose layout is given."""
        axes = self.axes
        rows = axes.rows if self.first.temporary else self._as_in(self.first, axes.rows)
        columns = axes.columns if self.second.temporary else self._as_in(self.second, axes.columns)
        given = self.first if self.second.temporary and not self.first.temporary else self.second
        return rows, columns, self._as_in(given, axes.summed)

    def stored(self, array: StoredArray) -> tuple[str, ...]:
        """The order of axes in memory that suits an array that it reads or writes, if the launch allocates it. The last
        axis stays the last."""
        rows, columns, summed = self.merged()
        sides = {self.first: (rows, summed), self.second: (columns, summed), self.result: (rows, columns)}[array]
        names = self.names(array)
        own, other = sides if names[-1] in sides[1] else sides[::-1]
        order = (*self.axes.batch, *own, *other)
        return tuple(array.ty.names[names.index(n)] for n in (order if order[-1] == names[-1] else names))

    def text(self) -> str:
        """The call in the launch function."""
        rows, columns, summed = self.merged()
        batch = self.axes.batch

        def given(array: StoredArray, *merged: Sequence[str]) -> str:
            order = [self.names(array).index(n) for names in (batch, *merged) for n in names]
            return f"({array.name}, {tuple(order)}, {(len(batch), *map(len, merged))})"

        return (
            f"_product({given(self.result, rows, columns)}, {given(self.first, rows, summed)}, "
            f"{given(self.second, summed, columns)})"
        )

    def _as_in(self, array: StoredArray, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(n for n in self.names(array) if n in names)


MERGED = '''def _merged(tensor, order, counts):
    """A tensor with its axes in an order, and so many at a time merged to one."""
    tensor, shape, at = tensor.permute(order), [], 0
    for count in counts:
        shape.append(math.prod(tensor.shape[at : at + count]))
        at += count
    return tensor.reshape(shape)'''
PRODUCT = '''def _product(result, first, second):
    """A product by torch: each is a tensor, an order of its axes, and how many are batches, and of its two sides."""
    made, a, b = _merged(*result), _merged(*first), _merged(*second)
    torch.bmm(a, b, out=made) if len(a) > 1 else torch.mm(a[0], b[0], out=made[0])
    tensor, order, _ = result
    if made.data_ptr() != tensor.data_ptr():  # its axes cannot be merged where they are
        tensor.permute(order).copy_(made.reshape([tensor.shape[k] for k in order]))'''
"""The functions of the generated module; they use `math` and `torch`, and the second the first."""
