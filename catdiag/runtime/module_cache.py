"""Imports generated modules from a cache of files, named by the hash of the text. Triton reads source from files only.

The folder is `$CATDIAG_CACHE`, else `catdiag` in `$XDG_CACHE_HOME`, else `~/.cache/catdiag`; the files are in `kernels`
there. A file is written atomically, and compared with the text before it is used. The text itself is executed, never a
file of bytecode.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from catdiag.category.types import ArrayType
from catdiag.util.errors import CatdiagError, SizeError
from catdiag.util.files import write_whole

INSTALL = "pip install 'catdiag[gpu]'"


class SourceArgument(Protocol):
    """An input or a result of a generated module: its name, its type (without axes: a number), its torch dtype."""

    @property
    def name(self) -> str: ...

    @property
    def ty(self) -> ArrayType: ...

    @property
    def dtype(self) -> str: ...


class ModuleSource(Protocol):
    """A generated module, such as `catdiag.codegen.triton.triton_module.Module`.

    It has a text, the name of its launch function (`entry`), the function's inputs and outputs, and its tiles: keyword
    arguments with their defaults.
    """

    @property
    def text(self) -> str: ...

    @property
    def entry(self) -> str: ...

    @property
    def inputs(self) -> Sequence[SourceArgument]: ...

    @property
    def outputs(self) -> Sequence[SourceArgument]: ...

    @property
    def tiles(self) -> Mapping[str, int]: ...


def needed(package: str, what: str) -> ModuleType:
    """Imports an optional package. Raises CatdiagError, with the command that installs it, if it is missing.

    >>> needed("no_such_package", "this example")
    Traceback (most recent call last):
    ...
    catdiag.util.errors.CatdiagError: this example needs no_such_package, which is not installed: pip install ...
    """
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package.split(".")[0]:
            raise
        raise CatdiagError(f"{what} needs {package}, which is not installed: {INSTALL}") from None


def cache_folder() -> Path:
    """The folder of generated modules.

    >>> cache_folder().name
    'kernels'
    """
    if own := os.environ.get("CATDIAG_CACHE"):
        return Path(own) / "kernels"
    parent = os.environ.get("XDG_CACHE_HOME")
    return (Path(parent) if parent else Path.home() / ".cache") / "catdiag" / "kernels"


def digest(text: str) -> str:
    """The hash of a text: the first 20 hexadecimal digits of its SHA-256.

    >>> digest("x = 1")
    '8ff436def1451285599a'
    """
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def cached_file(text: str, entry: str) -> Path:
    """The file of a text, `ENTRY_HASH.py` in the cache folder; it is written unless it has this text already.

    Raises CatdiagError if the folder cannot be created or written to.
    """
    path = cache_folder() / f"{entry}_{digest(text)}.py"
    try:
        if path.is_file() and path.read_bytes() == text.encode():
            return path
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, text)
    except OSError as error:
        raise CatdiagError(
            f"the kernel cannot be written to {path.parent}: {error.strerror or error}. Triton reads its source from a "
            "file, so set CATDIAG_CACHE to a folder that can be written to"
        ) from error
    return path


def imported(text: str, entry: str) -> ModuleType:
    """Imports a text as a new Python module, with a file in the cache folder. It is not entered in `sys.modules`.

    Raises CatdiagError if torch or triton is not installed, and if the text defines no function `entry`.
    """
    for package in ("torch", "triton"):
        needed(package, "a generated kernel")
    path = cached_file(text, entry)
    module = ModuleType(f"catdiag_kernel_{path.stem}")
    module.__file__ = str(path)
    exec(compile(text, str(path), "exec"), module.__dict__)
    if not callable(getattr(module, entry, None)):
        raise CatdiagError(f"the generated module defines no function {entry!r}")
    return module


def launch_options(
    code: ModuleSource, tiles: Mapping[str, int] | None, warps: int | None, stages: int | None
) -> dict[str, int]:
    """The keyword arguments of a launch function for tiles, warps and pipeline stages.

    Raises SizeError for a tile that the module does not have, unless its length is 1: such tiles are compiled in.
    """
    options: dict[str, int] = {}
    for name, value in (tiles or {}).items():
        if name in code.tiles:
            options[name] = value
        elif value != 1:
            known = ", ".join(code.tiles) or "none"
            raise SizeError(f"{code.entry} has no tile {name!r}, which is given as {value}: expected one of {known}")
    options.update({n: v for n, v in (("num_warps", warps), ("num_stages", stages)) if v is not None})
    return options


def unseen(code: ModuleSource, launch: Callable[..., Any], sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes that a launch function takes as keyword arguments, since no input shows them.

    Raises SizeError for one that is not in `sizes`.
    """
    found = {}
    for name, parameter in inspect.signature(launch).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            if name not in sizes:
                raise SizeError(f"{code.entry} has an axis of size {name!r} that no input shows: expected its size")
            found[name] = sizes[name]
    return found
