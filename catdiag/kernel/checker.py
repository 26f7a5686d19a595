"""Theorems, and the checker that replays a certificate into one.

**What a theorem says.** For all sizes in ℕ and all arrays over ℝ (over ℝ ∪ {−∞} where an input is `extended`),
the assumptions and D(left) imply D(right) and `left = right` at every index. Where D(right) does not follow,
the theorem is conditional and says what is newly owed. D is computed here, from the programs.

A certificate that has certificates in `cited` is about a composite: see `composition`.

Assumptions are conditions on sizes (`assume`), and truth values that programs make of the inputs (`given`): each is
defined, and true at every index.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from catdiag.kernel.composition import Composites, known_facts
from catdiag.kernel.context import Context
from catdiag.kernel.contradiction import contradictory
from catdiag.kernel.definedness import Obligation
from catdiag.kernel.facts import Fact
from catdiag.kernel.judgments import Json, only
from catdiag.kernel.loop_rules import Facts, valued
from catdiag.kernel.semantics import Program, Wire, axes_of, inputs_of, numeric
from catdiag.kernel.size_scope import printer_of, symbols
from catdiag.kernel.terms import LOGICAL, KernelError, Printer, Term, fn, leaves, size_term
from catdiag.kernel.well_formed import bounded, well_formed
from catdiag.kernel.witness import met

FORMAT = "catdiag-certificate"
VERSION = 3
_LISTED = 12
"""The most parts of a composite that are printed."""
UNWITNESSED = "not known to be satisfiable: no witness is given of what is taken for granted here"


@dataclass(frozen=True)
class CheckedTheorem:
    """What was proved. Made by `check` only; a certificate that gives it can be replayed anywhere."""

    statement: str
    hypotheses: tuple[str, ...]
    defined: tuple[str, ...]
    conditions: tuple[str, ...]
    axioms: tuple[str, ...]
    steps: int
    goals: int
    trivial: bool
    witness: str = ""
    """An input that meets the hypotheses, the left side's definedness and the conditions; empty where none is given."""
    vacuous: bool | None = None
    """Whether nothing meets these: True where a contradiction was derived, False with a witness, else None."""
    cited: int = 0
    """How many theorems about parts this one rests on, those that they rest on included."""
    parts: tuple[str, ...] = ()
    """Of a composite, what each part makes of what, in order."""
    obligations: tuple[tuple[Obligation, ...], ...] = field(default=((), (), ()), repr=False)
    """What `hypotheses`, `defined` and `conditions` say, as terms."""
    printer: Printer = field(default_factory=Printer, compare=False, repr=False)

    @property
    def conditional(self) -> bool:
        """Whether the right side owes something that the left side does not give."""
        return bool(self.conditions)

    def __str__(self) -> str:
        lines = [self.statement, "  for all " + (", ".join(self.hypotheses) or "sizes")]
        if self.parts:
            more = f"; and {len(self.parts) - _LISTED} more" if len(self.parts) > _LISTED else ""
            lines.append("  in parts: " + "; ".join(self.parts[:_LISTED]) + more)
        if self.defined:
            lines.append("  where the left side is defined: " + "; ".join(self.defined))
        if self.conditions:
            lines.append("  CONDITIONAL, the right side newly needs: " + "; ".join(self.conditions))
        if self.trivial:
            lines.append("  (trivial: both sides are one term)")
        if self.vacuous:
            lines.append("  VACUOUS: nothing meets what is taken for granted here, so that this says nothing")
        else:
            lines.append(f"  witness: {self.witness}" if self.witness else f"  {UNWITNESSED}")
        citing = f", citing {self.cited} theorem{'s' * (self.cited > 1)} about its parts" if self.cited else ""
        by = ", ".join(self.axioms) or "reflexivity"
        lines.append(f"  by {by} in {self.steps} steps, {self.goals} solver goals{citing}")
        return "\n".join(lines)


