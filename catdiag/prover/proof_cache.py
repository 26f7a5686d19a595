"""The proof cache: earlier proofs of loops, reused for loops that differ in names of sizes or in skipped blocks.

A derivation proves one loop many times: grouped, split, with skipped blocks. The earlier proof is tried first. The
checker's rules replay it on the new goals, so that it is used only where it is a proof.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

Json = Mapping[str, Any]


def key(node: Json) -> str:
    """A text that determines a loop."""
    return json.dumps(node, sort_keys=True)


def of_earlier(statement: Json, certificate: Json | None) -> dict[str, Json]:
    """The proofs of loops in a certificate, by the keys of the loops in the same places on the right side of a
    statement.
    """
    if certificate is None:
        return {}
    now = {key(node): node for node in _loops(statement["right"])}
    before = {key(node): node for node in _loops(certificate["statement"]["right"])}
    proofs = certificate["proof"].get("folds", [])
    if len(now) != len(before) or (len(before) > 1 and len(before) != len(proofs)):
        return {}
    pairs = zip(now.items(), before.values(), proofs, strict=False)
    return {k: renamed(proof, _sizes(old, new)) for (k, new), old, proof in pairs}


def _loops(program: Json) -> Iterator[Json]:
    for node in program["nodes"]:
        if node["op"] == "fold":
            yield node
        elif node["op"] == "group":
            yield from _loops(node["body"])


def _sizes(old: Json, new: Json) -> dict[str, str]:
    """The renaming of axis sizes from one loop to another."""
    found = {}
    for a, b in zip(old["state"]["inputs"], new["state"]["inputs"], strict=False):
        for (_, m), (_, n) in zip(a["axes"], b["axes"], strict=False):
            if isinstance(m, str) and isinstance(n, str):
                found[m] = n
    return found


def renamed(proof: Any, sizes: Mapping[str, str]) -> Any:
    """A proof with sizes renamed.

    >>> renamed({"steps": [["same", [0], ["size", "q", []]]], "cases": "q"}, {"q": "g_q"})
    {'steps': [['same', [0], ['size', 'g_q', []]]], 'cases': 'g_q'}
    """
    if isinstance(proof, dict):
        return {k: sizes.get(v, v) if k == "cases" else renamed(v, sizes) for k, v in proof.items()}
    if isinstance(proof, (list, tuple)):
        if len(proof) == 3 and proof[0] == "size" and isinstance(proof[1], str):
            return ["size", sizes.get(proof[1], proof[1]), []]
        return [renamed(part, sizes) for part in proof]
    return proof


__all__ = ["key", "of_earlier", "renamed"]
