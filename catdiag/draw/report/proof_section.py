"""Proofs, typeset: theorems with their hypotheses, the certificate, verdicts on loops and exponentials."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from catdiag.category.formula import call, infix, number, symbol
from catdiag.draw.report.html import Html, escaped, folded, joined, listed, table, tag
from catdiag.draw.report.mathml import of_formula, plain
from catdiag.execute.size_inference import tile_bounds
from catdiag.prover.condition_formulas import Condition
from catdiag.rewrite.stability import lost_maxima
from catdiag.solvers.z3 import Z3

if TYPE_CHECKING:
    from catdiag.category.diagram import Diagram
    from catdiag.category.formula import Formula
    from catdiag.prover.api import Theorem
    from catdiag.rewrite.claims import Verdict
    from catdiag.rewrite.stability import Stability

_LOOKS = {"proved": "good", "conditional": "warn", "refuted": "bad"}


def mark(word: str, look: str = "soft") -> Html:
    """A label that says how sure the following statement is."""
    return tag("span", word, class_=f"mark {look}")


def status(theorem: Theorem) -> Html:
    """The label of a theorem: proved, proved on a condition, or vacuous."""
    return mark(theorem.verdict, "bad" if theorem.vacuous else "warn" if theorem.conditional else "good")


def statement(theorem: Theorem) -> Html:
    """The equation, with line breaks allowed at its dots and brackets."""
    text = escaped(theorem.statement)
    for sign in (").", ", ", " = "):
        text = Html(text.replace(sign, f"{sign.rstrip()}<wbr>{' ' if sign.endswith(' ') else ''}"))
    return tag("code", text)


def theorem_rows(theorem: Theorem, diagram: Diagram | None = None, times: bool = False) -> Html:
    """A theorem as a table: its statement, its hypotheses, and the axioms and solvers that it rests on."""
    rows: list[tuple[str, Html]] = [("says", statement(theorem))]
    found = theorem.formulas
    rows.append(("for all", _conditions(found.hypotheses, ", ") if found.hypotheses else escaped("sizes")))
    symbols = _symbols(diagram)
    if symbols:
        rows.append(
            ("and all", joined([escaped("blocks and tiles of every size: "), joined(map(of_formula, symbols), ", ")]))
        )
    if found.defined:
        rows.append(("where the left side is defined", _lines(found.defined)))
    if found.conditions:
        rows.append(("on the condition", _lines(found.conditions)))
    if theorem.taken:
        rows.append(("where", _texts(theorem.taken)))
    if theorem.trivial:
        rows.append(("note", escaped("both sides are the same term")))
    if theorem.vacuous:
        rows.append(("vacuous", escaped("no arrays satisfy the hypotheses, so that the theorem says nothing")))
    else:
        witness = plain(theorem.witness) if theorem.witness else escaped("none was found: not known to be satisfiable")
        rows.append(("a witness that satisfies the hypotheses", witness))
    rows.append(("by the axioms", escaped(", ".join(theorem.axioms) or "none: reflexivity")))
    rows.append(("checked", _checked(theorem)))
    if times:
        rows.append(("time", escaped(f"{theorem.seconds:.2f} s to find and check")))
    return tag("div", table([], rows, label="theorem"), class_="scroll")


def _checked(theorem: Theorem) -> Html:
    goals = theorem.checked.goals
    solver = f"z3 {Z3.version() or ''}".strip()
    asked = f"{goals} goal{'s' if goals != 1 else ''} put to {solver}" if goals else "no goal put to a solver"
    steps = theorem.checked.steps
    return escaped(f"replayed by the kernel in {steps} step{'s' if steps != 1 else ''}, {asked}")


def _symbols(diagram: Diagram | None) -> list[Formula]:
    return [] if diagram is None else [*map(symbol, tile_bounds(diagram))]


def of_condition(condition: Condition) -> Html:
    """A condition with its guards and ranges, typeset.

    >>> a, n = symbol("a"), symbol("n")
    >>> shown = of_condition(Condition(infix("≠", a, number(0)), (infix("<", a, n),), (infix("<", symbol("i"), n),)))
    >>> shown.count("<math"), " where " in shown, " for all " in shown
    (3, True, True)
    """
    parts = [of_formula(condition.said)]
    if condition.guards:
        parts += [escaped(" where "), joined(map(of_formula, condition.guards), " and ")]
    if condition.ranges:
        parts += [escaped(" for all "), joined(map(of_formula, condition.ranges), ", ")]
    return joined(parts)


def _conditions(conditions: Iterable[Condition], between: str) -> Html:
    return joined(map(of_condition, conditions), between)


def _lines(conditions: Iterable[Condition]) -> Html:
    return joined([tag("div", of_condition(condition)) for condition in conditions])


def _texts(texts: Iterable[str]) -> Html:
    return joined([tag("div", plain(text)) for text in texts])


def certificate(theorem: Theorem, called: str) -> Html:
    """The certificate as a download, with the command that checks it."""
    content = theorem.text().encode()
    file = f"{file_name(called)}.certificate.json"
    digest = hashlib.sha256(content).hexdigest()
    address = f"data:application/json;base64,{base64.b64encode(content).decode('ascii')}"
    return joined(
        [
            tag(
                "p",
                tag("a", "Download the certificate", href=address, download=file, class_="button"),
                tag("span", f" {len(content):,} bytes", class_="soft"),
            ),
            tag(
                "p",
                "It is checked again, by the kernel and the solvers alone, in a fresh process, with ",
                plain(f"catdiag check {file}"),
                ", which prints the two sides as formulas. What has to be trusted is listed by ",
                plain("catdiag axioms"),
                ".",
            ),
            tag("p", "SHA-256 ", plain(digest), class_="soft"),
        ]
    )


def file_name(title: str) -> str:
    """A title as a file name: letters, digits, dots, dashes.

    >>> file_name("f.stream('x').group('q')")
    'f.stream-x-.group-q'
    """
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in title)
    while "--" in kept:
        kept = kept.replace("--", "-")
    return kept.strip("-.")[:80] or "derivation"


def verdict_rows(verdicts: Mapping[str, Verdict]) -> Html:
    """Claims and their verdicts."""
    rows = []
    for name, verdict in verdicts.items():
        said = joined([plain(verdict.goal)]) if verdict.goal and not verdict.proved else escaped("")
        if verdict.conditions:
            said = _lines(verdict.conditions)
        word = "proved where" if verdict.verdict == "conditional" else verdict.verdict
        rows.append((escaped(name), mark(word, _LOOKS.get(verdict.verdict, "soft")), said))
    found = table(["claim", "verdict", ""], rows, label="claims about the loops")
    return tag("div", found, class_="scroll")


def exponential_rows(stability: Stability) -> Html:
    """Whether each exponential is bounded, and subtractions and divisions of the source that the loops lack."""
    rows = []
    for e in stability.exponentials:
        v = e.verdict
        word = {"conditional": "proved where", "refuted": "not bounded by 1"}.get(v.verdict, v.verdict)
        where = escaped(e.where + (", where it is used" if e.chosen else ""))
        said = [*map(of_condition, v.conditions)]
        if e.line and not v.proved:
            said.append(plain(e.line))
        claim = of_formula(infix("≤", call("exp", e.argument), number(1)))
        rows.append((where, claim, mark(word, _LOOKS.get(v.verdict, "soft")), joined(said, "; ")))
    last = str(replace(stability, dropped=())).splitlines()[-1]
    lost = [tag("p", escaped(text + ".")) for text in lost_maxima(stability.dropped)]
    parts = [table(["where", "claim", "verdict", ""], rows, label="exponentials")] if rows else []
    return joined([tag("div", *parts, class_="scroll"), tag("p", last[:1].upper() + last[1:] + "."), *lost])


def theorem_card(theorem: Theorem) -> Html:
    """A theorem for a notebook."""
    return joined(
        [
            tag("p", status(theorem), " ", statement(theorem)),
            theorem_rows(theorem),
            folded("the certificate", certificate(theorem, "theorem")),
        ]
    )


def verdict_card(verdict: Verdict) -> Html:
    """A verdict for a notebook."""
    parts = [tag("p", mark(verdict.verdict, _LOOKS.get(verdict.verdict, "soft")))]
    if verdict.theorem is not None:
        parts.append(theorem_rows(verdict.theorem))
    if verdict.conditions:
        parts.append(tag("p", "where ", _conditions(verdict.conditions, ", ")))
    if verdict.counterexample is not None:
        parts.append(tag("pre", str(verdict.counterexample)))
    elif verdict.goal:
        parts.append(tag("p", "it stopped at ", plain(verdict.goal)))
    if verdict.lemmas:
        parts.append(folded(f"{len(verdict.lemmas)} lemmas", listed(statement(t) for t in verdict.lemmas)))
    return joined(parts)
