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
    einsum   args, axes                  Σ over the axes not named, of the product
    rename   args, pairs, axes           new names; the result has exactly `axes` (new ones are repeated along)
    reindex  kind, args, axis, parts, place, axes    see `_reindex`; `axes` is the order of the result's axes
    index    axis                        the position along an axis
    size     size                        a size as a number
    const    value                       "p/q" or "-inf"
    fold     axis, block, args, unit, step, merge, state      means `state`, where list induction holds
    group    tiles, args, body           means `body` on whole axes, where the body is weaved over them

The last two mean what is said only if their premises hold; `accept` is asked (it raises if they do not).
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
    ZERO,
    KernelError,
    Term,
    add,
    big,
    close_body,
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
"""Asked of each fold or group, its inputs and the local sizes; raises where it does not mean what is said above."""


def numeric(t: Term) -> Term:
    """A truth value as 0 or 1; other terms as they are."""
    return fn("ite", t, ONE, ZERO) if t.op in LOGICAL else t


def logical(t: Term) -> Term:
    """A number as a truth value (not zero); truth values as they are."""
    return t if t.op in LOGICAL else fn("not", fn("eq", t, ZERO))


def _neg(t: Term) -> Term:
    return mul(MINUS, t)


# The meaning of each scalar function on numbers. `tanh x = 1 − 2/(e^{2x} + 1)`, `sigmoid x = 1/(1 + e^{−x})`.
_SCALARS: dict[str, Callable[..., Term]] = {
    "add": add,
    "sub": sub,
    "mul": mul,
    "div": lambda a, b: mul(a, fn("inv", b)),
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
}
_CONNECTIVES = {"and", "or", "not"}
_ARITY = dict.fromkeys(("add", "sub", "mul", "div", "max", "min", "eq", "ne", "lt", "le", "and", "or"), 2)


def scalar(name: str, args: Sequence[Term]) -> Term:
    """The term of a scalar function on terms. Raises KernelError for an unknown one."""
    if name.startswith("apply:") and len(name) > 6:
        return Term("apply", name[6:], tuple(numeric(a) for a in args))
    if name == "where" and len(args) == 3:
        return fn("ite", logical(args[0]), numeric(args[1]), numeric(args[2]))
    if len(args) == _ARITY.get(name, 1):
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
    if op == "einsum":
        axes = dict(_union(args))
        term = mul(*(numeric(a.term) for a in args))
        for name, n in reversed(axes.items()):
            if name not in node["axes"]:
                term = big("sum", n, close_body(term, name))
        return [Wire(term, tuple((name, axes[name]) for name in node["axes"]))]
    if op == "rename":
        (array,) = args
        pairs = dict(node["pairs"])
        old = dict(array.axes)
        kept = {pairs.get(name, name): n for name, n in array.axes}
        result = axes_of(node["axes"], sizes)
        if not set(pairs) <= set(old) or len(kept) != len(old):
            raise KernelError(f"cannot rename {pairs} on axes {list(old)}")
        if any(dict(result).get(name) != n for name, n in kept.items()):
            raise KernelError(f"axes {kept} do not become {result}")
        return [Wire(substitute(array.term, {("idx", o): idx(n) for o, n in pairs.items()}), result, array.element)]
    if op == "reindex":
        return [_reindex(node, args, sizes)]
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


def _reindex(node: Mapping[str, Any], args: Sequence[Wire], sizes: Sizes) -> Wire:
    """Between an axis of size n and parts of sizes n₁, n₂, …: n is their product, or for the last two kinds their sum.

    split: an array over the axis, at i = (i₁·n₂ + i₂)·n₃ + …; merge: an array over the parts, at iₖ = a mod nₖ with
    a = ⌊i/nₖ₊₁/…⌋, written as a − nₖ·⌊a/nₖ⌋; slice: an array over the axis, at n₁ + … + i, i an index of part number
    `place`; concat: arrays, each over its part, at i the one in whose part i lies.
    """
    kind, place = node["kind"], node["place"]
    ((name, n),) = axes_of([node["axis"]], sizes)
    parts = [(str(p), _resolve(s, sizes)) for p, s in node["parts"]]
    if kind not in ("split", "merge", "slice", "concat") or place >= len(parts) or (place and kind != "slice"):
        raise KernelError(f"no reindexing {kind!r} of part {place}")
    op = "mul" if kind in ("split", "merge") else "add"
    if _operands(op, n) != [f for _, s in parts for f in _operands(op, s)]:
        raise KernelError(f"axis {name!r} of size {n} does not have the parts {parts}")
    taken = [[(p, s)] for p, s in parts] if kind == "concat" else [parts] if kind == "merge" else [[(name, n)]]
    given = parts if kind == "split" else [parts[place]] if kind == "slice" else [(name, n)]
    if len(args) != len(taken):
        raise KernelError(f"{kind} does not take {len(args)} arrays")
    rest = []
    for wire, own in zip(args, taken, strict=True):
        if any(dict(wire.axes).get(p) != s for p, s in own) or len(dict(own)) != len(own):
            raise KernelError(f"axes {wire.axes} lack some of {own}")
        rest.append(Wire(wire.term, tuple(a for a in wire.axes if a[0] not in dict(own))))
    axes = (*given, *_union(rest))
    if len(dict(axes)) != len(axes) or sorted(dict(axes)) != sorted(node["axes"]):
        raise KernelError(f"{kind} gives the axes {axes}, not {node['axes']}")
    axes = tuple((a, dict(axes)[a]) for a in node["axes"])
    i: Term = idx(name)
    if kind == "split":
        i = idx(parts[0][0])
        for p, s in parts[1:]:
            i = add(mul(i, s), idx(p))
        return Wire(substitute(args[0].term, {("idx", name): i}), axes, args[0].element)
    if kind == "slice":
        i = add(*(s for _, s in parts[:place]), idx(parts[place][0]))
        return Wire(substitute(args[0].term, {("idx", name): i}), axes, args[0].element)
    if kind == "merge":
        digits: dict[tuple[str, Any], Term] = {}
        for p, s in reversed(parts[1:]):
            above = fn("div", i, s)
            digits["idx", p], i = sub(i, mul(s, above)), above
        digits["idx", parts[0][0]] = i
        return Wire(substitute(args[0].term, digits), axes, args[0].element)
    terms = []
    for k, (wire, (p, _)) in enumerate(zip(args, parts, strict=True)):
        terms.append(substitute(wire.term, {("idx", p): sub(i, add(*(s for _, s in parts[:k]))) if k else i}))
    truths = all(t.op in LOGICAL for t in terms)
    term = terms[-1] if truths else numeric(terms[-1])
    for k in reversed(range(len(parts) - 1)):
        here, t = fn("lt", i, add(*(s for _, s in parts[: k + 1]))), terms[k]
        if truths:
            term = fn("or", fn("and", here, t), fn("and", fn("not", here), term))
        else:
            term = fn("ite", here, numeric(t), term)
    return Wire(term, axes)


def _operands(op: str, t: Term) -> list[Term]:
    """The operands of nested sums or products, in order."""
    return [b for a in t.args for b in _operands(op, a)] if t.op == op else [t]


def fold_length(node: Mapping[str, Any], args: Sequence[Wire]) -> Term:
    """The size of the streamed axis, which at least one input must have, all the same."""
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
