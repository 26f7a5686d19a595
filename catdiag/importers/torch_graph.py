"""The graph that `torch.export` makes of a module or a function on an example, and what is said where it cannot."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from importlib import import_module
from inspect import Parameter, Signature, signature
from io import StringIO
from types import FunctionType
from typing import Any

from catdiag.importers.example import NotImported
from catdiag.importers.graph_reader import described, not_traced, title_of
from catdiag.importers.torch_decompositions import operation_name, with_known_operations
from catdiag.importers.torch_flex_attention import NAME as FLEX_ATTENTION
from catdiag.importers.torch_flex_attention import with_flex_attention_written_out
from catdiag.importers.torch_results import of_plain_types
from catdiag.importers.torch_symbols import all_dynamic, bound_arguments


def imported_torch() -> Any:
    try:
        return import_module("torch")
    except ImportError as error:
        raise ImportError("cd.from_torch needs PyTorch: pip install torch") from error


def title_of_module(module: Any, torch: Any) -> str:
    if isinstance(module, torch.export.ExportedProgram):
        return "program"
    return title_of(type(module) if isinstance(module, torch.nn.Module) else module)


def exported_graph(
    module: Any, torch: Any, example: Sequence[Any], kwargs: Mapping[str, Any], dynamic: Any, known: Container[str]
) -> Any:
    """The graph of a module or function on an example; operations that are not `known` are decomposed into such, where
    that is possible. Raises NotImported."""
    if isinstance(module, torch.export.ExportedProgram):
        return _decomposed(module, known)
    given = module
    if not isinstance(module, torch.nn.Module):
        if isinstance(module, type):
            raise NotImported(
                f"cd.from_torch takes a module, not the class {module.__name__}: make one, with its arguments"
            )
        if not callable(module):
            raise NotImported(f"cd.from_torch takes a module or a function of tensors, not {described(module)}")
        function = _with_its_lines(module)

        class Wrapped(torch.nn.Module):  # type: ignore[misc]
            def forward(self, *arrays: Any, **named: Any) -> Any:
                return function(*arrays, **named)

        name_arguments(Wrapped, module)
        module = Wrapped()
    arguments, options = _each_once((tuple(example), dict(kwargs)), torch)
    if dynamic is False:
        dynamic = None
    if dynamic is True:
        dynamic = all_dynamic(bound_arguments(module.forward, arguments, options))
    try:
        found = _exported(torch, module, arguments, options, dynamic)
    except Exception as error:  # of many kinds, the user's among them
        raise not_exported(error, given, module, arguments, options) from error
    try:
        with quietly():
            return _decomposed(found, known)
    except Exception as error:  # PyTorch's own: an export of derivatives takes what they are of for constants
        leaves = import_module("torch.utils._pytree").tree_leaves((arguments, options))
        said = "torch.export could not decompose"
        raise not_traced(title_of_module(given, torch), said, error, leaves, _ADVICE) from error


def name_arguments(of: Any, function: Any) -> None:
    """Gives the `forward` of a class of modules the parameters that a function has, by which inputs are called; none
    where the function is one of C, without a signature."""
    with suppress(TypeError, ValueError):
        own = Parameter("self", Parameter.POSITIONAL_ONLY)
        of.forward.__signature__ = Signature([own, *signature(function).parameters.values()])


def _exported(torch: Any, module: Any, arguments: Any, options: Any, dynamic: Any) -> Any:
    """What `torch.export` makes of a module; objects of types that it does not know are results by their tensors."""
    with quietly():
        try:
            return torch.export.export(module, arguments, options, dynamic_shapes=dynamic)
        except RuntimeError as error:
            if _UNKNOWN_TYPE not in str(error):
                raise
        hook = module.register_forward_hook(lambda module, given, results: of_plain_types(results))
        try:
            return torch.export.export(module, arguments, options, dynamic_shapes=dynamic)
        finally:
            hook.remove()


def not_exported(error: Exception, given: Any, module: Any, arguments: Any, options: Any) -> NotImported:
    """The error where `torch.export` raises one: what it says, or what the module itself raises on its arguments, the
    line of the user, and what to do. `given` is what the user passed, `module` what was exported of it."""
    torch = import_module("torch")
    leaves = import_module("torch.utils._pytree").tree_leaves((arguments, options))
    title, said, advice = title_of_module(given, torch), "torch.export could not export", _ADVICE
    known_error = any(key and key in f"{type(error).__name__}: {error}" for key in advice)
    raised = None if known_error else _own_error(torch, module, arguments, options)
    if raised is not None:
        said, advice = "PyTorch does not run", {"": _RUNS}
    return not_traced(title, said, raised or error, leaves, advice)


STOPS = "stops of gradients"
"""Where the metadata of a graph says in which operations gradients stop."""


def _decomposed(program: Any, known: Container[str]) -> Any:
    stops = gradient_stops(program)
    written = with_flex_attention_written_out(program.run_decompositions({}))
    found = with_known_operations(written, known)
    found.graph_module.meta.update({STOPS: stops, FLEX_ATTENTION: FLEX_ATTENTION in written.graph_module.meta})
    return found


def gradient_stops(program: Any, required: bool = False) -> tuple[str, ...]:
    """The operations of an exported program at which gradients of parameters or of what is passed in stop, `detach` and
    parts that run under `torch.no_grad()`; of those tensors only that require one, if that is `required`.
    Decompositions leave no trace of the latter."""
    torch = import_module("torch")
    specs = {spec.arg.name: spec.kind.name for spec in program.graph_signature.input_specs}
    reached: set[Any] = set()
    found: dict[str, None] = {}
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder":
            real = isinstance(value, torch.Tensor) and value.is_floating_point()
            if real and (value.requires_grad or not required) and specs.get(node.name) in ("USER_INPUT", "PARAMETER"):
                reached.add(node)
        elif node.op == "call_function" and reached & set(node.all_input_nodes):
            name = operation_name(node.target)
            if name.startswith("detach"):
                found[name] = None
            elif name == "wrap_with_set_grad_enabled" and not node.args[0]:
                found["torch.no_grad()"] = None
            else:
                reached.add(node)
    return tuple(found)


@contextmanager
def quietly() -> Iterator[None]:
    """PyTorch logs the graphs and tracebacks of what it cannot export, and warns of its own use of itself; what matters
    is in the error."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                yield
    finally:
        logging.disable(before)


