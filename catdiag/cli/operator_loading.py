"""Operators by name: `attention` of the library, or `path.py:name` of a user's file."""

from __future__ import annotations

import linecache
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from catdiag.category.diagram import Diagram, diagram_of
from catdiag.cli.exit_status import UsageError
from catdiag.util.errors import CatdiagError
from catdiag.util.files import read_whole

if TYPE_CHECKING:
    from catdiag.importers.example import Imported
    from catdiag.testing.module_pairs import ModulePair

_PRIVATE = "_catdiag_operators"
# Bytes above which a file of operators is not read.
_LARGEST = 16 * 2**20


def operator(name: str) -> Diagram:
    """The diagram of a name of the library, or of `path.py:name`. Raises UsageError, which lists what was found
    instead.

    >>> print(operator("matmul"))
    matmul: [a b] @ [b c] → [a c]
    """
    path, colon, inside = name.rpartition(":")
    if not colon:
        return _from_library(name)
    if not inside.isidentifier():
        raise UsageError(f"{name!r} names a file and no operator in it: expected path.py:name")
    return _from_file(Path(path), inside)


def operators(left: str, right: str) -> tuple[Diagram, Diagram]:
    """The diagrams of two operators. Raises UsageError, as `operator` does."""
    return operator(left), operator(right)


def modules(
    left: str, right: str, example: str, parameters: str | None = None, entries: Sequence[str] = ()
) -> ModulePair:
    """Two PyTorch modules or functions of users' files, on the same inputs. `parameters` names a function from the
    tensors of the second, by name, to those of the first; `entries` say it by names and parts. Raises UsageError, as
    `operator` does, and NotImported for operations of PyTorch that are not known."""
    from catdiag.importers.parameter_map import parameter_map
    from catdiag.testing.module_pairs import ModulePair

    if parameters is not None and entries:
        raise UsageError("--map and --parameters both say how tensors are made: expected one of them")
    example_arguments = arguments(example)
    of = parameter_map(entries) if entries else None if parameters is None else function(parameters)
    return ModulePair.imported(module(left), module(right), example_arguments, of)


def imported(name: str, example: str) -> Imported:
    """The program of a PyTorch module or function of a user's file, on the arguments that `example` names. Raises
    UsageError, as `operator` does, and NotImported for operations of PyTorch that are not known."""
    from catdiag.importers.torch_export import from_torch

    return from_torch(module(name), arguments(example), {}, {})


def arguments(name: str) -> tuple[Any, ...]:
    """The arguments of a module's call: what a user's file calls so, or calls `example` if only the file is named."""
    found = _named(name if ":" in name else f"{name}:example")
    if not isinstance(found, (tuple, list)):
        raise UsageError(f"{name} is {type(found).__name__}: expected a tuple of a module's arguments")
    return tuple(found)


def module(name: str) -> Any:
    """A module, a function, or what a class makes without arguments."""
    found = _named(name)
    if not isinstance(found, type):
        return found
    try:
        return found()
    except TypeError as error:
        raise UsageError(f"{name} cannot be made without arguments ({error}): name a module, not its class") from None


def _named(name: str) -> Any:
    """What a user's file calls so."""
    path, colon, inside = name.rpartition(":")
    if not colon or not inside.isidentifier():
        raise UsageError(f"{name!r} does not name a file and something in it: expected path.py:name")
    namespace = _run(Path(path))
    if inside not in namespace:
        raise UsageError(f"{path} defines nothing called {inside!r}")
    return namespace[inside]


def function(name: str) -> Callable[..., Any]:
    """A function of a user's file, `path.py:name`. Raises UsageError, which lists what was found instead."""
    path, colon, inside = name.rpartition(":")
    if not colon or not inside.isidentifier():
        raise UsageError(f"{name!r} does not name a file and a function in it: expected path.py:name")
    value = _run(Path(path)).get(inside)
    if value is None:
        raise UsageError(f"{path} defines nothing called {inside!r}")
    if _is_diagram(value) or not callable(value):
        raise UsageError(
            f"{inside!r} of {path} is not a function: expected one that takes the operator's inputs in order"
        )
    found: Callable[..., Any] = value
    return found


