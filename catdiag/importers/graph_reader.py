"""What all importers do with the graph of a program: inputs with names, rules for calls, one list of what is not known.

The reader of a library goes through its graph in order, and says for each call which rule it has.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from traceback import extract_tb
from typing import Any

from catdiag.frontend.signature import axis_names
from catdiag.importers.dimensions import AxisNames, NotAligned
from catdiag.importers.example import Example, Imported, NotImported, Original
from catdiag.importers.imported_values import ArrayValue
from catdiag.importers.opaque_boxes import OnArrays, opaque
from catdiag.importers.program_builder import ProgramBuilder
from catdiag.importers.torch_calls import AtenCall, Rule, Unsupported
from catdiag.importers.torch_complex import is_complex
from catdiag.util.errors import PACKAGE

_STANDARD = os.path.dirname(os.__file__) + os.sep
"""The folder of the standard library."""


class GraphReader:
    """One pass over a graph. Its inputs are those of another program, `beside`: what is passed in by position,
    parameters and buffers by name."""

    def __init__(self, builder: ProgramBuilder, beside: GraphReader | None = None, allow_opaque: bool = False) -> None:
        self.builder = builder
        self.allow_opaque = allow_opaque
        self.shared: dict[int | str, ArrayValue] = {} if beside is None else beside.shared
        self.outputs: list[ArrayValue] = []
        self.arrays: list[Any] = [] if beside is None else beside.arrays
        self.sources: list[int | str] = [] if beside is None else beside.sources
        self.unknown: list[str] = []

    # -- reading -----------------------------------------------------------------------------------

    def argument(
        self, source: int | str, name: str, lengths: Sequence[int], element: str, array: Any, hints: Sequence[str] = ()
    ) -> ArrayValue:
        """An input that is read from `source`, a position or a name: a new one, or that of the program beside. Raises
        NotImported where both programs give it another shape."""
        made = self.shared.get(source)
        if made is None:
            made = self.builder.input(self._free_name(name), lengths, element, hints)
            self.shared[source] = made
            self.arrays.append(array)
            self.sources.append(source)
        elif self.builder.shape(made) != list(lengths):
            raise NotImported(
                f"{name} has shape {self.builder.shape(made)} in one program and {list(lengths)} in the other: "
                "expected one shape, or a function from the tensors of the second program to those of the first "
                "(parameters=, --parameters, --map)"
            )
        return made

    def _free_name(self, target: str) -> str:
        """A name for a new input, which no other one has."""
        name, number = identifier(target), 0
        while name in dict(self.builder.inputs):
            number += 1
            name = identifier(f"{target}_{number}")
        return name

    def applied(
        self,
        rules: Mapping[str, Rule],
        library: str,
        call: AtenCall,
        module: str,
        line: str | None,
        function: OnArrays | None = None,
    ) -> Any:
        """The result of a call: by its rule, as that of an opaque box with its `function`, or noted as not known.
        `library` is what names of operations begin with, `module` the path of the module that calls it."""
        self.builder.line = line
        complex_ones = is_complex(call)
        rule = rules.get(f"complex {call.name}" if complex_ones else call.name)
        try:
            if rule is None:
                known = "of complex numbers has no rule" if call.name in rules else "has no rule"
                raise Unsupported(f"{library}.{call.name} {known}")
            return rule(self.builder, call)
        except (Unsupported, NotAligned) as error:
            if self.allow_opaque and function is not None and not complex_ones and "complex" not in call.elements:
                return opaque(self.builder, library, call, function)
            said = error.args[0] if error.args else str(error)
            self.unknown.append(f"{module}{said} [{line or call.name}]")
            made = [self.builder.input(f"unknown_{len(self.builder.inputs)}", s, call.element) for s in call.shapes]
            return made[0] if len(made) == 1 else tuple(made)

    def original(self) -> Original | None:
        """What was imported, as its own library runs it; None where that is not known."""
        return None

    def refused(self) -> NotImported:
        """The error that lists all that is not known."""
        known = "\n  ".join(dict.fromkeys(self.unknown))
        return NotImported(f"{self.builder.title} has operations that are not known here:\n  {known}")

    # -- naming and building -----------------------------------------------------------------------

    def named(self, names: Mapping[str, str]) -> AxisNames:
        """Names for all axes: as the user says, then by where they come from. Raises NotImported."""
        checked_names(names)
        found = AxisNames(self.builder.factors)
        inputs = dict(self.builder.inputs)
        found.avoided.update(inputs)
        for name, text in names.items():
            value = inputs.get(identifier(name))
            if value is None:
                raise NotImported(f"names: there is no input {name!r}; the inputs are {', '.join(inputs)}")
            dims, wanted = [self.builder.factors.resolve(d) for d in value.dims], _grouped_names(text)
            if len(wanted) != len(dims):
                raise NotImported(f"names of {name!r}: {text!r} names {len(wanted)} dimensions of {len(dims)}")
            for dim, parts in zip(dims, wanted, strict=True):
                _name_dimension(found, name, dim, parts)
        for name, value in self.builder.inputs:
            for k, dim in enumerate(value.dims):
                for factor in self.builder.factors.resolve(dim):
                    factor.hint = factor.hint or _hinted(name, k)
        return found

    def built(self, names: AxisNames, merged_results: bool = True) -> Imported:
        """The program that was read; without `merged_results` a result has an axis for each factor of a dimension."""
        diagram = self.builder.build(self.outputs, names, merged_results)
        notes = dict.fromkeys((*self.builder.notes, *self.builder.factors.met))
        sizes = [
            (names.size(f.extent), n) for dim, n in self.builder.at_least for f in self.builder.factors.resolve(dim)
        ]
        example = Example(
            tuple(self.arrays), names.example(), tuple(notes), tuple(self.sources), dict(self.builder.functions),
            assume=tuple(dict.fromkeys(f"{size} >= {n}" for size, n in sizes if isinstance(size, str) and n > 1)),
            original=self.original(),
        )  # fmt: skip
        return Imported(diagram, example)


def not_traced(
    title: str, said: str, error: Exception, arguments: Sequence[Any], advice: Mapping[str, str]
) -> NotImported:
    """The error of a library that could not trace a function: what it was traced on, why it failed, in which line of
    the user, and what to do: the first advice whose key is in what the library says, or that of no key."""
    shown = ", ".join(map(described, arguments))
    why = next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")
    wanted = next(text for key, text in advice.items() if key in f"{type(error).__name__}: {error}")
    made = NotImported(f"{said} {title} on ({shown}): {type(error).__name__}: {why}\n{wanted}")
    return NotImported(made.message, line) if (line := raised_at(error)) else made


def described(value: Any) -> str:
    """An argument in an error: the shape of an array, what other things are."""
    if hasattr(type(value), "shape"):
        kind = "" if type(value).__name__ in ("Tensor", "Parameter", "ShapeDtypeStruct") else type(value).__name__
        try:
            return f"{kind} {list(value.shape)}".strip()
        except RuntimeError:  # of a nested tensor
            return "NestedTensor"
    text = repr(value)
    return text if len(text) <= 40 and text.isprintable() else f"a {type(value).__name__}"


def raised_at(error: BaseException) -> str | None:
    """The innermost line of the user that an error came through."""
    found = None
    for frame in extract_tb(error.__traceback__):
        parts = frame.filename.split(os.sep)
        if not frame.filename.startswith(("<", PACKAGE, _STANDARD)) and "site-packages" not in parts and frame.line:
            found = f"{frame.filename}:{frame.lineno}: {frame.line}"
    return found


def checked_names(names: Any) -> None:
    """Raises NotImported unless names are a mapping from inputs to texts."""
    if not isinstance(names, Mapping) or not all(isinstance(text, str) for text in names.values()):
        raise NotImported(f'names is {described(names)}: expected axes by input, as {{"x": "b t (h d)"}}')


def same_results(one: GraphReader, other: GraphReader) -> None:
    """Gives the results of both the same dimensions. Raises NotImported where they differ."""
    shapes = [[r.builder.shape(v) for v in r.outputs] for r in (one, other)]
    if shapes[0] != shapes[1]:
        raise NotImported(f"{one.builder.title} gives results of shapes {shapes[0]}, {other.builder.title} {shapes[1]}")
    for k, (wanted, value) in enumerate(zip(one.outputs, other.outputs, strict=True)):
        for place, dim in enumerate(wanted.dims):
            value = other.builder.aligned(value, place, dim)
        other.outputs[k] = value


def identifier(name: str) -> str:
    """A name as that of an input.

    >>> identifier("q_proj.weight"), identifier("0.bias")
    ('q_proj_weight', 'p_0_bias')
    """
    made = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
    return made if made.isidentifier() else f"p_{made}"


def title_of(function: Callable[..., Any]) -> str:
    """What the program of a function is called."""
    return identifier(getattr(function, "__name__", "function").replace("<lambda>", "function"))


def _name_dimension(found: AxisNames, name: str, dim: Sequence[Any], parts: Sequence[str]) -> None:
    if parts == ["1"] and not dim:
        return
    if len(parts) != len(dim):
        lengths = " x ".join(str(f.length) for f in dim) or "1"
        raise NotImported(f"names of {name!r}: a dimension of {lengths} is given the names {' '.join(parts)}")
    for factor, part in zip(dim, parts, strict=True):
        try:
            found.reserve(factor, part)
        except NotAligned as error:
            raise NotImported(f"names of {name!r}: {error}") from None


def _grouped_names(text: str) -> list[list[str]]:
    return [n.strip("()").split() for n in axis_names(text)]


def _hinted(name: str, place: int) -> str:
    """A name for an axis that an input brings: that of the input's module and the dimension."""
    base = name.removesuffix("_weight").removesuffix("_bias")
    return f"{base}_{place}" if base == name else base if place == 0 else f"{base}_in"