def _own_error(torch: Any, module: Any, arguments: Any, options: Any) -> Exception | None:
    """What the module itself raises on its arguments; None where it runs on them."""
    arguments, options = import_module("torch.utils._pytree").tree_map_only(
        torch.Tensor, lambda a: a.detach().clone(), (arguments, options)
    )
    try:
        with torch.no_grad(), quietly():
            module(*arguments, **options)
    except Exception as error:
        return error
    return None


_RUNS = "Expected the arguments of a call that works, one after the other"
_UNKNOWN_TYPE = "in output, which is not a known type"
_ADVICE = {
    "ScriptModule is not supported": "A module of TorchScript has no graph to export: import the module that it was "
    "made of",
    "__obj_flatten__": "Weights that are packed for quantized kernels are no tensors: import the module before it was "
    "quantized",
    _UNKNOWN_TYPE: "Results are tensors, and tuples, lists, dicts and named tuples of these: "
    "call torch.export.register_dataclass(TYPE) for a dataclass, or return one of them",
    "functorch": (
        derivatives
        := "torch.func's derivatives are not exported: import what they are of, and take .grad of that program"
    ),
    "doesn't have storage": derivatives,
    "Nested": "Tensors of rows of unlike lengths are not read: pass a padded one and a mask",
    "Unsupported input type": "Arguments are tensors, numbers and texts: torch.from_numpy(a) makes a tensor",
    "missing a required argument": "Expected an example of each argument, those that are named in kwargs=",
    "data-dependent": "The program cannot choose by values: compute both cases, and choose with torch.where; or import "
    "the parts before and after it",
    ".numpy() is not": "Arrays of other libraries are not traced: write it with functions of PyTorch",
    "dynamic_shapes": "dynamic is True, None, or dynamic_shapes of torch.export",
    "": "It runs on the example, but not without numbers: import the part that has no control flow on values and no "
    "calls outside of PyTorch, or pass a program that torch.export has made",
}
"""What to do, by what an error of `torch.export` says."""


def _with_its_lines(function: Any) -> Any:
    """A function whose lines an export notes: it does so for functions that are called forward."""
    if not isinstance(function, FunctionType):
        return function
    code = function.__code__.replace(co_name="forward")
    made = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _each_once(arguments: Any, torch: Any) -> Any:
    """Arguments of which no two are one tensor: an export takes two that are for one input."""
    seen: set[int] = set()

    def once(value: Any) -> Any:
        if id(value) not in seen:
            seen.add(id(value))
            return value
        return value.clone()

    return import_module("torch.utils._pytree").tree_map_only(torch.Tensor, once, arguments)
