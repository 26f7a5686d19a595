"""Names of sizes: those that a program mentions; and the check that sizes of tiles and blocks are fresh and used for
nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from catdiag.kernel.judgments import Json
from catdiag.kernel.semantics import Program
from catdiag.kernel.terms import KernelError, Printer, is_name, leaves, size_term
from catdiag.kernel.well_formed import BODIES


def local_name(name: Any, scope: frozenset[str]) -> str:
    """A size of tiles or blocks. Raises KernelError if the name is used outside."""
    if not is_name(name) or name in scope:
        raise KernelError(f"the local size {name!r} is no new name")
    return str(name)


def cut_only(program: Program, local: Mapping[str, str]) -> None:
    """Raises unless the local sizes are those of the axes that are cut, on every input, and of nothing else there."""
    for d in program["inputs"]:
        for name, s in d["axes"]:
            if local.get(name, s) != s or (name not in local and leaves(size_term(s), "size") & set(local.values())):
                raise KernelError(f"input {d['name']} has axis {name!r} of size {s!r}, which is not how it is cut")


def symbols(program: Program) -> set[str]:
    """The size symbols that a program mentions and does not bind itself."""
    found = {s for d in program["inputs"] for _, n in d["axes"] for s in leaves(size_term(n), "size")}
    for node in program["nodes"]:
        found |= symbols_of_node(node)
    return found


def symbols_of_node(node: Json) -> set[str]:
    """The size symbols that a node mentions and does not bind itself."""
    if node["op"] == "fold":
        return set().union(*(symbols(node[body]) for body in BODIES if body in node)) - {node["block"]}
    if node["op"] == "group":
        return symbols(node["body"]) - {local for _, local in node["tiles"]}
    axes = node.get("axes", ()) if node["op"] == "view" else [node["axis"]] if node["op"] == "index" else ()
    found = {s for _, n in axes for s in leaves(size_term(n), "size")}
    if node["op"] == "size":
        found |= leaves(size_term(node["size"]), "size")
    for r in node.get("reads", ()):
        found |= set(_spoken([*r["at"].values(), *(side for c in r["where"] for side in c[1:])]))
    return found


def printer_of(*programs: Program, arrays: Iterable[str] = ()) -> Printer:
    """A printer for all names in programs, including those in their loops and groups, and of further arrays."""
    sizes: set[str] = set()
    names = set(arrays)
    stack = list(programs)
    while stack:
        program = stack.pop()
        sizes |= symbols(program)
        names |= {str(d["name"]) for d in program["inputs"]}
        for node in program["nodes"]:
            if node["op"] == "map" and node["fn"].startswith("apply:"):
                names.add(node["fn"][6:])
            sizes |= {node["block"]} if node["op"] == "fold" else {local for _, local in node.get("tiles", ())}
            stack.extend(node[body] for body in BODIES if body in node)
    return Printer(names, sizes)


def _spoken(expressions: Sequence[Any]) -> Iterator[str]:
    for e in expressions:
        if isinstance(e, str):
            yield e
        elif isinstance(e, list) and e[0] not in ("i", "w"):
            yield from _spoken(e[1:])
