"""In which types the arrays of a diagram are stored, by `dtype`: one for all, or types by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from catdiag.category.diagram import Diagram
from catdiag.category.op_facts import cast_dtype
from catdiag.category.substitution import inline
from catdiag.category.traversal import state_names
from catdiag.category.types import BYTES, ArrayType, element_bytes, size_value
from catdiag.schedule.contractions import deciding
from catdiag.schedule.element_widths import REST, Dtype, Widths, real_types, stored_type, width
from catdiag.schedule.full_precision import is_real, statistics
from catdiag.schedule.live_ranges import view_roots
from catdiag.schedule.operand_types import result_type, widest_of
from catdiag.util.errors import CatdiagError


def widest(dtype: str | Mapping[str, str]) -> str:
    """The given type, or the widest of those given by array (the first of equal ones). Raises CatdiagError for unknown
    types, and if no type is given.

    >>> widest({"Q": "fp8", "V": "bf16", "out": "fp16"})
    'bf16'
    """
    if isinstance(dtype, str):
        width(dtype)
        return dtype
    if not isinstance(dtype, Mapping) or not dtype:
        raise CatdiagError(f"dtype is {dtype!r}: expected a type such as 'bf16', or types by array")
    return max(real_types(dtype), key=width, default="fp32")


def worked_in(diagram: Diagram, dtype: str | Mapping[str, str]) -> str:
    """The type of a diagram's products: the given one, or the widest of the inputs that products read directly, if
    types are given by array. Results of the computation are rounded to it, whatever they are computed from. Where all
    factors are computed, it is the widest of the inputs with the most axes. Raises CatdiagError as `widest` does.

    >>> import catdiag as cd
    >>> scaled = cd.algorithm("q d, x d, q -> q x")(lambda A, B, s: cd.einsum("q d, x d -> q x", A, B) - s)
    >>> worked_in(scaled, {"A": "bf16", "B": "bf16", "s": "fp32"})
    'bf16'
    """
    widest(dtype)
    types = element_types(diagram, dtype)
    return widest_of([types[name] for name in deciding(diagram)]) or rest_type(dtype)


def output_names(diagram: Diagram) -> tuple[str, ...]:
    """`out`, or `out0`, `out1`, … where there are several."""
    return ("out",) if len(diagram.cod) == 1 else tuple(f"out{k}" for k in range(len(diagram.cod)))


def widths_of(diagram: Diagram, dtype: Dtype) -> Widths:
    """The element widths of all arrays, by the rule of `catdiag.cost.traffic`. Raises CatdiagError for unknown types
    and arrays."""
    if dtype is None:
        return Widths()
    for kind in real_types(dtype):
        width(kind)
    names, ends = diagram.input_names, output_names(diagram)
    given = {} if isinstance(dtype, str) else dict(dtype)
    states = state_names(diagram)
    unknown = sorted(set(given) - {REST, *names, *ends, *states})
    if unknown:
        known = ", ".join((*names, *ends, *states))
        raise CatdiagError(
            f"dtype names an array {unknown[0]!r} that the diagram does not have: expected one of {known}"
        )
    types, rest = element_types(diagram, dtype), rest_type(dtype)

    def outer(name: str, ty: ArrayType) -> int:
        return element_bytes(types[name])

    inputs = {name: outer(name, ty) for name, ty in zip(names, diagram.dom, strict=True)}
    outputs = {name: outer(name, ty) for name, ty in zip(ends, diagram.cod, strict=True)}
    between = result_type(rest)
    both = (*zip(names, diagram.dom, strict=True), *zip(ends, diagram.cod, strict=True))
    inner = max(4, width(rest), *(outer(name, ty) for name, ty in both if is_real(ty)))
    named = {n: width(given[n]) for n in states if n in given}
    reals = {name: types[name] for name, ty in both if is_real(ty)}
    return Widths(inputs, outputs, width(between), inner, named, True, reals, between)


def rest_type(dtype: str | Mapping[str, str]) -> str:
    """The type of arrays that `dtype` does not name: itself, or what it gives for `"*"`, or fp32.

    >>> rest_type("bf16"), rest_type({"L": "fp32", "*": "bf16"}), rest_type({"Q": "bf16"})
    ('bf16', 'bf16', 'fp32')
    """
    return dtype if isinstance(dtype, str) else dtype.get(REST, "fp32")


def element_types(diagram: Diagram, dtype: str | Mapping[str, str]) -> dict[str, str]:
    """The hardware type of each input and result, by name; `dtype` is as in `catdiag.cost.traffic.io`.

    Integers and truth values are as `catdiag.schedule.element_widths.stored_type` has them. An array of real numbers
    that is not named has the type of the rest (`rest_type`), but:

    - a result has fp16 where the rest has fp8;
    - a statistic (`catdiag.schedule.full_precision`) that is given beside other results, such as the log-sum-exp of
      rows beside their softmax, has fp32 or a wider type: its error would be that of all that is computed from it.

    >>> import catdiag as cd
    >>> shifted = cd.algorithm("q x -> q x, q")(lambda S: (S - cd.max(S, "x"), cd.max(S, "x")))
    >>> element_types(shifted.diagram, "bf16")
    {'S': 'bf16', 'out0': 'bf16', 'out1': 'fp32'}
    >>> element_types(shifted.diagram, {"out1": "bf16", "*": "fp8"})
    {'S': 'fp8', 'out0': 'fp16', 'out1': 'bf16'}
    """
    named: Mapping[str, str] = {} if isinstance(dtype, str) else dtype
    rest = rest_type(dtype)
    inputs = zip(diagram.input_names, diagram.dom, strict=True)
    found = {name: stored_type(name, ty, named, rest) for name, ty in inputs}
    graph = inline(diagram).graph
    root = view_roots(graph)
    real = {root[w] for w, ty in zip(graph.outputs, diagram.cod, strict=True) if is_real(ty)}
    known = statistics(graph) if len(real) > 1 else frozenset[int]()
    for name, w, ty in zip(output_names(diagram), graph.outputs, diagram.cod, strict=True):
        wide = root[w] in known and not known >= real
        found[name] = stored_type(name, ty, named, widest_of(("fp32", rest)) if wide else result_type(rest))
    return found


def output_bytes(
    diagram: Diagram,
    dtype: str | Mapping[str, str],
    sizes: Mapping[str, int],
    results: Sequence[bool] = (),
) -> tuple[int, ...]:
    """What the outputs of a diagram take in slow memory, in `dtype`, or theirs by name; what a cast makes is saved in
    the type that it says, but for those that are results.

    >>> import catdiag as cd
    >>> output_bytes(cd.library.get("matmul"), "bf16", {"a": 8, "b": 8, "c": 4})
    (64,)
    >>> output_bytes(cd.algorithm("a")(lambda A: cd.cast(A, "fp32")), "bf16", {"a": 8}, [False])
    (32,)
    """
    types, names = element_types(diagram, dtype), output_names(diagram)
    made = {w: node.box.op for wires, node in diagram.graph.wired() for w in wires}
    found: list[int] = []
    for place, ty in enumerate(diagram.cod):
        number = element_bytes(types[names[place]])
        op = made.get(diagram.graph.outputs[place])
        if place < len(results) and not results[place] and op is not None and (cast := cast_dtype(op)):
            number = BYTES[cast]
        for axis in ty.axes:
            number *= size_value(axis.size, sizes)
        found.append(number)
    return tuple(found)
