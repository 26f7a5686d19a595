"""`catdiag axioms`: the trusted base. Axioms in words and formulas, the kernel's rules and files, the solvers."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from catdiag.cli.exit_status import REFUTED, WRONG_USE, fail, shown
from catdiag.cli.kernel_lines import kernel_files, traced
from catdiag.kernel import READING_ORDER
from catdiag.util.line_breaking import filled

AXIOMS = {
    "A1": "two arrays are equal iff they agree at every index in range",
    "A2": "⊕_{i<n} s = ⊕_{i<n} t if s = t whenever 0 ≤ i < n",
    "A3": "⊕ is a commutative monoid; c ⊗ ⊕_i t = ⊕_i (c ⊗ t) where ⊗ distributes over ⊕, c ⊗ unit = unit, and c is"
    " free of i (c ≥ 0 for × over max and min)",
    "A4": "⊕_i ⊕_j t = ⊕_j ⊕_i t; over a product axis ⊕ nests",
    "A5": "over a coproduct axis ⊕ splits; the empty ⊕ is the unit",
    "A6": "⊕_i ite(i = k, t, unit) = t[i := k] for k in range; hence, with A4, every bijective reindexing",
    "A7": "scalars: ℝ is an ordered field with max and min; exp turns + into × and is above 0, strictly monotone, and"
    " exp 0 = 1; log is its inverse on the positives, sqrt that of squaring on the non-negatives; sin(a + b) ="
    " sin a·cos b + cos a·sin b, cos(a + b) = cos a·cos b − sin a·sin b, sin² + cos² = 1, sin 0 = 0, cos 0 = 1; sin and"
    " erf are odd, cos is even; tanh, sigmoid, abs, clip, sign and rounding have definitions; f(s) = f(t) if s = t, for"
    " any f",
    "A8": "⊕ of a constant: Σ_{i<n} 1 = n, max_{i<n} c = c for n ≥ 1",
    "A9": "order: ⊕ is monotone; a sum of non-negatives is at least each of them; a max over a non-empty axis is"
    " attained",
    "A10": "list induction: from S(∅) = unit, S([e]) = element(e) and S(a + b) = merge(S(a), S(b)) for arbitrary lists,"
    " folding S over every list of blocks, in every tree, gives S of the whole",
}
"""The axioms, as the design of the kernel numbers them."""


def run_axioms(certificate: Path | None = None) -> None:
    """Prints what must be believed: in general, or for the theorem of a certificate."""
    from catdiag.cli.check_verdict import Malformed, Unreadable
    from catdiag.kernel.terms import KernelError

    try:
        for line in lines() if certificate is None else lines_for(certificate):
            print(line)
    except Unreadable as error:
        fail(f"cannot read {shown(str(certificate))}: {error}", WRONG_USE)
    except (Malformed, KernelError) as error:
        fail(f"{shown(str(certificate))}: REFUSED: {shown(str(error))}", REFUTED)


def lines() -> Iterator[str]:
    """What must be believed, as lines of text."""
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
        yield from _rule(name, rule, rewrite_rules.AXIOMS[name])
    yield ""
    yield "Files to read to believe it, with their lines of code (no blank lines, comments or docstrings)"
    yield ""
    yield from _files({name: len(file.code) for name, file in kernel_files().items()})
    yield ""
    second = Cvc5.version()
    yield "Solvers, asked about integers, and about reals of which nothing is said but what the goal says"
    yield ""
    yield f"  z3 {Z3.version() or 'of unknown version'}"
    yield f"  cvc5 {second}, a second opinion when certificates are checked" if second else "  cvc5 is not installed"
    yield ""
    yield f"Python {platform.python_version()} ({platform.python_implementation()})"


def lines_for(certificate: Path) -> Iterator[str]:
    """What must be believed for one theorem: the axioms and rules of its proof, and the code that its replay runs.

    A function of the kernel that runs is counted in full, and so are the tables and classes of its file. Raises
    Unreadable, Malformed, or KernelError for a certificate that is refused.
    """
    from catdiag.cli.check_verdict import Solvers, content_of, data_of
    from catdiag.kernel import rewrite_rules
    from catdiag.kernel.checker import Checker

    data = data_of(content_of(certificate))
    with Solvers() as solvers:
        checker = Checker(solvers.first)
        theorem, entered, codes = traced(lambda: checker.check(data))
    yield from str(theorem).split("\n")
    yield ""
    yield "Axioms"
    yield ""
    for name in theorem.axioms:
        yield from _paragraph(AXIOMS[name], f"  {name:>3}  ")
    yield ""
    yield "Rules"
    yield ""
    for name, rule in rewrite_rules.RULES.items():
        if rule.__code__ in codes:
            yield from _rule(name, rule, rewrite_rules.AXIOMS[name])
    yield ""
    yield "Lines of code to read: the functions of the kernel that the replay of its certificate runs"
    yield ""
    yield from _files({name: file.read_for(entered.get(name, set())) for name, file in kernel_files().items()})


def _rule(name: str, rule: Callable[..., object], axiom: str) -> Iterator[str]:
    first = (rule.__doc__ or "").strip().partition("\n\n")[0]
    words = re.sub(r"^A\d+(, A\d+)*: ", "", " ".join(first.split()))
    yield from _paragraph(words, f"  {name:11} {axiom:>3}  ")


def _files(counts: Mapping[str, int]) -> Iterator[str]:
    """The kernel's files with their lines, by purpose, in reading order."""
    for part, names in READING_ORDER.items():
        yield f"  {sum(counts[name] for name in names):5}  {part}"
        yield from (f"  {counts[name]:5}    catdiag/kernel/{name}.py" for name in names if counts[name])
    yield f"  {sum(counts.values()):5}  in all"


def _paragraph(text: str, head: str, width: int = 120) -> Iterator[str]:
    """Text wrapped to a width, the first line after a head, the others indented under it."""
    for k, line in enumerate(filled(text.split(), width - len(head))):
        yield f"{' ' * len(head) if k else head}{line}"
