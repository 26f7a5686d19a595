"""Small wrong changes of a module, one at a time: what a mutant is.

A comparison gives way to its neighbour and to its opposite; `and` to `or`, and each operand of them is left out; `not`
is dropped; a condition always or never holds; arithmetic is swapped; a number moves by one, a truth value turns over, a
word becomes its counterpart (`lt` and `le`, `sum` and `max`, …) or no word at all; a predicate always answers yes or
no; a call made for its effect, an update of a variable or a `raise` is left out; `break` goes on; `all` and `any`,
`min` and `max` change places; a loop or a comprehension runs over nothing.

Left alone is what cannot change whether something is accepted: the texts of errors, docstrings, annotations, and the
functions in `PRINTING`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

PRINTING = {"__repr__", "__str__", "show", "show_condition", "_say"}
"""Functions whose results people read and nothing goes by."""

JUDGEMENTS = {
    "real", "nonzero", "positive", "nonnegative", "positive_size", "_some", "_nonpositive", "entails", "_entails",
    "_holds_at", "_holds_for", "_ordered", "_no_less", "_of_reals", "below", "holds", "_combined", "_proportional",
    "settled", "closes", "vanishes", "discharge", "natural", "satisfied", "met",
}  # fmt: skip
"""Functions whose yes lets something pass and whose no, at worst, has it refused."""

COUNTERPARTS = {
    "lt": "le", "le": "lt", "eq": "le", "and": "or", "or": "and", "true": "false", "false": "true",
    "sum": "max", "max": "sum", "prod": "sum", "add": "mul", "mul": "add", "min": "max", "any": "all", "all": "any",
    "real": "extended", "extended": "real", "int": "real", "bool": "real", "exp": "log", "log": "exp",
    "size": "idx", "idx": "size", "inv": "exp", "not": "and", "sqrt": "log", "zero": "more", "yes": "no", "no": "yes",
}  # fmt: skip

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr,
}  # fmt: skip
_WIDER = {(ast.Lt, ast.LtE), (ast.Gt, ast.GtE)}
_SWAPPED = {"all": "any", "any": "all", "min": "max", "max": "min"}


@dataclass(frozen=True)
class Mutant:
    """One change: where it is and what it does.

    `function` is the qualified name of the function at module or class level that changes, "" for the module's own
    code; `key` names the mutant in a way that moving lines does not change.
    """

    module: str
    function: str
    line: int
    what: str
    key: str
    tree: ast.Module
    site: Site

    @property
    def condition(self) -> bool:
        """Whether what changes is a condition, or a refusal is left out."""
        node, new = self.site.node, self.site.new
        return (
            isinstance(node, (ast.Compare, ast.BoolOp))
            or (isinstance(node, (ast.If, ast.IfExp, ast.While)) and self.site.field == "test")
            or (isinstance(node, ast.comprehension) and self.site.field == "ifs")
            or isinstance(new, ast.Return)
            or self.what.startswith("without `raise")
            or self.what.endswith(" without not")
            or (self.site.field == "id" and new in _SWAPPED)
        )

    def compiled(self) -> CodeType:
        """The code of the module with the change; a SyntaxError or ValueError where that is no program."""
        old = self.site.put(self.site.new)
        try:
            return compile(ast.fix_missing_locations(self.tree), f"{self.module}.py", "exec")
        finally:
            self.site.put(old)

    def only_refuses(self) -> bool:
        """Whether by its form the change can only refuse more.

        It makes a condition hold more often on which an error is raised, or a judgement say yes less often.
        """
        parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}
        more, node = _more_often(self.site), self.site.node
        if isinstance(self.site.new, ast.Return):
            return more is False and self.function.rpartition(".")[2] in JUDGEMENTS
        within = isinstance(node, (ast.If, ast.IfExp, ast.While))
        while more is not None:
            above = node if within else parents[node]
            if isinstance(above, ast.UnaryOp) and isinstance(above.op, ast.Not):
                more = not more
            elif isinstance(above, ast.comprehension) and node in above.ifs:
                found = parents[parents[above]]
                if isinstance(found, ast.Call) and isinstance(found.func, ast.Name) and found.func.id == "all":
                    more = not more
                above = parents[above]
            elif isinstance(above, ast.If) and node is not above and node is not above.test:
                return False
            elif isinstance(above, ast.If):
                last = above.body[-1]
                if isinstance(last, ast.Raise) and len(above.body) == 1:
                    return more
                answers = isinstance(last, ast.Return) and isinstance(last.value, ast.Constant)
                judges = self.function.rpartition(".")[2] in JUDGEMENTS and answers and len(above.body) == 1
                return judges and more is not ast.literal_eval(last.value)  # type: ignore[attr-defined]
            elif isinstance(above, ast.Return):
                return not more and self.function.rpartition(".")[2] in JUDGEMENTS
            elif not isinstance(above, (ast.BoolOp, ast.GeneratorExp)) and not (
                isinstance(above, ast.Call) and isinstance(above.func, ast.Name) and above.func.id in ("all", "any")
            ):
                return False
            node, within = above, False
        return False


def _more_often(site: Site) -> bool | None:
    """Whether a condition holds more often (True) or less often (False) after a change; None if neither is certain."""
    node, new = site.node, site.new
    if isinstance(new, ast.Return) or (isinstance(node, (ast.If, ast.IfExp, ast.While)) and site.field == "test"):
        value = new.value if isinstance(new, ast.Return) else new
        return bool(value.value) if isinstance(value, ast.Constant) else None
    if isinstance(node, ast.BoolOp) and (site.field == "op" or isinstance(new, list)):
        return isinstance(node.op, ast.And)  # joined by `or`, or without a part
    if isinstance(node, ast.comprehension) and site.field == "ifs" and isinstance(new, ast.Constant):
        return bool(new.value)
    if isinstance(node, ast.Compare) and site.field == "ops" and site.place is not None:
        pair = type(node.ops[site.place]), type(new)
        return True if pair in _WIDER else False if pair[::-1] in _WIDER else None
    return None


@dataclass(frozen=True)
class Site:
    """A field of a node (and a place in it, if it is a list), and what is put there."""

    node: ast.AST
    field: str
    place: int | None
    new: Any
    what: str
    line: int

    def put(self, value: Any) -> Any:
        """Puts a value there and gives what was there."""
        if self.place is None:
            old = getattr(self.node, self.field)
            setattr(self.node, self.field, value)
        else:
            items = getattr(self.node, self.field)
            old = items[self.place]
            items[self.place] = value
        return old


def mutants(module: str, source: str) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of its lines."""
    tree = ast.parse(source)
    seen: dict[str, int] = {}
    for function, site in _functions(tree, ""):
        base = f"{module}:{function or 'module'}: {site.what}"
        seen[base] = seen.get(base, 0) + 1
        key = base if seen[base] == 1 else f"{base} ({seen[base]})"
        yield Mutant(module, function, site.line, site.what, key, tree, site)


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Site]]:
    """Sites with the function that they are in. What runs when the module is loaded is in none."""
    for item in getattr(node, "body", []):
        if isinstance(item, ast.ClassDef):
            yield from _functions(item, f"{prefix}{item.name}.")
        elif isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from (("", site) for site in _sites(item.args))
            if item.name not in PRINTING:
                yes_or_no = isinstance(item.returns, ast.Name) and item.returns.id == "bool"
                for site in _block(item, "body", yes_or_no):
                    yield f"{prefix}{item.name}", site
        elif not isinstance(item, (ast.Import, ast.ImportFrom)):
            yield from (("", site) for site in _sites(item))