class Checker(Composites):
    """Replays certificates into theorems. `hypotheses` are all that the last one takes for granted."""

    hypotheses: tuple[Obligation, ...] = ()
    printer = Printer()
    _taken: Facts = ()
    _elements: Mapping[str, str] = {}

    def check(self, certificate: Json) -> CheckedTheorem:
        """The theorem of a certificate. Raises KernelError where it does not follow."""
        theorem = self.proved(certificate)
        return theorem if theorem.witness else self.examined(theorem)

    def examined(self, theorem: CheckedTheorem) -> CheckedTheorem:
        """The last theorem, which has no witness, and whether it is about nothing: not known where that is too much."""
        try:
            vacuous = contradictory(self.ask, self._taken, self._elements)
        except (KernelError, RecursionError):
            vacuous = False
        return replace(theorem, vacuous=vacuous or None)

    def proved(self, certificate: Json) -> CheckedTheorem:
        """`check`, without the question whether the theorem is about nothing."""
        try:
            return self._check(certificate)
        except RecursionError as error:
            raise KernelError("a term is nested too deeply") from error
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError) as error:
            raise KernelError(f"the certificate is malformed: {type(error).__name__}: {error}") from error

    def proof_of(self, certificate: Json) -> dict[str, Any]:
        """A copy of the proof, of which parts are taken out as they are used."""
        proof: dict[str, Any] = json.loads(json.dumps(certificate["proof"]))
        only(proof, "folds", "outputs", "defined", "facts", "parts", "results")
        return proof

    def _check(self, certificate: Json) -> CheckedTheorem:
        _require_form(certificate)
        statement, proof = certificate["statement"], self.proof_of(certificate)
        only(statement, "left", "right", "assume", "given")
        left, right = statement["left"], statement["right"]
        well_formed(left)
        well_formed(right)
        if not isinstance(statement["assume"], list):
            raise KernelError("the assumptions are no list")
        assume = tuple(Fact((), (), condition(c)) for c in statement["assume"])
        names = _declared(left)
        if _interface(left) != _interface(right):
            raise KernelError(f"the two sides take different inputs: {_interface(left)} and {_interface(right)}")
        scope = frozenset(symbols(left) | symbols(right))
        # An assumption about a size of the kernel's own, or of blocks, would be one about the proof.
        if unknown := set().union(*(leaves(f.condition, "size") for f in assume)) - scope:
            raise KernelError(f"the assumptions speak of {sorted(unknown)[0]!r}, which is no size of the two sides")
        inputs = inputs_of(left, {})
        of_sizes = [Obligation((), (), condition(c)) for c in statement["assume"]]
        given = self.given(statement, inputs, assume, names, scope)
        newly: list[Obligation] = []
        equal, cited = False, 0
        self.cuts, self.parts = (), ()
        if "cited" in certificate:
            theorems = [self.cited(c) for c in certificate["cited"]]
            cited = sum(1 + theorem.cited for theorem in theorems)
            statements = [c["statement"] for c in certificate["cited"]]
            defined = self.composed(statement, proof, statements, assume, given, scope)
            proof = {k: v for k, v in proof.items() if k not in ("parts", "results")}
            self._taken = (*assume, *(o.fact() for o in (*given, *defined)))
        else:
            known = assume + tuple(fact for o in given for fact in known_facts(o))
            defined, newly, equal = self._direct(left, right, proof, known, scope)
        self.consumed(proof)
        self._elements = names
        self.hypotheses = (*of_sizes, *given, *defined, *newly)
        loops = any(node["op"] in ("fold", "group") for node in right["nodes"])
        # What is owed of cuts is said by their names, which are those of no index then.
        self.printer = printer_of(left, right, *statement.get("given", ()), arrays=self.cut_names)
        theorem = CheckedTheorem(
            self.said(left, right),
            tuple(dict.fromkeys(o.said(self.printer) for o in (*of_sizes, *given))),
            tuple(dict.fromkeys(o.said(self.printer) for o in defined)),
            tuple(dict.fromkeys(o.said(self.printer) for o in newly)),
            tuple(sorted(self.axioms, key=lambda name: int(name[1:]))),
            self.steps,
            self.goals,
            (equal and not loops) or (left["nodes"], left["outputs"]) == (right["nodes"], right["outputs"]),
            cited=cited,
            parts=tuple(self.parts),
            obligations=((*of_sizes, *given), tuple(defined), tuple(newly)),
            printer=self.printer,
        )
        witness = certificate.get("witness")
        return theorem if witness is None else self.witnessed(theorem, left["inputs"], witness)

    def _direct(
        self, left: Program, right: Program, proof: dict[str, Any], assume: Facts, scope: frozenset[str]
    ) -> tuple[list[Obligation], list[Obligation], bool]:
        """What the left side owes, what the right side owes newly, and whether both sides are one term; all else that
        the right side owes, and that the two are equal, is proved."""
        names = _declared(left)
        self._proofs = proof.setdefault("folds", [])
        inputs = inputs_of(left, {})
        lefts = self.meaning(left, inputs, {}, assume, names, scope)
        defined = self.owed(lefts, assume, names)
        facts: Facts = assume + tuple(o.fact() for o in defined)
        facts += self.derived_facts(defined, facts, names, proof)
        facts += self.further_facts(defined, facts, names, self.item(proof, "defined", "again"))
        rights = self.meaning(right, inputs, {}, facts, names, scope)
        if [(w.axes, w.element) for w in lefts.outputs] != [(w.axes, w.element) for w in rights.outputs]:
            raise KernelError("the two sides give different types")
        # What the right side owes and the left side does not give becomes a condition of the theorem.
        demands = self.owed(lefts, assume, names, all_of_it=True)
        ctx = Context(self.ask, {}, facts, names)
        newly = [
            owed
            for k, owed in enumerate(self.owed(rights, facts, names))
            if not self.discharge(ctx, owed, self.item(proof, "defined", k), demands)
        ]
        facts += tuple(o.fact() for o in newly)
        of_newly = self.item(proof, "defined", "newly")
        only(of_newly, "facts")
        facts += self.derived_facts(newly, facts, names, of_newly)
        equal = True
        for k, (x, y) in enumerate(zip(lefts.outputs, rights.outputs, strict=True)):
            equal = equal and valued(x) == valued(y)
            ctx = Context(self.ask, dict(x.axes), facts, names)
            self.holds(ctx, fn("eq", numeric(x.term), numeric(y.term)), self.item(proof, "outputs", k))
        self._taken = facts
        return defined, newly, equal

    def cited(self, certificate: Json) -> CheckedTheorem:
        """The theorem of a certificate that this one cites, proved here and now; its statement is compared with what
        cites it, never a name or a digest of it. Raises KernelError for one on a condition, and for one about nothing.
        """
        other = Checker(self._ask)
        theorem = other.check(certificate)
        if theorem.conditional or theorem.vacuous:
            raise KernelError(f"a theorem that is {'about nothing' if theorem.vacuous else 'conditional'} is not cited")
        self.goals, self.steps, self.axioms = (
            self.goals + other.goals,
            self.steps + other.steps,
            self.axioms | other.axioms,
        )
        return theorem

    def given(
        self, statement: Json, inputs: Sequence[Wire], assume: Facts, names: Mapping[str, str], scope: frozenset[str]
    ) -> list[Obligation]:
        """The hypotheses on inputs: of each program in `given`, what it owes, and that its results are true.

        They are what the theorem takes for granted, so nothing has to be shown of them. What a program owes is among
        them, since a truth value says what it seems to say only where it is defined: `1/a = 0` is no hypothesis that
        a = 0 could meet. What is left out follows from the assumptions on sizes. Raises KernelError for a program of
        other inputs or sizes, with loops, or whose results are numbers.
        """
        given = statement.get("given", [])
        if not isinstance(given, list):
            raise KernelError("the hypotheses on inputs are no list")
        found: list[Obligation] = []
        for program in given:
            well_formed(program)
            if _interface(program) != _interface(statement["left"]) or not symbols(program) <= scope:
                raise KernelError("a hypothesis is about other inputs or sizes than the two sides")
            if any(node["op"] in ("fold", "group") for node in program["nodes"]):
                raise KernelError("a hypothesis has no loops")
            meaning = self.meaning(program, inputs, {}, assume, names, scope)
            if any(w.element != "bool" or w.term.op not in LOGICAL for w in meaning.outputs):
                raise KernelError("a hypothesis gives truth values")
            found += self.owed(meaning, assume, names)
            found += [Obligation(w.axes, (), w.term) for w in meaning.outputs]
        return found

    def witnessed(self, theorem: CheckedTheorem, inputs: Sequence[Json], witness: Json) -> CheckedTheorem:
        """The last theorem with a witness. Raises KernelError where that does not meet what the theorem assumes."""
        if not met(self.hypotheses, inputs, witness, self.cuts):
            raise KernelError("the witness does not meet the hypotheses of the theorem")
        sizes = [f"{name}={n}" for name, n in sorted(witness["sizes"].items())]
        arrays = [f"{name} = {str(witness['arrays'][name]).replace(chr(39), '')}" for name in sorted(witness["arrays"])]
        shown = "; ".join([*sizes, *(text for text in arrays if len(text) <= 60)])
        return replace(theorem, witness=shown or "the inputs are numbers that are not printed", vacuous=False)

    def said(self, left: Program, right: Program) -> str:
        """The equation as text; two programs of one name get different ones."""
        names = [str(p.get("title") or side) for p, side in ((left, "left"), (right, "right"))]
        if names[0] == names[1]:
            names = [f"{side} {name}" for side, name in zip(("left", "right"), names, strict=True)]
        inputs = ", ".join(self.declared(d) for d in left["inputs"])
        return " = ".join(f"{name}({inputs})" for name in names)

    def declared(self, d: Json) -> str:
        """An input with its axes, their sizes where these are not their names, and its sort where it is not real."""
        sizes = ((str(axis), self.printer.show(size_term(s))) for axis, s in d["axes"])
        axes = " ".join(axis if axis == s else f"{axis}={s}" for axis, s in sizes)
        return f"{d['name']}[{axes}]" if d["element"] == "real" else f"{d['name']}: {d['element']}[{axes}]"


