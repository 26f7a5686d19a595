"""`catdiag axioms` says all that must be believed, of all theorems or of one, and counts it right."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from catdiag.cli.axioms_command import AXIOMS
from catdiag.cli.kernel_lines import code_lines, kernel_files, traced
from catdiag.kernel import READING_ORDER
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
    found = {name: int(n) for n, name in re.findall(r"^ +(\d+)    catdiag/kernel/(\w+\.py)$", said, re.MULTILINE)}
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
    assert len(code_lines(SOURCE)) == 1 + 3 + 1 + 2 + 3
    assert code_lines("") == set()


def test_every_file_of_the_kernel_is_read_once():
    files = [name for part in READING_ORDER.values() for name in part]
    assert sorted(files) == sorted(file.stem for file in KERNEL.glob("*.py"))


def test_what_one_theorem_needs_is_part_of_it(run):
    whole, done = run("axioms").out, run("axioms", "proofs/stream_matmul.json")
    assert done.status == 0
    assert "matmul(A[a b], B[b c])" in done.out
    believed = re.findall(r"^ +(A\d+)  ", done.out, re.MULTILINE)
    assert believed == re.findall(r"A\d+", done.out.split("  by ")[1].split(" in ")[0])
    used = set(re.findall(r"^  (\w+) +A\d+  \S", done.out, re.MULTILINE))
    assert used < set(rules.RULES)
    lines, in_all = (
        {name: int(n) for n, name in re.findall(r"^ +(\d+)    (catdiag/kernel/\w+\.py)$", said, re.MULTILINE)}
        for said in (done.out, whole)
    )
    assert set(lines) <= set(in_all)
    assert all(n <= in_all[name] for name, n in lines.items())
    assert 500 < sum(lines.values()) < sum(in_all.values())


def test_functions_that_run_count_whole_and_others_do_not():
    file = kernel_files()["size_scope"]
    first = file.functions[0]
    alone = file.read_for({first.start})
    assert file.read_for(set()) == 0
    assert len(file.code & set(first)) <= alone < len(file.code)
    assert file.read_for({f.start for f in file.functions}) == len(file.code)


def test_the_profile_of_others_is_left_in_place():
    def profile(*_: object) -> None: ...

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        traced(lambda: None)
        assert sys.getprofile() is profile
    finally:
        sys.setprofile(before)


def test_what_is_no_certificate(run, tmp_path):
    missing, other = run("axioms", tmp_path / "no.json"), tmp_path / "other.json"
    other.write_text("{}")
    assert missing.status == 2 and "cannot read" in missing.err
    refused = run("axioms", other)
    assert refused.status == 1 and "REFUSED" in refused.err
