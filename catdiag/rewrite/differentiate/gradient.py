"""Gradients of diagrams: which results are differentiated by which inputs, and how what comes out is called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from catdiag.category.diagram import Diagram, Graph, of_graph, reachable
from catdiag.category.types import ArrayType
from catdiag.rewrite.derivation import titled
from catdiag.rewrite.differentiate.box_derivatives import has_derivative
from catdiag.rewrite.differentiate.linear_maps import broadcast
from catdiag.rewrite.differentiate.passes import Linearization
from catdiag.rewrite.differentiate.redundant_maxima import RedundantMaximum, redundant_maxima
from catdiag.rewrite.graph_builder import GraphBuilder
from catdiag.rewrite.list_states import unrolled
from catdiag.solvers.z3 import Z3
from catdiag.util.errors import NotDifferentiable, SignatureError, TypeMismatch

Inputs: TypeAlias = "str | int | Sequence[str | int] | None"
Outputs: TypeAlias = "str | int | Sequence[int] | Mapping[str, int] | None"


@dataclass(frozen=True)
class Derivative:
    """A derivative of a diagram, as a diagram. `redundant` are the maxima that have no derivative in it, since it is
    proved that the result does not depend on them.
    """

    diagram: Diagram
    redundant: tuple[RedundantMaximum, ...] = ()


def gradient(diagram: Diagram, ask: Z3, of: Outputs = None, wrt: Inputs = None) -> Derivative:
    """The reverse derivative: inputs and cotangents of results to cotangents of inputs.

    See `catdiag.program.Program.grad`.
    """
    chosen, named = chosen_inputs(diagram, wrt), chosen_outputs(diagram, of)
    types = [ArrayType(diagram.cod[k].axes) for k in named.values()]
    made = Linearization(restricted(diagram, named.values()), types)
    found = redundant_maxima(made, chosen, ask)
    cotangents = made.reverse(range(len(diagram.dom), len(made.graph.dom)), chosen)
    names = further_names(diagram, [f"d{name}" for name in named])
    said = "" if wrt is None else repr(" ".join(diagram.input_names[k] for k in chosen))
    wires = list(zip(cotangents, [ArrayType(diagram.dom[k].axes) for k in chosen], strict=True))
    return Derivative(_diagram(made, wires, names, f"{_title(diagram)}.grad({said})"), tuple(found.values()))


def value_and_gradient(diagram: Diagram, ask: Z3, wrt: Inputs = None) -> Derivative:
    """The result, a single number, and its gradient. See `catdiag.program.Program.value_and_grad`. Raises
    NotDifferentiable where the result is no single number."""
    chosen = chosen_inputs(diagram, wrt)
    if len(diagram.cod) != 1 or diagram.cod[0].axes or not has_derivative(diagram.cod[0]):
        raise NotDifferentiable(
            f"{_title(diagram)} gives {diagram.cod}: expected one number [], the sum over the axes, say; "
            "program.grad(…) takes the cotangents of other results as inputs"
        )
    made = Linearization(unrolled(diagram), ())
    found = redundant_maxima(made, chosen, ask)
    cotangents = made.reverse([made.graph.const(1)], chosen)
    wires: list[tuple[int | None, ArrayType]] = [(made.outputs[0], diagram.cod[0])]
    wires += zip(cotangents, [ArrayType(diagram.dom[k].axes) for k in chosen], strict=True)
    said = "" if wrt is None else repr(" ".join(diagram.input_names[k] for k in chosen))
    title = f"{_title(diagram)}.value_and_grad({said})"
    return Derivative(_diagram(made, wires, diagram.input_names, title), tuple(found.values()))


def forward_derivative(diagram: Diagram, ask: Z3, wrt: Inputs = None) -> Derivative:
    """The forward derivative: inputs and their tangents to tangents of results. See `catdiag.program.Program.jvp`."""
    chosen, named = chosen_inputs(diagram, wrt), chosen_outputs(diagram, None)
    flat = restricted(diagram, named.values())
    made = Linearization(flat, [ArrayType(diagram.dom[k].axes) for k in chosen])
    found = redundant_maxima(made, chosen, ask)
    tangents = made.forward({k: len(diagram.dom) + place for place, k in enumerate(chosen)})
    names = further_names(diagram, [f"d{diagram.input_names[k]}" for k in chosen])
    said = "" if wrt is None else repr(" ".join(diagram.input_names[k] for k in chosen))
    wires = list(zip(tangents, [ArrayType(ty.axes) for ty in flat.cod], strict=True))
    return Derivative(_diagram(made, wires, names, f"{_title(diagram)}.jvp({said})"), tuple(found.values()))


def restricted(diagram: Diagram, outputs: Iterable[int]) -> Diagram:
    """The diagram without loops, groups and named boxes, and with some of its outputs."""
    flat = unrolled(diagram)
    graph = reachable(Graph(flat.dom, flat.graph.nodes, tuple(flat.graph.outputs[k] for k in outputs)))
    return of_graph(graph, None, flat.names, flat.title)


def _diagram(
    made: Linearization, wires: Sequence[tuple[int | None, ArrayType]], names: tuple[str, ...], title: str
) -> Diagram:
    """The diagram with these outputs, of these types; a wire that is None is 0 everywhere."""
    graph = made.graph
    builder = GraphBuilder(graph, graph.dom.arrays)
    env = {k: k for k in range(len(graph.dom))}
    outputs = []
    for wire, ty in wires:
        given = graph.const(0) if wire is None else wire
        outputs.append(builder.emit(graph.cast(broadcast(graph, given, ty.axes), ty), env, ty))
    return titled(builder.diagram(outputs, names), title)


def _title(diagram: Diagram) -> str:
    return diagram.title or "the program"


def further_names(diagram: Diagram, further: Sequence[str]) -> tuple[str, ...]:
    """The names of the inputs, and further ones, which get underscores where they are taken."""
    found = list(diagram.input_names)
    for name in further:
        while name in found:
            name += "_"
        found.append(name)
    return tuple(found)


def chosen_inputs(diagram: Diagram, wrt: Inputs) -> list[int]:
    """The numbers of the inputs to differentiate by: by default all that hold real numbers.

    Raises SignatureError for one that there is not, or twice, TypeMismatch for other than names or numbers,
    NotDifferentiable for inputs that hold no real numbers.
    """
    names = diagram.input_names
    if wrt is None:
        found = [k for k, ty in enumerate(diagram.dom) if has_derivative(ty)]
        if not found:
            raise NotDifferentiable(f"no input of {_title(diagram)} holds real numbers: it takes {diagram.dom}")
        return found
    given = wrt.replace(",", " ").split() if isinstance(wrt, str) else [wrt] if isinstance(wrt, int) else wrt
    if not isinstance(given, (list, tuple)) or not given:
        raise TypeMismatch(f"wrt is {wrt!r}: expected names of inputs, such as 'Q K', or their numbers")
    found = []
    for item in given:
        k = names.index(item) if item in names else item
        if not isinstance(k, int) or isinstance(k, bool) or not 0 <= k < len(names):
            raise SignatureError(f"wrt has {item!r}: expected some of the inputs {', '.join(names)}, or their numbers")
        if not has_derivative(diagram.dom[k]):
            kind = {"int": "integers", "bool": "truth values"}[diagram.dom[k].element]
            raise NotDifferentiable(
                f"input {names[k]} of {_title(diagram)} is {diagram.dom[k]}, of {kind}: expected an input of real "
                "numbers in wrt"
            )
        if k in found:
            raise SignatureError(f"wrt has input {names[k]} twice: expected each once")
        found.append(k)
    return found


def chosen_outputs(diagram: Diagram, of: Outputs) -> dict[str, int]:
    """The numbers of the results to differentiate, by the names of their cotangents without the `d`.

    Raises SignatureError for one that there is not, or twice, and for a name that is taken, TypeMismatch for other than
    names or numbers, NotDifferentiable for results that hold no real numbers.
    """
    count = len(diagram.cod)
    default = ["out"] if count == 1 else [f"out{k}" for k in range(count)]
    if of is None:
        found = {name: k for k, name in enumerate(default) if has_derivative(diagram.cod[k])}
        if not found:
            made, line = _made_by(diagram, 0)
            said = f"no result of {_title(diagram)} is of real numbers: it gives {diagram.cod}{made}"
            raise NotDifferentiable(said, line)
        return found
    if isinstance(of, str):
        names = of.replace(",", " ").split()
        if len(names) != count:
            raise SignatureError(
                f"of={of!r} names {len(names)} results and {_title(diagram)} has {count}: expected a name for each, "
                "or their numbers from 0"
            )
        pairs = list(zip(names, range(count), strict=True))
        taken = [name for name in names if name in diagram.input_names]
        if taken:
            raise SignatureError(
                f"of={of!r} gives a result the name of input {taken[0]}: expected another name; the inputs to "
                f"differentiate by are wrt={taken[0]!r}"
            )
    elif isinstance(of, Mapping):
        pairs = list(of.items())
    else:
        numbers = [of] if isinstance(of, int) else list(of) if isinstance(of, (list, tuple)) else []
        pairs = [(default[k] if type(k) is int and 0 <= k < count else str(k), k) for k in numbers]
    if not pairs:
        raise TypeMismatch(f"of is {of!r}: expected names for the results, such as 'O', or their numbers from 0")
    for name, k in pairs:
        if type(k) is not int or not 0 <= k < count:
            raise SignatureError(f"{_title(diagram)} has no result {k!r}: expected a number below {count}")
        if not name.isidentifier():
            raise SignatureError(f"a result is called {name!r}: expected an identifier, such as 'O'")
        _check_real(diagram, name, k)
    if len({k for _, k in pairs}) < len(pairs):
        raise SignatureError(f"of={of!r} has a result twice: expected each once")
    return dict(pairs)


def _check_real(diagram: Diagram, name: str, k: int) -> None:
    """Raises NotDifferentiable, naming the box and its line, unless a result holds real numbers."""
    if has_derivative(diagram.cod[k]):
        return
    made, line = _made_by(diagram, k)
    raise NotDifferentiable(
        f"result {name} of {_title(diagram)} is {diagram.cod[k]}{made}: integers and truth values have no derivative",
        line,
    )


def _made_by(diagram: Diagram, k: int) -> tuple[str, str | None]:
    """What makes a result, in words, and its line; nothing for an input."""
    graph = diagram.graph
    maker = graph.makers()[graph.outputs[k]] if graph.outputs else -1
    if maker < 0:
        return "", None
    return f", made by {graph.nodes[maker].box.name}", graph.nodes[maker].box.line
