"""Goals in cvc5's terms, in the child process."""

from __future__ import annotations

from typing import Any


class _Goals:
    """One goal's terms, and what the symbols made for floors of quotients satisfy."""

    def __init__(self, cvc5: Any) -> None:
        self.kinds, self.terms = cvc5.Kind, cvc5.TermManager()
        self.integers = self.terms.getIntegerSort()
        self.symbols: dict[str, Any] = {}
        self.also: list[Any] = []

    def make(self, kind: str, *parts: Any) -> Any:
        return self.terms.mkTerm(getattr(self.kinds, kind), *parts)

    def symbol(self, name: str, sort: Any = None) -> Any:
        if name not in self.symbols:
            self.symbols[name] = self.terms.mkConst(sort or self.integers, f"x{len(self.symbols)}")
        return self.symbols[name]

    def same_sort(self, parts: list[Any]) -> list[Any]:
        """Numbers of one sort: integers among reals as reals."""
        if not any(p.getSort().isReal() for p in parts):
            return parts
        return [self.make("TO_REAL", p) if p.getSort().isInteger() else p for p in parts]

    def _nary(self, kind: str, parts: list[Any], neutral: Any) -> Any:
        return self.make(kind, *parts) if len(parts) > 1 else parts[0] if parts else neutral

    def term(self, t: Any) -> Any:
        """A term or condition, from its parts up."""
        op, data, args = t
        if op == "num":
            return self.terms.mkReal(data) if "/" in data else self.terms.mkInteger(data)
        if op == "atom":
            return self.symbol(f"atom {data}", self.terms.getRealSort())
        if op == "prop":
            return self.symbol(f"prop {data}", self.terms.getBooleanSort())
        if op in ("size", "idx"):
            return self.symbol(f"{op} {data}")
        if op in ("true", "false"):
            return self.terms.mkBoolean(op == "true")
        parts = [self.term(a) for a in args]
        if op in ("add", "mul", "lt", "le", "eq"):
            parts = self.same_sort(parts)
        if op == "add":
            return self._nary("ADD", parts, self.terms.mkInteger(0))
        if op == "mul":
            return self._nary("MULT", parts, self.terms.mkInteger(1))
        if op == "and":
            return self._nary("AND", parts, self.terms.mkTrue())
        if op == "or":
            return self._nary("OR", parts, self.terms.mkFalse())
        if op == "not":
            return self.make("NOT", *parts)
        if op == "div":
            return self._floor(*parts)
        if op in ("lt", "le", "eq"):
            return self.make({"lt": "LT", "le": "LEQ", "eq": "EQUAL"}[op], *parts)
        raise ValueError(f"no condition: {op}")

    def _floor(self, a: Any, n: Any) -> Any:
        """⌊a/n⌋, and 0 for n ≤ 0: cvc5's own division has 0 ≤ remainder, which for positive divisors is the floor."""
        zero = self.terms.mkInteger(0)
        return self.make("ITE", self.make("GT", n, zero), self.make("INTS_DIVISION_TOTAL", a, n), zero)


def answer(request: dict[str, Any]) -> str:
    """Whether the hypotheses entail the goal over naturals (sizes), integers (indices), reals (atoms), truth values."""
    return worked_out(request)[0]


def worked_out(request: dict[str, Any]) -> tuple[str, int | None]:
    """The answer, and the work that it took, which cvc5 does not say."""
    import cvc5

    goals = _Goals(cvc5)
    solver = cvc5.Solver(goals.terms)
    solver.setLogic("QF_NIRA")
    solver.setOption("seed", "0")
    solver.setOption("rlimit-per", str(int(request["rlimit"])))
    for h in request["hypotheses"]:
        solver.assertFormula(goals.term(h))
    solver.assertFormula(goals.make("NOT", goals.term(request["goal"])))
    for name, symbol in goals.symbols.items():
        if name.startswith("size "):
            solver.assertFormula(goals.make("GEQ", symbol, goals.terms.mkInteger(0)))
    result = solver.checkSat()
    return "yes" if result.isUnsat() else "no" if result.isSat() else "unknown", None
