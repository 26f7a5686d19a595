"""Core programs, and what they mean: for each output the term that it is at every index.

A core program is plain data:

    {"inputs": [{"name": "K", "axes": [["x", "x"], ["d", 64]], "element": "real"}, …],
     "nodes": [{"op": "map", "fn": "exp", "args": [0]}, …],
     "outputs": [[wire, "real"], …]}

Wires are numbered: inputs first, then the outputs of each node. Axes are known by name, so weaving needs no
words here: the meaning of a wire is a term over the free indices named by its axes. A size is a natural number,
a symbol, `["+", s, t]` or `["*", s, t]`. Nodes:

    map      fn, args                    a scalar function over the union of the axes
    reduce   monoid, axis, args          sum, prod, max, min, any, all
    view     args, axes, reads           arrays read at index arithmetic, see `view`
    index    axis                        the position along an axis
    size     size                        a size as a number
    const    value                       "p/q" or "-inf"
    fold     axis, block, args, unit, step, merge, state      means `state`, where list induction holds
    group    tiles, args, body           means `body` on whole axes, where the body is weaved over them

The last two mean what is said only if their premises hold; `accept` is asked (it raises if they do not). Of a view
it takes what must be in range.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from catdiag.kernel.terms import (
    BOT,
    LARGEST,
    LOGICAL,
    MINUS,
    ONE,
    RANDOM,
    TRUE,
    ZERO,
    KernelError,
    Term,
    add,
    big,
    close_body,
    fixed,
    fn,
    idx,
    maximum,
    mul,
    num,
    read,
    size_term,
    sub,
    substitute,
)

Program = Mapping[str, Any]
Sizes = Mapping[str, Term]
Axes = tuple[tuple[str, Term], ...]


@dataclass(frozen=True)
class Wire:
    """What a wire carries: a term over the indices of its axes, and an element type."""

    term: Term
    axes: Axes
    element: str = "real"


Accept = Callable[[Mapping[str, Any], Sequence[Wire], Sizes], None]
"""Asked of each view, fold or group, its inputs and the local sizes; raises where it does not mean what is said."""

Duty = tuple[tuple[Term, ...], Term, Term]
"""Of a read: under which conditions which index must be below which size, and natural."""


def numeric(t: Term) -> Term:
    """A truth value as 0 or 1; other terms unchanged."""
    return fn("ite", t, ONE, ZERO) if t.op in LOGICAL else t


def logical(t: Term) -> Term:
    """A number as a truth value (whether it is not 0); truth values unchanged."""
    return t if t.op in LOGICAL else fn("not", fn("eq", t, ZERO))


def _neg(t: Term) -> Term:
    return mul(MINUS, t)


def _floor(a: Term) -> Term:
    return fn("div", a, ONE)


def _round(a: Term) -> Term:
    """The nearest integer, of two the even one: ⌊a + 1/2⌋, less 1 where that is odd and a + 1/2 itself."""
    above = add(a, num(Fraction(1, 2)))
    nearest = _floor(above)
    odd = fn("not", fn("eq", mul(num(2), fn("div", nearest, num(2))), nearest))
    return fn("ite", fn("and", fn("eq", nearest, above), odd), sub(nearest, ONE), nearest)


# The meaning of each scalar function on numbers. `tanh x = 1 − 2/(e^{2x} + 1)`, `sigmoid x = 1/(1 + e^{−x})`.
_SCALARS: dict[str, Callable[..., Term]] = {
    "add": add,
    "sub": sub,
    "mul": mul,
    "div": lambda a, b: mul(a, fn("inv", b)),
    "floordiv": lambda a, b: fn("div", a, b),
    "neg": _neg,
    "exp": lambda a: fn("exp", a),
    "log": lambda a: fn("log", a),
    "sqrt": lambda a: fn("sqrt", a),
    "tanh": lambda a: add(ONE, mul(num(-2), fn("inv", add(fn("exp", mul(num(2), a)), ONE)))),
    "sigmoid": lambda a: fn("inv", add(ONE, fn("exp", _neg(a)))),
    "abs": lambda a: maximum(a, _neg(a)),
    "max": maximum,
    "min": lambda a, b: _neg(maximum(_neg(a), _neg(b))),
    "eq": lambda a, b: fn("eq", a, b),
    "ne": lambda a, b: fn("not", fn("eq", a, b)),
    "lt": lambda a, b: fn("lt", a, b),
    "le": lambda a, b: fn("le", a, b),
    "erf": lambda a: fixed("erf", a),
    "sin": lambda a: fixed("sin", a),
    "cos": lambda a: fixed("cos", a),
    "uniform": lambda *args: Term("apply", "%" + RANDOM, args),
    "sign": lambda a: fn("ite", fn("lt", ZERO, a), ONE, fn("ite", fn("lt", a, ZERO), MINUS, ZERO)),
    "floor": _floor,
    "ceil": lambda a: _neg(_floor(_neg(a))),
    "round": _round,
}
_CONNECTIVES = {"and", "or", "not"}
_ARITY = dict.fromkeys(("add", "sub", "mul", "div", "floordiv", "max", "min", "eq", "ne", "lt", "le", "and", "or"), 2)
_ARITY["uniform"] = 5


def scalar(name: str, args: Sequence[Term]) -> Term:
    """The term of a scalar function on terms. Raises KernelError for an unknown one."""
    if name.startswith("apply:") and len(name) > 6:
        return Term("apply", name[6:], tuple(numeric(a) for a in args))
    if name == "where" and len(args) == 3:
        return fn("ite", logical(args[0]), numeric(args[1]), numeric(args[2]))
    if len(args) == _ARITY.get(name, 1) or (args and name in ("add", "mul")):
        if name in _CONNECTIVES:
            return fn(name, *(logical(a) for a in args))
        if name in _SCALARS:
            return _SCALARS[name](*(numeric(a) for a in args))
    raise KernelError(f"no scalar function {name!r} of {len(args)} arguments")


def reduction(monoid: str, n: Term, body: Term) -> Term:
    """⊕ over one index. `min` is −max(−t); `any t` says 0 < max [t], and `all t` says not any (not t)."""
    if monoid in ("sum", "prod", "max"):
        return big(monoid, n, numeric(body))
    if monoid == "min":
        return _neg(big("max", n, _neg(body)))
    if monoid == "any":
        return fn("lt", ZERO, big("max", n, numeric(logical(body))))
    if monoid == "all":
        return fn("not", fn("lt", ZERO, big("max", n, numeric(fn("not", logical(body))))))
    raise KernelError(f"no monoid {monoid!r}")


def _resolve(s: Any, sizes: Sizes) -> Term:
    return substitute(size_term(s), {("size", k): v for k, v in sizes.items()})


def axes_of(pairs: Any, sizes: Sizes) -> Axes:
    """Axes given as [name, size] pairs, with the local sizes put in."""
    found = tuple((str(name), _resolve(s, sizes)) for name, s in pairs)
    if len({name for name, _ in found}) != len(found):
        raise KernelError(f"an axis occurs twice in {[n for n, _ in found]}")
    return found


def _union(wires: Sequence[Wire]) -> Axes:
    found: dict[str, Term] = {}
    for wire in wires:
        for name, n in wire.axes:
            if found.setdefault(name, n) != n:
                raise KernelError(f"axis {name!r} has sizes {found[name]} and {n}")
    return tuple(found.items())


def evaluate(program: Program, args: Sequence[Wire], sizes: Sizes, accept: Accept) -> list[Wire]:
    """The outputs of a program on given wires, with its local sizes as given.

    Raises KernelError where the program is ill-formed, or where `accept` refuses a fold or group in it.
    """
    inputs = program["inputs"]
    if len(inputs) != len(args):
        raise KernelError(f"the program has {len(inputs)} inputs, {len(args)} were given")
    wires: list[Wire] = []
    for declared, wire in zip(inputs, args, strict=True):
        axes = axes_of(declared["axes"], sizes)
        if dict(axes) != dict(wire.axes):
            raise KernelError(f"input {declared['name']} has axes {axes}, not {wire.axes}")
        if (declared["element"] == "bool") != (wire.term.op in LOGICAL):
            if declared["element"] == "bool":
                raise KernelError(f"input {declared['name']} takes truth values, not {wire.term}")
            wire = Wire(numeric(wire.term), axes)
        wires.append(Wire(wire.term, axes, wire.element))
    for node in program["nodes"]:
        given = [wires[_wire(w, len(wires))] for w in node.get("args", ())]
        made = _node(node, given, sizes, accept)
        if any(w.term.weight > LARGEST for w in made):
            raise KernelError("the program's terms are too large")
        wires.extend(made)
    outputs = []
    for w, element in program["outputs"]:
        wire = wires[_wire(w, len(wires))]
        outputs.append(Wire(wire.term, wire.axes, str(element)))
    return outputs


def _wire(w: Any, count: int) -> int:
    if not isinstance(w, int) or isinstance(w, bool) or not 0 <= w < count:
        raise KernelError(f"no wire {w!r}")
    return w


def _node(node: Mapping[str, Any], args: Sequence[Wire], sizes: Sizes, accept: Accept) -> list[Wire]:
    op = node["op"]
    if op == "map":
        return [Wire(scalar(node["fn"], [a.term for a in args]), _union(args))]
    if op == "reduce":
        (array,) = args
        axis = node["axis"]
        n = dict(array.axes).get(axis)
        if n is None:
            raise KernelError(f"nothing to reduce over axis {axis!r}")
        term = reduction(node["monoid"], n, close_body(array.term, axis))
        return [Wire(term, tuple(p for p in array.axes if p[0] != axis))]
    if op == "view":
        accept(node, args, sizes)
        return [view(node, args, sizes)[0]]
    if op == "index":
        (axis,) = axes_of([node["axis"]], sizes)
        return [Wire(idx(axis[0]), (axis,))]
    if op == "size":
        return [Wire(_resolve(node["size"], sizes), ())]
    if op == "const":
        value = node["value"]
        return [Wire(BOT if value == "-inf" else num(Fraction(value)), ())]
    if op == "fold":
        accept(node, args, sizes)
        n = fold_length(node, args)
        return evaluate(node["state"], args, {**sizes, node["block"]: n}, accept)
    if op == "group":
        accept(node, args, sizes)
        return evaluate(node["body"], args, {**sizes, **group_sizes(node, args)}, accept)
    raise KernelError(f"no box {op!r}")


def view(node: Mapping[str, Any], args: Sequence[Wire], sizes: Sizes) -> tuple[Wire, list[Duty]]:
    """What a view gives at the indices of `axes`, and what its reads need to be in range.

    The k-th of `reads` is for the k-th of the arrays: `at` gives expressions for some of its axes, the others are
    axes of the result; it is taken where its conditions `where` hold and those of the reads before it do not, and the
    last one everywhere else. Arrays beyond the reads are index arrays that expressions may mention. An expression is
    an integer, a size, `["i", axis]`, `["w", number of an array]`, `["+", e, e]`, `["*", e, e]` or `["//", e, e]`.
    """
    axes = axes_of(node["axes"], sizes)
    given, reads = dict(axes), node["reads"]

    def expression(e: Any) -> Term:
        if type(e) is int:
            return num(e)
        if isinstance(e, str):
            return _resolve(e, sizes)
        op, *parts = e
        if op == "i":
            if parts[0] not in given:
                raise KernelError(f"the view has no axis {parts[0]!r}")
            return idx(parts[0])
        if op == "w":
            if not len(reads) <= parts[0] < len(args) or not set(args[parts[0]].axes) <= set(axes):
                raise KernelError(f"a view has no index array {parts[0]} along {axes}")
            return numeric(args[parts[0]].term)
        x, y = map(expression, parts)
        return {"+": add, "*": mul, "//": lambda x, y: fn("div", x, y)}[op](x, y)

    if not 0 < len(reads) <= len(args) or reads[-1]["where"]:
        raise KernelError(f"a view of {len(args)} arrays with {len(reads)} reads, or with a last one not everywhere")
    taken: list[tuple[Term, Term]] = []
    duties: list[Duty] = []
    before: tuple[Term, ...] = ()
    for wire, read_ in zip(args, reads, strict=False):
        own, at = dict(wire.axes), {name: expression(e) for name, e in read_["at"].items()}
        if not set(at) <= set(own) or any(given.get(name) != n for name, n in own.items() if name not in at):
            raise KernelError(f"a view of axes {wire.axes} at {sorted(at)} does not give {axes}")
        where = [fn(op, expression(x), expression(y)) for op, x, y in read_["where"]]
        duties += [
            ((*before, *where), t, own[name])
            for name, t in at.items()
            if t != idx(name) or given.get(name) != own[name]
        ]
        here = fn("and", *where) if len(where) > 1 else where[0] if where else TRUE
        taken.append((here, substitute(wire.term, {("idx", name): t for name, t in at.items()})))
        before = (*before, fn("not", here))
    truths = all(t.op in LOGICAL for _, t in taken)
    term = taken[-1][1] if truths or len(taken) == 1 else numeric(taken[-1][1])
    for here, t in reversed(taken[:-1]):
        if truths:
            term = fn("or", fn("and", here, t), fn("and", fn("not", here), term))
        else:
            term = fn("ite", here, numeric(t), term)
    return Wire(term, axes, args[0].element if len(reads) == 1 else "real"), duties


def fold_length(node: Mapping[str, Any], args: Sequence[Wire]) -> Term:
    """The size of the streamed axis. At least one input must have it, and all that do must agree."""
    found = {n for a in args for name, n in a.axes if name == node["axis"]}
    if len(found) != 1:
        raise KernelError(f"the inputs of a fold over {node['axis']!r} give it {len(found)} sizes")
    return found.pop()


def group_sizes(node: Mapping[str, Any], args: Sequence[Wire]) -> dict[str, Term]:
    """The local sizes of a group's tiles when each tile is the whole axis."""
    result: dict[str, Term] = {}
    for axis, local in node["tiles"]:
        found = {n for a in args for name, n in a.axes if name == axis}
        if len(found) != 1:
            raise KernelError(f"the inputs of a group over {axis!r} give it {len(found)} sizes")
        result[local] = found.pop()
    return result


def inputs_of(program: Program, sizes: Sizes, prefix: str = "") -> list[Wire]:
    """The inputs of a program as reads of arrays of their own, at the indices of their axes."""
    found = []
    for declared in program["inputs"]:
        axes = axes_of(declared["axes"], sizes)
        term = read(prefix + str(declared["name"]), *(idx(name) for name, _ in axes))
        if declared["element"] == "bool":
            term = Term("holds", term.data, term.args)
        found.append(Wire(term, axes, str(declared["element"])))
    return found
