"""`catdiag axioms`: what must be believed: axioms in words and formulas, the kernel's rules and files, the solvers."""

from __future__ import annotations

import ast
import io
import platform
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

AXIOMS = {
    "A1": "two arrays are equal iff they agree at every index in range",
    "A2": "⊕_{i<n} s = ⊕_{i<n} t if s = t whenever 0 ≤ i < n",
    "A3": "⊕ is a commutative monoid; c ⊗ ⊕_i t = ⊕_i (c ⊗ t) where ⊗ distributes over ⊕, c ⊗ unit = unit, and c is"
    " free of i (c ≥ 0 for × over max and min)",
    "A4": "⊕_i ⊕_j t = ⊕_j ⊕_i t; over a product axis ⊕ nests",
    "A5": "over a coproduct axis ⊕ splits; the empty ⊕ is the unit",
    "A6": "⊕_i ite(i = k, t, unit) = t[i := k] for k in range; hence, with A4, every bijective reindexing",
    "A7": "scalars: ℝ is an ordered field with max and min; exp turns + into × and is above 0, strictly monotone, and"
    " exp 0 = 1; log is its inverse on the positives, sqrt that of squaring on the non-negatives; tanh, sigmoid, abs"
    " and clip have definitions; f(s) = f(t) if s = t, for any f",
    "A8": "⊕ of a constant: Σ_{i<n} 1 = n, max_{i<n} c = c for n ≥ 1",
    "A9": "order: ⊕ is monotone; a sum of non-negatives is at least each of them; a max over a non-empty axis is"
    " attained",
    "A10": "list induction: from S(∅) = unit, S([e]) = element(e) and S(a + b) = merge(S(a), S(b)) for arbitrary lists,"
    " folding S over every list of blocks, in every tree, gives S of the whole",
}
"""The axioms, as the design of the kernel numbers them."""


def run_axioms() -> None:
    """Prints what must be believed."""
    for line in lines():
        print(line)


def lines() -> Iterator[str]:
    """What must be believed, line by line."""
    from catdiag.kernel import checker, definedness, rewrite_rules
    from catdiag.solvers.cvc5 import Cvc5
    from catdiag.solvers.z3 import Z3

    yield "Axioms: t, s are terms, ⊕ is Σ, Π or max, ite is a case distinction"
    yield ""
    for name, text in AXIOMS.items():
        yield from _paragraph(text, f"  {name:>3}  ")
    yield ""
    yield "Theorems, list induction (A10) and groups (A1), as the checker states them"
    yield ""
    yield from (f"  {line}".rstrip() for line in (checker.__doc__ or "").strip().splitlines())
    yield ""
    yield "What a program owes to be defined, as the checker works it out"
    yield ""
    yield from (f"  {line}".rstrip() for line in (definedness.__doc__ or "").strip().splitlines())
    yield ""
    yield "Rules: each gives an equal term, under A2 inside a reduction"
    yield ""
    for name, rule in rewrite_rules.RULES.items():
        first = (rule.__doc__ or "").strip().partition("\n\n")[0]
        words = re.sub(r"^A\d+(, A\d+)*: ", "", " ".join(first.split()))
        yield from _paragraph(words, f"  {name:11} {rewrite_rules.AXIOMS[name]:>3}  ")
    yield ""
    yield "Files to read to believe it, with their lines of code (no blank lines, comments or docstrings)"
    yield ""
    total = 0
    for file in sorted(Path(checker.__file__).resolve().parent.glob("*.py")):
        count = code_lines(file.read_text(encoding="utf-8"))
        total += count
        yield f"  {count:5}  catdiag/kernel/{file.name}"
    yield f"  {total:5}  in all"
    yield ""
    second = Cvc5.version()
    yield "Solvers, asked about integers, and about reals of which nothing is said but what the goal says"
    yield ""
    yield f"  z3 {Z3.version() or 'of unknown version'}"
    yield f"  cvc5 {second}, a second opinion when certificates are checked" if second else "  cvc5 is not installed"
    yield ""
    yield f"Python {platform.python_version()} ({platform.python_implementation()})"


def _paragraph(text: str, head: str, width: int = 120) -> Iterator[str]:
    """Text in lines of a width, the first after a head, the others under it."""
    line = head
    for word in text.split():
        if len(line) + len(word) > width and line.strip():
            yield line.rstrip()
            line = " " * len(head)
        line += word + " "
    yield line.rstrip()


def code_lines(source: str) -> int:
    """The lines of Python that are neither blank nor comment nor docstring.

    >>> code_lines('def f():\\n    \"\"\"Text.\"\"\"\\n\\n    return [  # a list\\n        1,\\n    ]\\n')
    4
    """
    found: set[int] = set()
    quiet = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in quiet:
            found.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        # Also the texts that stand after constants as their documentation.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(found)
