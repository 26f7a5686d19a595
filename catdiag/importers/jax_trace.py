"""Reads a jaxpr, and gives the program that it is.

The function is traced twice (`jax.make_jaxpr`). The first trace, on the example's lengths, shows which dimensions are
one axis. The second has a symbol for the size of each axis (`jax.export.symbolic_shape`), so that numbers that the
function computes from lengths are functions of sizes. Where JAX cannot trace it so, or gets other operations, the
first trace is the program, and a note says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from inspect import signature
from typing import Any

from catdiag.frontend.tracing import running
from catdiag.importers import jax_arrays, jax_elementwise, jax_windows, jax_writes
from catdiag.importers.constant_folding import chosen, filled, folded, known
from catdiag.importers.dimensions import Extent
from catdiag.importers.example import Imported, NotImported, Original
from catdiag.importers.graph_reader import GraphReader, described, not_traced, title_of
from catdiag.importers.imported_values import ArrayValue, Environment, Operand, SizeNumber, at
from catdiag.importers.jax_runs import JaxRun
from catdiag.importers.jax_symbols import JaxCall, JaxSymbols, product_of_sizes, same_calls, same_values
from catdiag.importers.opaque_boxes import with_arrays
from catdiag.importers.program_builder import ProgramBuilder
from catdiag.importers.torch_calls import AtenCall, Rule
from catdiag.importers.traced_sizes import SizeSum, SymbolicLengths
from catdiag.util.errors import PACKAGE

RULES: Mapping[str, Rule] = {
    **jax_elementwise.RULES, **jax_arrays.RULES, **jax_windows.RULES, **jax_writes.RULES,
}  # fmt: skip
"""The rule of each primitive."""
_BODIES = ("jaxpr", "call_jaxpr", "fun_jaxpr")
_OPENED = (
    "jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "remat",
    "remat2", "checkpoint",
)  # fmt: skip
"""Primitives that call a jaxpr."""
_WHOLE = {"floor_divide": "floor_divide", "remainder": "remainder"}
"""Functions of jax.numpy that are one operation here, and many primitives."""
_MOST_STEPS, _MOST_SYMBOLS = 64, 16


def from_jax(
    function: Callable[..., Any],
    example: Sequence[Any],
    kwargs: Mapping[str, Any],
    names: Mapping[str, str],
    dynamic: bool | None = None,
    allow_opaque: bool = False,
) -> Imported:
    """The program of a function of arrays and trees of arrays. Raises NotImported, listing all that has no meaning
    here, and ImportError without JAX."""
    jax = _jax()
    if dynamic not in (None, True, False):
        raise NotImported(f"dynamic is {dynamic!r}: expected True, False, or None for symbols where JAX can trace them")
    if not callable(function):
        raise NotImported(f"cd.from_jax takes a function of arrays, not {described(function)}")
    inputs = _inputs(jax, function, example, kwargs)
    flat = _flat_function(jax, function, example, kwargs)
    title = title_of(function)
    closed = _traced(jax, flat, [i.abstract for i in inputs], title)
    reader = _JaxprReader(jax, ProgramBuilder(title), {}, allow_opaque=allow_opaque)
    reader.function = flat
    reader.read(closed, inputs)
    if dynamic is not False:
        found, left = _symbolic(jax, flat, reader, inputs)
        if dynamic and left:
            raise NotImported(f"{title} cannot be traced with symbols for all lengths: {left}")
        for one in filter(None, (found, reader)):
            one.builder.notes += [left] * bool(left)
        if found is not None:
            try:
                return found.built(found.named(names))
            except NotImported as error:
                if dynamic or "operation without meaning" not in error.message:
                    raise
                reader.builder.notes.append(f"numbers computed from lengths are of the example: {error.message}")
    return reader.built(reader.named(names))


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _jax() -> Any:
    try:
        jax = import_module("jax")
        import_module("jax.export")
        import_module("jax.extend.core")
        return jax
    except ImportError as error:
        raise ImportError("cd.from_jax needs JAX: pip install 'catdiag[jax]'") from error


@dataclass(frozen=True)
class _Input:
    """An array of the example: where it is in the arguments, what its input is called, and its shape and type."""

    name: str
    array: Any
    abstract: Any


def _inputs(jax: Any, function: Callable[..., Any], example: Sequence[Any], kwargs: Mapping[str, Any]) -> list[_Input]:
    """The arrays of the arguments, with names: that of the parameter, then the keys in its tree."""
    found = []
    parameters = _parameter_names(function, len(example))
    for name, argument in [*zip(parameters, example, strict=True), *kwargs.items()]:
        for path, leaf in jax.tree_util.tree_flatten_with_path(argument)[0]:
            keys = [str(getattr(k, "key", getattr(k, "name", getattr(k, "idx", k)))) for k in path]
            try:
                abstract = jax.typeof(leaf)
            except TypeError as error:
                raise NotImported(
                    f"{title_of(function)}: the argument {'.'.join([name, *keys])} is {described(leaf)}, and no array "
                    "of JAX or NumPy: pass a.numpy() of a tensor, and bind what is no array with functools.partial"
                ) from error
            found.append(_Input(".".join([name, *keys]), leaf, jax.ShapeDtypeStruct(abstract.shape, abstract.dtype)))
    return found


def _parameter_names(function: Callable[..., Any], number: int) -> list[str]:
    try:
        parameters = list(signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][:number]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "array")
    return named + [f"{rest}{k}" for k in range(number - len(named))]


def _flat_function(
    jax: Any, function: Callable[..., Any], example: Sequence[Any], kwargs: Mapping[str, Any]
) -> Callable[..., Any]:
    """The function of the leaves of the arguments."""
    tree = jax.tree_util.tree_structure((tuple(example), dict(kwargs)))

    def flat(*leaves: Any) -> Any:
        arguments, options = jax.tree_util.tree_unflatten(tree, leaves)
        return function(*arguments, **options)

    return flat


_ADVICE = {
    "TracerBool": "The program cannot choose by values: compute both cases, and choose with jnp.where",
    "NonConcrete": "A result whose length depends on values has no meaning here: choose with jnp.where",
    "TracerInteger": "A number that says how often or how long is no array: bind it with functools.partial",
    "Concretization": "A number of an array has no value while it is traced: keep it as an array of no dimensions",
    "TracerArray": "Functions of NumPy are not traced: write it with jax.numpy",
    "": "Try whether it runs under jax.jit on the example; what is no array is bound with functools.partial",
}
"""What to do, by what an error of JAX says."""


def _traced(jax: Any, flat: Callable[..., Any], abstract: Sequence[Any], title: str) -> Any:
    try:
        return jax.make_jaxpr(flat)(*abstract)
    except Exception as error:  # of many kinds, the user's among them
        raise not_traced(title, "jax.make_jaxpr could not trace", error, abstract, _ADVICE) from error


# -- the second trace ---------------------------------------------------------------------------------------


def _symbolic(
    jax: Any, flat: Callable[..., Any], reader: _JaxprReader, inputs: Sequence[_Input]
) -> tuple[_JaxprReader | None, str]:
    """The function read with symbols for lengths: for all, or for as many as JAX can trace it with, one after the
    other; and what is left."""
    values = [value for _, value in reader.builder.inputs][: len(inputs)]
    symbols, resolve = JaxSymbols(jax), reader.builder.factors.resolve
    layouts = [[[symbols.mirrored(f.extent, len(resolve(d)) == 1) for f in resolve(d)] for d in v.dims] for v in values]

    def read(chosen: Sequence[str]) -> _JaxprReader:
        shapes = [tuple(product_of_sizes(symbols.size(e, chosen) for e in d) for d in dims) for dims in layouts]
        abstract = [jax.ShapeDtypeStruct(s, i.abstract.dtype) for s, i in zip(shapes, inputs, strict=True)]
        # Factors are split where operations meet: each reader has its own.
        named, copies = symbols.copied(layouts)
        for name in chosen:
            named[name].traced = True
        second = _JaxprReader(jax, ProgramBuilder(reader.builder.title), named, copies, reader.allow_opaque)
        second.function = flat
        second.read(jax.make_jaxpr(flat)(*abstract), inputs)
        if not same_calls(reader.calls, second.calls) and not same_values(
            jax, flat, abstract, [i.array for i in inputs]
        ):
            raise NotImported("with symbols for them it does other operations")
        return second

    try:
        return (read(list(symbols.named)) if symbols.named else None), ""
    except Exception as error:  # of many kinds
        reason = _first_line(error)
    found: _JaxprReader | None = None
    chosen: list[str] = []
    for name in list(symbols.named)[:_MOST_SYMBOLS]:
        with suppress(Exception):
            found = read([*chosen, name])
            chosen.append(name)
    fixed = ", ".join(str(extent.length) for name, extent in symbols.named.items() if name not in chosen)
    return found, (
        f"numbers that the function computes from the lengths of axes as long as {fixed} are those of the "
        f"example: {reason}"
    )


def _live(jaxpr: Any) -> list[Any]:
    """The equations of which some result is needed, in order."""
    needed, found = {id(v) for v in jaxpr.outvars}, []
    for eqn in reversed(jaxpr.eqns):
        if any(id(v) in needed for v in eqn.outvars):
            needed |= {id(v) for v in eqn.invars}
            found.append(eqn)
    return found[::-1]


def _body(eqn: Any) -> tuple[Any, Sequence[Any]] | None:
    """The jaxpr that an equation calls, and its constants."""
    if eqn.primitive.name not in _OPENED:
        return None
    body = next(eqn.params[name] for name in _BODIES if name in eqn.params)
    return (body.jaxpr, body.consts) if hasattr(body, "consts") else (body, ())


# -- reading --------------------------------------------------------------------------------------------------


class _JaxprReader(GraphReader):
    """One pass over a jaxpr. `symbols` are the sizes that it names, `layouts` the sizes of the factors of each
    dimension of each input, where they are known."""

    def __init__(
        self,
        jax: Any,
        builder: ProgramBuilder,
        symbols: Mapping[str, Extent],
        layouts: Sequence[Sequence[Sequence[Extent]]] = (),
        allow_opaque: bool = False,
    ) -> None:
        super().__init__(builder, allow_opaque=allow_opaque)
        self.jax = jax
        self.symbols = symbols
        self.layouts = layouts
        self.calls: list[JaxCall] = []
        self.function: Callable[..., Any] | None = None
        """The function of the leaves of its arguments that was traced."""
        self._numbers: dict[ArrayValue, int] = {}
        self._outer: str | None = None
        self._literal: Any = jax.extend.core.Literal
        self.traced_lengths = SymbolicLengths(builder.factors)

    def original(self) -> Original | None:
        """The function as JAX runs it."""
        return None if self.function is None else JaxRun(self.function, tuple(self.sources), tuple(self.arrays))

    def length(self, dim: Any) -> int:
        """A length in the example."""
        if isinstance(dim, int):
            return dim
        # A size of jax.export has no public way to be computed.
        value = int(dim._evaluate({name: extent.length for name, extent in self.symbols.items()}))
        sums = {name: SizeSum.of(self.builder.factors, extent) for name, extent in self.symbols.items()}
        return self.traced_lengths.length(str(dim), value, lambda: dim._evaluate(sums))

    def read(self, closed: Any, inputs: Sequence[_Input]) -> None:
        """Goes through the jaxpr. Raises NotImported."""
        values: list[Operand] = []
        for k, (given, var) in enumerate(zip(inputs, closed.jaxpr.invars, strict=True)):
            element = self._element(var.aval)
            if element == "complex":
                self.unknown.append(
                    f"the input {given.name!r} is complex, or a key: expected real numbers, as a.real and a.imag"
                )
            values.append(self.argument(k, given.name, self._shape(var.aval), element, given.array))
        for (_, made), dims in zip(self.builder.inputs, self.layouts, strict=False):
            self._sized_as(made, dims)
        if not closed.jaxpr.outvars:
            raise NotImported(f"{self.builder.title} returns no array: expected one, or a tree of arrays")
        results = self._run(closed.jaxpr, closed.consts, values)
        if self.unknown:
            raise self.refused()
        for var, value in zip(closed.jaxpr.outvars, results, strict=True):
            self.outputs.append(filled(self.builder, value, self._shape(var.aval), self._element(var.aval)))

    def _sized_as(self, value: ArrayValue, dims: Sequence[Sequence[Extent]]) -> None:
        """Gives the dimensions of an input factors of these sizes."""
        factors = self.builder.factors
        for dim, extents in zip(value.dims, dims, strict=True):
            parts = factors.regroup(dim, [e.length for e in extents])
            for part, extent in zip(parts, extents, strict=True):
                for factor in factors.resolve(part):
                    factors.equate(extent, factor.extent)

    def _shape(self, aval: Any) -> tuple[int, ...]:
        return tuple(self.length(n) for n in aval.shape)

    def _element(self, aval: Any) -> str:
        kind = getattr(aval.dtype, "kind", "c")
        if kind == "V":  # the narrow types are NumPy's void ones
            kind = "f" if self.jax.numpy.issubdtype(aval.dtype, self.jax.numpy.floating) else "c"
        return {"f": "real", "i": "int", "u": "int", "b": "bool"}.get(kind, "complex")

    def _run(self, jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Operand]) -> list[Operand]:
        """The results of a jaxpr."""
        values: dict[Any, Operand] = dict(zip(jaxpr.invars, arguments, strict=True))
        for var, const in zip(jaxpr.constvars, consts, strict=True):
            values[var] = self._constant(const, var.aval)
        siblings: dict[Any, list[tuple[Any, Any]]] = {}
        live = _live(jaxpr)
        for eqn in live:
            if eqn.primitive.name == "slice" and not isinstance(eqn.invars[0], self._literal):
                ends = (eqn.params["start_indices"], eqn.params["limit_indices"])
                siblings.setdefault(eqn.invars[0], []).append(
                    tuple(tuple(self.length(n) for n in e) for e in ends)  # type: ignore[arg-type]
                )

        def beside(eqn: Any) -> tuple[tuple[Any, Any], ...]:
            return tuple(siblings.get(eqn.invars[0], ())) if eqn.primitive.name == "slice" else ()

        def read(atom: Any) -> Operand:
            return self._constant(atom.val, atom.aval) if isinstance(atom, self._literal) else values[atom]

        for eqn in live:
            operands = [read(v) for v in eqn.invars]
            results = self._equation(eqn, operands, beside(eqn))
            values.update(zip(eqn.outvars, results, strict=True))
        return [read(v) for v in jaxpr.outvars]

    def _constant(self, value: Any, aval: Any) -> Operand:
        """A literal, or an array that the function closes over: a number, or an input."""
        numpy = import_module("numpy")
        array = numpy.asarray(value)
        if array.shape == ():
            return array.item()  # type: ignore[no-any-return]
        wide = array.astype(numpy.float64) if self._element(aval) == "real" else array
        if wide.size and (wide == wide.flat[0]).all():
            return self.builder.constant(wide.flat[0].item(), array.shape, self._element(aval))
        return self.argument(f"constant {id(value)}", "constant", array.shape, self._element(aval), value)

    def _equation(self, eqn: Any, operands: Sequence[Operand], siblings: tuple[tuple[Any, Any], ...]) -> list[Operand]:
        name, body = eqn.primitive.name, _body(eqn)
        whole = _whole(eqn)
        if body is not None and whole is None:
            arguments = operands[len(operands) - len(body[0].invars) :]
            outer, self._outer = self._outer, _line(eqn) or self._outer
            results = self._run(*body, arguments)
            self._outer = outer
            return results
        if name == "scan" and int(eqn.params["length"]) <= _MOST_STEPS:
            return self._unrolled(eqn, operands)
        if name == "cond" and not isinstance(known(operands[0]), (ArrayValue, SizeNumber)):
            branch = eqn.params["branches"][int(operands[0])]  # type: ignore[arg-type]
            return self._run(branch.jaxpr, branch.consts, operands[1:])
        if name == "cond":
            return self._all_branches(eqn, operands)
        if name == "while" and (left := self._iterated(eqn, operands)) is not None:
            return left
        if name == "dim_as_value":
            return [self._size(eqn.params["dim"])]
        shapes = tuple(self._shape(v.aval) for v in eqn.outvars)
        dtypes = [str(getattr(v.aval, "dtype", "")) for v in (*eqn.invars[:1], *eqn.outvars[:1])]
        parameters = {**{k: self._sized(v) for k, v in eqn.params.items()}, "operands": list(operands)}
        call = AtenCall(
            whole or name, parameters, shapes, self._element(eqn.outvars[0].aval), dtypes[-1],
            len(set(dtypes)) > 1, siblings, tuple(self._element(v.aval) for v in eqn.outvars),
        )  # fmt: skip
        path = str(eqn.source_info.name_stack)
        self._record(call)
        module, line, function = f"{path}: " if path else "", _line(eqn) or self._outer, partial(self._bound, eqn, call)
        found = self.applied(RULES, "jax", call, module, line, function)
        for value, shape in zip(found if isinstance(found, tuple) else (found,), shapes, strict=False):
            if isinstance(value, ArrayValue):
                self.traced_lengths.learn_shape(shape, value.dims)
        return list(found) if isinstance(found, tuple) else [found]

    def _bound(self, eqn: Any, call: AtenCall, *arrays: Any) -> Any:
        """The results of a primitive on NumPy arrays."""
        given = iter(map(self.jax.numpy.asarray, arrays))
        found = eqn.primitive.bind(*(with_arrays(v, given) for v in call["operands"]), **eqn.params)
        return [import_module("numpy").asarray(v) for v in (found if eqn.primitive.multiple_results else [found])]

    def _record(self, call: AtenCall) -> None:
        """Notes a call on arrays, as it is on the example."""

        def described(value: Any) -> Any:
            if isinstance(value, ArrayValue):
                return ("array", self._numbers.setdefault(value, len(self._numbers)))
            if isinstance(value, (tuple, list)):
                return tuple(map(described, value))
            if isinstance(value, SizeNumber):
                return float(value.value)
            return float(value) if isinstance(value, (int, float)) else str(type(value))

        operands = [known(v) for v in call["operands"]]
        if call.shape or any(isinstance(v, ArrayValue) for v in operands):
            parameters = tuple((k, described(v)) for k, v in sorted(call.arguments.items()) if k != "operands")
            self.calls.append((call.name, call.shapes, described(operands), parameters))

    def _sized(self, value: Any) -> Any:
        """A parameter with the lengths of the example for symbols."""
        if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
            return tuple(self._sized(v) for v in value)
        return self._size(value) if hasattr(value, "_evaluate") else value

    def _size(self, dim: Any) -> Operand:
        """A length as a number."""
        if isinstance(dim, int):
            return dim

        def make(env: Environment) -> Any:
            return dim._evaluate({n: running().size(env.names.size(e)) for n, e in self.symbols.items()})

        return SizeNumber(self.length(dim), make)

    def _all_branches(self, eqn: Any, operands: Sequence[Operand]) -> list[Operand]:
        """The results of a choice by values: those of all branches, chosen element by element."""
        b, found = self.builder, [self._run(f.jaxpr, f.consts, operands[1:]) for f in eqn.params["branches"]]
        b.notes.append(f"all {len(found)} branches of a choice by values are computed{at(_line(eqn))}")
        results = found[-1]
        for k in range(len(found) - 2, -1, -1):
            here = folded(b, operands[:1], lambda p, k=k: p <= k, "bool", ())
            results = [
                chosen(b, here, (one, other), self._element(v.aval), self._shape(v.aval))
                for one, other, v in zip(found[k], results, eqn.outvars, strict=True)
            ]
        return results

    def _iterated(self, eqn: Any, operands: Sequence[Operand]) -> list[Operand] | None:
        """The results of a loop whose number of iterations is known, one after the other; None for others."""
        params, count = eqn.params, eqn.params["cond_nconsts"]
        ahead, fixed = operands[:count], operands[count : count + params["body_nconsts"]]
        state, test, body = list(operands[count + len(fixed) :]), params["cond_jaxpr"], params["body_jaxpr"]
        for _ in range(_MOST_STEPS + 1):
            (going,) = self._run(test.jaxpr, test.consts, [*ahead, *state])
            going = known(going)
            if isinstance(going, (ArrayValue, SizeNumber)):
                return None
            if not going:
                return state
            state = self._run(body.jaxpr, body.consts, [*fixed, *state])
        return None

    def _unrolled(self, eqn: Any, operands: Sequence[Operand]) -> list[Operand]:
        """A scan of a fixed number of steps, one after the other."""
        b, params = self.builder, eqn.params
        consts, carried, length = params["num_consts"], params["num_carry"], int(params["length"])
        fixed, carry = list(operands[:consts]), list(operands[consts : consts + carried])
        scanned, body = operands[consts + carried :], params["jaxpr"]
        made: list[list[Operand]] = []
        b.notes.append(f"a scan of {length} steps is written out{at(_line(eqn))}")
        for step in range(length)[:: -1 if params["reverse"] else 1]:
            rows = [known(v) if not isinstance(known(v), ArrayValue) else b.selected(v, 0, step) for v in scanned]  # type: ignore[arg-type]
            rows = [
                v if isinstance(v, ArrayValue) else filled(b, v, self._shape(var.aval), self._element(var.aval))
                for v, var in zip(rows, body.jaxpr.invars[consts + carried :], strict=True)
            ]
            results = self._run(body.jaxpr, body.consts, [*fixed, *carry, *rows])
            carry = results[:carried]
            made.append(results[carried:])
        if params["reverse"]:
            made.reverse()
        stacked: list[Operand] = []
        for k, var in enumerate(body.jaxpr.outvars[carried:]):
            each = [filled(b, row[k], self._shape(var.aval), self._element(var.aval)) for row in made]
            stacked.append(b.stacked(each, 0))
        return [*carry, *stacked]


def _whole(eqn: Any) -> str | None:
    """The operation that a function of jax.numpy is."""
    if eqn.primitive.name not in ("jit", "pjit"):
        return None
    described = getattr(eqn.params["jaxpr"].jaxpr.debug_info, "func_src_info", "") or ""
    name = eqn.params.get("name", "")
    return _WHOLE.get(name) if "jax/_src/numpy/" in described.replace("\\", "/") else None


def _line(eqn: Any) -> str | None:
    """The user's line that made an equation: the innermost one outside of JAX."""
    return next(_lines(eqn), None)


def _lines(eqn: Any) -> Iterator[str]:
    home = str(import_module("jax").__path__[0])
    for frame in getattr(eqn.source_info.traceback, "frames", ()):
        if not frame.file_name.startswith((home, PACKAGE)):
            yield f"{frame.file_name}:{frame.line_num}"
