"""Operations without a rule, written out by PyTorch's own decompositions in terms of those that have one.

An exported graph keeps operations whole. Only those that are not known here are decomposed, so that the meaning of
`mse_loss`, `glu`, `lstm` and the like is the one that PyTorch states, and there is no second table of it. An operation
that does not come down to known ones stays as it is, and is then refused by its name.
"""

from __future__ import annotations

from collections.abc import Container, Set
from importlib import import_module
from typing import Any

_DEEPEST = 6
"""How often what a decomposition gives is decomposed again."""


def with_known_operations(program: Any, known: Container[str]) -> Any:
    """An exported program with operations that are not `known` by name written out, where PyTorch says how."""
    unknown = _unknown(program, known)
    if not unknown:
        return program
    found = _written_out(program, unknown, known)
    if found is not None:
        return found
    for operation in sorted(unknown, key=str):
        found = _written_out(program, {operation}, known)
        program = program if found is None else found
    return program


def operation_name(target: Any) -> str:
    """The name of an operation without its overload: `add`, `scaled_dot_…`."""
    return str(getattr(target, "_opname", None) or target.__name__.split(".")[0])


def _unknown(program: Any, known: Container[str]) -> set[Any]:
    """The operations of a graph that are not known by name."""
    overload = import_module("torch")._ops.OpOverload
    targets = {node.target for node in program.graph.nodes if node.op == "call_function"}
    return {t for t in targets if isinstance(t, overload) and operation_name(t) not in known}


def _written_out(program: Any, operations: Set[Any], known: Container[str]) -> Any:
    """A program with known operations in place of these; None where that is not possible."""
    if any(node.target in operations and _draws_numbers(node) for node in program.graph.nodes):
        return None
    others = _unknown(program, known) - operations
    for _ in range(_DEEPEST):
        left = _unknown(program, known) - others
        if not left:
            return program
        table = _decompositions(left)
        if table is None:
            return None
        try:
            program = program.run_decompositions(table)
        except Exception:  # of many kinds: a decomposition may be for other settings than an export's
            return None
    return None


def _decompositions(operations: Set[Any]) -> dict[Any, Any] | None:
    """PyTorch's decompositions of operations, those for exports first; None where one has none."""
    torch = import_module("torch")
    exports, others = torch.export.default_decompositions(), import_module("torch._decomp").decomposition_table
    found = {}
    for operation in operations:
        rule = exports[operation] if operation in exports else others.get(operation)
        if rule is None:
            return None
        found[operation] = rule
    return found


def _draws_numbers(node: Any) -> bool:
    """Whether a call is random: recurrent layers are so in training only, and with dropout. Their decompositions may
    leave it out."""
    torch = import_module("torch")
    if torch.Tag.nondeterministic_seeded not in node.target.tags:
        return False
    arguments = node.target._schema.arguments
    given = {a.name: a.default_value for a in arguments} | dict(
        zip((a.name for a in arguments), node.args, strict=False)
    )
    given |= node.kwargs
    training, share = given.get("train", given.get("training")), given.get("dropout", 1.0)
    return training is not False and share != 0