def _block(node: ast.AST, field: str, yes_or_no: bool) -> Iterator[Site]:
    for place, statement in enumerate(getattr(node, field)):
        text = ast.unparse(statement).split("\n")[0][:60]
        line = statement.lineno

        def gone(new: ast.stmt, what: str, place: int = place, line: int = line) -> Site:
            return Site(node, field, place, new, what, line)

        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue  # a docstring
        if isinstance(statement, ast.Raise):
            yield gone(ast.Pass(), f"without `{text}`")
            continue
        attribute = isinstance(statement, ast.Assign) and not isinstance(statement.targets[0], (ast.Name, ast.Tuple))
        if isinstance(statement, (ast.Expr, ast.AugAssign)) or attribute:
            yield gone(ast.Pass(), f"without `{text}`")
        if isinstance(statement, ast.Break):
            yield gone(ast.Continue(), "continue for break")
        if isinstance(statement, ast.Continue):
            yield gone(ast.Pass(), "without continue")
        if isinstance(statement, ast.Return) and yes_or_no and not isinstance(statement.value, ast.Constant):
            for answer in (True, False):
                yield gone(ast.Return(ast.Constant(answer)), f"`{text}` is {answer}")
        yield from _sites(statement, yes_or_no)


def _sites(node: ast.AST, yes_or_no: bool = False) -> Iterator[Site]:
    line = getattr(node, "lineno", 0)
    if isinstance(node, (ast.Raise, ast.arg, ast.Import, ast.ImportFrom)):
        return
    yield from _own(node, line)
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "type_comment", "keywords") and not isinstance(node, ast.Call):
            continue
        if name in ("body", "orelse", "finalbody", "handlers") and isinstance(value, list):
            yield from _block(node, name, yes_or_no) if name != "handlers" else ()
            for handler in value if name == "handlers" else ():
                yield from _block(handler, "body", yes_or_no)
        elif isinstance(value, ast.AST):
            yield from (_lined(s, line) for s in _replaced(node, name, None, value))
            yield from _sites(value, yes_or_no)
        elif isinstance(value, list):
            for place, item in enumerate(value):
                if isinstance(item, ast.AST):
                    yield from (_lined(s, line) for s in _replaced(node, name, place, item))
                    yield from _sites(item, yes_or_no)