def _from_library(name: str) -> Diagram:
    from catdiag.library.diagrams import get

    if name.endswith(".py") or "/" in name:
        raise UsageError(f"{name!r} names a file and no operator in it: expected {name}:name")
    if name.endswith(".onnx"):
        raise UsageError(
            f"{name!r} names a model and no operator: expected path.py:name, of a file with the line "
            f"name = cd.from_onnx({name!r})"
        )
    try:
        return get(name)
    except CatdiagError as error:
        raise UsageError(f"{error.message}; an operator of a file is path.py:name") from error


def _from_file(path: Path, name: str) -> Diagram:
    namespace = _run(path)
    if name not in namespace:
        found = ", ".join(_diagrams(namespace)) or "none"
        raise UsageError(f"{path} defines nothing called {name!r}: the operators that it has are {found}")
    value = namespace[name]
    if _is_diagram(value):
        return diagram_of(value)
    if hasattr(value, "named_parameters"):
        raise UsageError(
            f"{name!r} of {path} is a PyTorch module: expected --example FILE.py:NAME, too, arguments of a call"
        )
    what = "a function without @cd.algorithm" if callable(value) else f"{type(value).__name__}"
    raise UsageError(
        f'{name!r} of {path} is not a diagram but {what}: put @cd.algorithm("…") above a function to make it one'
    )


def _diagrams(namespace: dict[str, Any]) -> list[str]:
    return [name for name, value in namespace.items() if _is_diagram(value)]


def _is_diagram(value: Any) -> bool:
    return not isinstance(value, type) and isinstance(getattr(value, "diagram", value), Diagram)


def _run(path: Path) -> dict[str, Any]:
    """The names that a file defines. It is run as a module with a private name, and its folder can be imported from
    while it runs."""
    try:
        source = read_whole(path, _LARGEST)
    except IsADirectoryError:
        raise UsageError(f"{path} is a folder: expected a Python file, as in path.py:name") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError as error:  # a zero in the name
        raise UsageError(f"cannot read {str(path)!r}: {error}") from None
    try:
        code = compile(source, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        where = f"{path}:{error.lineno}" if error.lineno else str(path)
        text = f": {error.text.strip()}" if error.text else ""
        raise UsageError(f"{path} is not a Python file that can be read: {error.msg}\n  at {where}{text}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"{path} is not a Python file that can be read: {error}") from None
    made = ModuleType(_PRIVATE)
    made.__file__ = str(path)
    with _imports_from(path.resolve().parent, made):
        try:
            exec(code, made.__dict__)
        except (CatdiagError, KeyboardInterrupt):
            raise
        # A user's file may raise anything, and may exit; both are reported with the line.
        except BaseException as error:
            text = "".join(traceback.format_exception_only(error)).strip()
            raise UsageError(f"{path} failed: {text}{_place(error, path)}") from None
    return made.__dict__


def _place(error: BaseException, path: Path) -> str:
    """The last line of the file that the error passed through."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    if not lines or lines[-1] is None:
        return ""
    return f"\n  at {path}:{lines[-1]}: {linecache.getline(str(path), lines[-1]).strip()}"


@contextmanager
def _imports_from(folder: Path, module: ModuleType) -> Iterator[None]:
    """While it is open, the module is registered and its folder is searched last for imports; afterwards both are
    undone."""
    before = set(sys.modules)
    sys.modules[_PRIVATE] = module
    sys.path.append(str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if file and Path(file).resolve().is_relative_to(folder) and "site-packages" not in Path(file).parts:
                del sys.modules[name]
        sys.modules.pop(_PRIVATE, None)
