"""What ONNX's loops and recurrent layers mean in named axes: their iterations, one after the other.

Their number is a constant, or a length of the example, which is fixed then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from catdiag.frontend import elementwise
from catdiag.importers.imported_values import ArrayValue
from catdiag.importers.onnx_arrays import aten
from catdiag.importers.onnx_values import KnownArray, OnnxOperand, as_array, integers_of, known_array, operands
from catdiag.importers.program_builder import ProgramBuilder
from catdiag.importers.torch_calls import AtenCall, Rule, Unsupported, adding

RULES: dict[str, Rule] = {}
rule = adding(RULES)
Body = Callable[[Any, Sequence[OnnxOperand]], list[OnnxOperand]]
"""From the graph of a body and its inputs to its results."""
_MOST = 256
"""Iterations that are written one after the other."""


def _each(b: ProgramBuilder, value: ArrayValue, axis: int, what: str) -> list[ArrayValue]:
    """The parts of an array along an axis, whose length is fixed then."""
    count = b.length(value.dims[axis])
    if count > _MOST:
        raise Unsupported(f"{what} over {count} elements: expected {_MOST} at most")
    if b.is_traced(value.dims[axis]):
        raise Unsupported(f"{what} over a length that the trace computes")
    for factor in b.factors.resolve(value.dims[axis]):
        b.factors.fix(factor.extent)
    b.notes.append(f"{what} is read as {count} iterations: the length is fixed{b.at}")
    return [b.selected(value, axis, k) for k in range(count)]


def _stacked(b: ProgramBuilder, parts: Sequence[OnnxOperand], axis: int = 0) -> ArrayValue:
    return b.stacked([as_array(b, v) for v in parts], axis)


def loop(
    b: ProgramBuilder, attributes: Mapping[str, Any], given: Sequence[OnnxOperand], body: Body
) -> list[OnnxOperand]:
    """The results of Loop: what is carried, then the arrays that iterations collect."""
    count, going, *carried = given
    graph = attributes["body"]
    if not isinstance(count, KnownArray) or not (going is None or isinstance(going, KnownArray)):
        raise Unsupported("Loop whose number of iterations depends on values: expected a constant")
    times = integers_of(count, "the iterations of Loop")[0]
    if times > _MOST:
        raise Unsupported(f"Loop of {times} iterations: expected {_MOST} at most")
    collected: list[list[OnnxOperand]] = [[] for _ in range(len(graph.output) - 1 - len(carried))]
    state: list[OnnxOperand] = list(carried)
    go: OnnxOperand = going or known_array([True], ())
    for k in range(times):
        if not isinstance(go, KnownArray):
            raise Unsupported("Loop that ends by values: expected a condition that is constant")
        if not go.numbers()[0]:
            break
        go, *found = body(graph, [known_array([k], ()), go, *state])
        state = found[: len(carried)]
        for parts, part in zip(collected, found[len(carried) :], strict=True):
            parts.append(part)
    if any(not parts for parts in collected):
        raise Unsupported("Loop of no iteration that collects arrays")
    return [*state, *(_stacked(b, parts) for parts in collected)]


def scan(
    b: ProgramBuilder, attributes: Mapping[str, Any], given: Sequence[OnnxOperand], body: Body
) -> list[OnnxOperand]:
    """The results of Scan: what is carried, then the arrays that iterations collect."""
    read = attributes["num_scan_inputs"]
    graph, state, sources = attributes["body"], list(given[:-read]), [as_array(b, v) for v in given[-read:]]
    if any(attributes.get(name) for name in ("scan_input_directions", "scan_output_directions")):
        raise Unsupported("Scan backwards")
    axes = [attributes.get("scan_input_axes", [0] * read)[k] % len(s.dims) for k, s in enumerate(sources)]
    rows = [_each(b, source, axis, "Scan") for source, axis in zip(sources, axes, strict=True)]
    carried = len(state)
    collected: list[list[OnnxOperand]] = [[] for _ in range(len(graph.output) - carried)]
    for parts in zip(*rows, strict=True):
        found = body(graph, [*state, *parts])
        state = found[:carried]
        for collection, part in zip(collected, found[carried:], strict=True):
            collection.append(part)
    places = attributes.get("scan_output_axes", [0] * len(collected))
    return [*state, *(_stacked(b, parts, axis) for parts, axis in zip(collected, places, strict=True))]


# -- recurrent layers -------------------------------------------------------------------------------------

Step = Callable[[ProgramBuilder, "_Cell", ArrayValue, "list[ArrayValue]"], "list[ArrayValue]"]
"""From the weights of a cell, an element of the sequence and the state to the next state."""


class _Cell:
    """The weights of one direction of a recurrent layer: of inputs and of states, gate by gate, [outputs, inputs]."""

    def __init__(self, b: ProgramBuilder, weights: Sequence[ArrayValue | None], gates: int, before: bool) -> None:
        of_inputs, of_states, bias = weights
        assert of_inputs is not None and of_states is not None
        self.before = before
        self.inputs, self.states = (self._gates(b, w, gates) for w in (of_inputs, of_states))
        self.biases = [None] * (2 * gates) if bias is None else self._gates(b, bias, 2 * gates)

    @staticmethod
    def _gates(b: ProgramBuilder, value: ArrayValue, count: int) -> list[Any]:
        each, rest = b.factors.regroup(value.dims[0], [count, b.length(value.dims[0]) // count])
        split = b.view(value, [each, rest, *value.dims[1:]])
        return [b.selected(split, 0, k) for k in range(count)]

    def of_input(self, b: ProgramBuilder, k: int, x: ArrayValue) -> ArrayValue:
        """What gate k gets of an element of the sequence."""
        return aten(b, "linear", input=x, weight=self.inputs[k], bias=self.biases[k])  # type: ignore[no-any-return]

    def of_state(self, b: ProgramBuilder, k: int, h: ArrayValue) -> ArrayValue:
        """What gate k gets of the state."""
        bias = self.biases[len(self.inputs) + k]
        return aten(b, "linear", input=h, weight=self.states[k], bias=bias)  # type: ignore[no-any-return]

    def gate(self, b: ProgramBuilder, k: int, x: ArrayValue, h: ArrayValue, function: Callable[[Any], Any]) -> Any:
        """Gate k: a function of the sum of both."""
        return b.pointwise([self.of_input(b, k, x), self.of_state(b, k, h)], lambda a, c: function(a + c))


def _rnn(b: ProgramBuilder, cell: _Cell, x: ArrayValue, state: list[ArrayValue]) -> list[ArrayValue]:
    return [cell.gate(b, 0, x, state[0], elementwise.tanh)]


def _gru(b: ProgramBuilder, cell: _Cell, x: ArrayValue, state: list[ArrayValue]) -> list[ArrayValue]:
    (h,) = state
    update, reset = (cell.gate(b, k, x, h, elementwise.sigmoid) for k in (0, 1))
    if cell.before:  # the linear function comes before the reset
        inner = b.pointwise([reset, cell.of_state(b, 2, h)], lambda r, a: r * a)
    else:
        inner = cell.of_state(b, 2, b.pointwise([reset, h], lambda r, a: r * a))
    new = b.pointwise([cell.of_input(b, 2, x), inner], lambda a, c: elementwise.tanh(a + c))
    return [b.pointwise([update, new, h], lambda z, n, a: (1 - z) * n + z * a)]


def _lstm(b: ProgramBuilder, cell: _Cell, x: ArrayValue, state: list[ArrayValue]) -> list[ArrayValue]:
    h, c = state
    into, out, forget = (cell.gate(b, k, x, h, elementwise.sigmoid) for k in (0, 1, 2))
    new = cell.gate(b, 3, x, h, elementwise.tanh)
    cell_state = b.pointwise([forget, c, into, new], lambda f, old, i, n: f * old + i * n)
    return [b.pointwise([out, cell_state], lambda o, a: o * elementwise.tanh(a)), cell_state]


_CELLS: dict[str, tuple[int, Step, list[str]]] = {
    "RNN": (1, _rnn, ["Tanh"]), "GRU": (3, _gru, ["Sigmoid", "Tanh"]), "LSTM": (4, _lstm, ["Sigmoid", "Tanh", "Tanh"]),
}  # fmt: skip
"""The gates of a recurrent layer, a step of it, and its functions."""


@rule(*_CELLS)
def _recurrent(b: ProgramBuilder, call: AtenCall) -> Any:
    gates, step, functions = _CELLS[call.name]
    given = operands(call, 8)
    ways = call.get("direction", "forward")
    count = 2 if ways == "bidirectional" else 1
    others = [name for name in ("clip", "layout", "input_forget") if call.get(name)]
    if given[4] is not None or given[7] is not None or others:
        raise Unsupported(f"{call.name} with sequence_lens, peepholes, {' or '.join(others or ['clip'])}")
    if [str(f) for f in call.get("activations") or functions * count] != functions * count:
        raise Unsupported(f"{call.name} with activations {call['activations']}: expected {functions}")
    rows = _each(b, as_array(b, given[0]), 0, call.name)
    sequences, ends = [], []
    for d in range(count):
        weights = [None if v is None else b.selected(as_array(b, v), 0, d) for v in given[1:4]]
        cell = _Cell(b, weights, gates, bool(call.get("linear_before_reset")))
        state = [_start(b, v, d, rows[0], cell) for v in given[5 : 7 if call.name == "LSTM" else 6]]
        back, made = ways == "reverse" or d == 1, []
        for x in rows[::-1] if back else rows:
            state = step(b, cell, x, state)
            made.append(state[0])
        sequences.append(b.stacked(made[::-1] if back else made, 0))
        ends.append(state)
    results = [b.stacked(sequences, 1), *(b.stacked([e[k] for e in ends], 0) for k in range(len(ends[0])))]
    return tuple(results[: len(call.shapes)]) if len(call.shapes) > 1 else results[0]


def _start(b: ProgramBuilder, given: OnnxOperand, d: int, x: ArrayValue, cell: _Cell) -> ArrayValue:
    """The state that a direction starts with: zeros, if none is given. [batch, outputs]"""
    if given is not None:
        return b.selected(as_array(b, given), 0, d)
    zeros = cell.of_input(b, 0, x)
    return b.constant(0.0, b.shape(zeros), "real")