def _lined(site: Site, line: int) -> Site:
    return site if site.line else Site(site.node, site.field, site.place, site.new, site.what, line)


def _text(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 70 else text[:67] + "…"


def _own(node: ast.AST, line: int) -> Iterator[Site]:
    """Changes of a node's own fields."""
    if isinstance(node, (ast.If, ast.IfExp)):
        for answer in (True, False):
            yield Site(node, "test", None, ast.Constant(answer), f"`if {_text(node.test)}` is {answer}", line)
    elif isinstance(node, ast.While) and not isinstance(node.test, ast.Constant):
        yield Site(node, "test", None, ast.Constant(False), f"`while {_text(node.test)}` never", line)
    elif isinstance(node, ast.comprehension):
        at = node.iter.lineno
        yield Site(node, "iter", None, ast.Tuple([], ast.Load()), f"`for … in {_text(node.iter)}` over nothing", at)
        for k, test in enumerate(node.ifs):
            for answer in (True, False):
                yield Site(node, "ifs", k, ast.Constant(answer), f"`if {_text(test)}` is {answer}", test.lineno)
    elif isinstance(node, ast.For):
        yield Site(node, "iter", None, ast.Tuple([], ast.Load()), f"`for … in {_text(node.iter)}` over nothing", line)
    elif isinstance(node, ast.Compare):
        for k, op in enumerate(node.ops):
            for new in _COMPARISONS.get(type(op), ()):
                yield Site(node, "ops", k, new(), f"`{_text(node)}` with {new.__name__} for {type(op).__name__}", line)
    elif isinstance(node, ast.BoolOp):
        other: ast.boolop = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield Site(node, "op", None, other, f"`{_text(node)}` with {type(other).__name__.lower()}", line)
        for k, left_out in enumerate(node.values):
            kept = [v for j, v in enumerate(node.values) if j != k]
            what = f"`{_text(node)}` without `{_text(left_out)}`"
            # A syntax tree joins two at least.
            yield Site(node, "values", None, kept if len(kept) > 1 else kept * 2, what, left_out.lineno)
    elif isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in _ARITHMETIC:
        new_op = _ARITHMETIC[type(node.op)]
        what = f"`{_text(node)}` with {new_op.__name__} for {type(node.op).__name__}"
        yield Site(node, "op", None, new_op(), what, line)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _SWAPPED:
        new_name = _SWAPPED[node.func.id]
        yield Site(node.func, "id", None, new_name, f"`{_text(node)}` with {new_name}", line)


def _replaced(parent: ast.AST, field: str, place: int | None, node: ast.AST) -> Iterator[Site]:
    """Changes that put another node in place of one."""
    line = getattr(node, "lineno", 0)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield Site(parent, field, place, node.operand, f"`{_text(node)}` without not", line)
    elif isinstance(node, ast.Constant) and not isinstance(parent, (ast.JoinedStr, ast.FormattedValue, ast.Expr)):
        value, beside = node.value, _text(parent)
        news: list[Any] = []
        if isinstance(value, bool):
            news = [not value]
        elif isinstance(value, int):
            news = [value + 1, value - 1] if value else [value + 1]
        elif isinstance(value, str) and value and not isinstance(parent, ast.Raise):
            news = [COUNTERPARTS.get(value, value + "_")]
        for new in news:
            yield Site(parent, field, place, ast.Constant(new), f"{new!r} for {value!r} in `{beside}`", line)