def condition(c: Any) -> Term:
    """An assumption `[op, size, size]` with op one of lt, le, eq, as a term."""
    if not isinstance(c, (list, tuple)) or len(c) != 3 or c[0] not in ("lt", "le", "eq"):
        raise KernelError(f"not an assumption: {c!r}")
    return fn(c[0], size_term(c[1]), size_term(c[2]))


def _require_form(certificate: Json) -> None:
    """Raises KernelError unless it is a certificate of this format and version, not too large."""
    bounded(certificate)
    if certificate.get("format") != FORMAT or certificate.get("version") != VERSION:
        raise KernelError(f"not a {FORMAT} of version {VERSION}")
    only(certificate, "format", "version", "statement", "proof", "about", "witness", "cited")
    about = certificate.get("about", [])
    if not isinstance(about, list) or not all(isinstance(line, str) for line in about):
        raise KernelError("what a certificate says about itself is a list of lines")


def _declared(program: Program) -> dict[str, str]:
    """The element types of inputs by their names."""
    return {str(d["name"]): str(d["element"]) for d in program["inputs"]}


def _interface(program: Program) -> list[Any]:
    """The inputs. Both sides have one list of names: what is printed of either speaks of the same arrays."""
    return [(d["name"], axes_of(d["axes"], {}), d["element"]) for d in program["inputs"]]


__all__ = ["CheckedTheorem", "Checker", "condition"]
