"""`catdiag axioms` says all that must be believed, and counts it right."""

from __future__ import annotations

import re
from pathlib import Path

from catdiag.cli.axioms_command import AXIOMS, code_lines
from catdiag.kernel import rewrite_rules as rules

KERNEL = Path(rules.__file__).parent


def test_everything_is_said(run):
    done = run("axioms")
    assert done.status == 0
    said = done.out
    for name in AXIOMS:
        assert re.search(rf"^ +{name}  ", said, re.MULTILINE), name
    assert list(AXIOMS) == [f"A{k}" for k in range(1, 11)]
    assert set(rules.AXIOMS.values()) <= set(AXIOMS)
    for owed in ("inv a       a real and not 0", "div a n     a real and n > 0"):
        assert owed in said
    for name in rules.RULES:
        assert re.search(rf"^  {name} +A\d+  \S", said, re.MULTILINE), name
    found = {name: int(n) for n, name in re.findall(r"^ +(\d+)  catdiag/kernel/(\w+\.py)$", said, re.MULTILINE)}
    assert set(found) == {file.name for file in KERNEL.glob("*.py")}
    total = re.search(r"^ +(\d+)  in all$", said, re.MULTILINE)
    assert total is not None and int(total[1]) == sum(found.values()) > 500
    for solver in (r"z3 \d", r"cvc5 \d", r"Python 3"):
        assert re.search(solver, said), solver
    assert max(map(len, said.splitlines())) <= 120


SOURCE = '''"""A module."""

from x import y  # a comment
# a line of comment

TEXT = """one
two
"""
"""What it is."""


class C:
    """Text

    more."""

    def f(self,
          a):
        """Text."""
        return (

            a
        )
'''


def test_lines_of_code_are_counted():
    # The import, three of TEXT, the class, two of f, three of its return: a blank line inside is none.
    assert code_lines(SOURCE) == 1 + 3 + 1 + 2 + 3
    assert code_lines("") == 0
