"""Costs, typeset: transfers H and memory M, the least H that a memory allows, and the lower bound."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from catdiag.draw.report.html import Html, escaped, folded, joined, listed, table, tag
from catdiag.draw.report.mathml import at, equation, math, of_expr, plain, sign
from catdiag.util.errors import CatdiagError

if TYPE_CHECKING:
    from catdiag.bounds.lower_bound import LowerBound
    from catdiag.cost.level_formulas import LevelsIO
    from catdiag.cost.traffic import IO, LiveArray, Traffic
    from catdiag.optimum.minimize import Optimum
    from catdiag.optimum.regimes import Regime, Regimes

Expr = Any

_LONG = 260
"""Formulas with a longer text are folded."""
_LONGEST = 2500
"""Formulas with a longer text are shown as text: browsers are slow to set them, and they are not readable."""


def formula(expr: Expr) -> Html:
    """A formula, folded where it is long."""
    text = str(expr)
    if len(text) > _LONGEST:
        return folded(f"a formula of {len(text):,} letters", plain(text))
    if len(text) > _LONG:
        return folded("a long formula", tag("div", _in_lines(expr), class_="scroll"))
    return of_expr(expr)


def _in_lines(expr: Expr) -> Html:
    """A sum term by term, so that lines can break between them, on paper too."""
    terms = expr.as_ordered_terms() if expr.is_Add else [expr]
    found: list[Html] = []
    for k, term in enumerate(terms):
        minus = k > 0 and term.could_extract_minus_sign()
        sign = " − " if minus else " + " if k else ""
        found += [escaped(sign), of_expr(-term if minus else term)]
    return joined(found, "")


def displayed(left: Html, expr: Expr) -> Html:
    """An equation on a line of its own, folded where it is long."""
    if len(str(expr)) > _LONG * 2:
        return tag("div", math(left), " = ", formula(expr))
    return tag("div", equation(left, expr, block=True), class_="scroll")


def _h(*below: str, above: str = "") -> Html:
    """H, with an edge below, or a star."""
    head = tag("mi", "H")
    low = tag("mrow", *(tag("mtext", b) if k % 2 == 0 else sign(b) for k, b in enumerate(below))) if below else None
    if low is not None and above:
        return tag("msubsup", head, low, tag("mtext", above))
    if low is not None:
        return tag("msub", head, low)
    return tag("msup", head, tag("mtext", above)) if above else head


def of_io(io: IO) -> Html:
    """The transfers and memory between two levels."""
    parts = [displayed(_h(), io.transfers)]
    if io.relaxed != io.transfers:
        parts += [tag("p", "Without ceilings (real numbers of tiles):"), displayed(_h(above="relaxed"), io.relaxed)]
    parts.append(displayed(tag("mi", "M"), io.memory))
    if io.accumulators == "registers":
        parts.append(displayed(tag("msub", tag("mi", "M"), tag("mtext", "registers")), io.registers))
    parts += [_traffic(io.traffic, io.unit), _live_arrays(io.live_arrays, io.unit)]
    work = [(escaped(_PIPES.get(pipe, pipe)), formula(expr)) for pipe, expr in io.work.items() if expr != 0]
    if work:
        parts.append(_table(["pipeline", "scalar operations"], work, "Work"))
    parts.append(folded("the order of the boxes", tag("p", plain(io.order))))
    parts += [tag("p", f"Assumed: {words}") for words in io.assumptions]
    return joined(parts)


_PIPES = {"tensor": "products (matrix units)", "exp": "special functions", "alu": "other scalar operations"}


def _table(head: Iterable[str], rows: Iterable[Iterable[str]], caption: str) -> Html:
    return tag("div", table(head, rows, caption), class_="scroll")


def _traffic(traffic: Iterable[Traffic], unit: str) -> Html:
    rows = [(plain(t.array), escaped(t.direction), formula(t.exact)) for t in traffic]
    return _table(["array", "", unit], rows, "Transfers by array")


def _live_arrays(live_arrays: Iterable[LiveArray], unit: str) -> Html:
    rows = [(plain(r.array), escaped(r.role), formula(r.values)) for r in live_arrays]
    return _table(["array", "role", unit], rows, "Arrays allocated at the peak of memory")


def in_short(io: IO, optimum: Optimum | str) -> list[Html]:
    """H, M, and the least H at leading order, a line each."""
    parts = [displayed(_h(), io.transfers), displayed(tag("mi", "M"), io.memory)]
    if not isinstance(optimum, str) and optimum.leading is not None:
        parts.append(displayed(_h(above="∗"), optimum.leading))
    return [tag("p", f"H and M in {io.unit}", class_="soft"), *parts]


def of_levels(io: LevelsIO) -> Html:
    """Transfers and memory at each level and edge of a hierarchy."""
    parts: list[Html] = []
    for (upper, lower), edge in io.edges.items():
        body = [displayed(_h(upper, "→", lower), edge.transfers)]
        if edge.relaxed != edge.transfers:
            body.append(displayed(_h(upper, "→", lower, above="relaxed"), edge.relaxed))
        if lower in io.memory:
            body.append(displayed(tag("msub", tag("mi", "M"), tag("mtext", lower)), io.memory[lower]))
        allocated = io.live_arrays.get(lower)
        further = [_traffic(edge.traffic, io.unit)] if edge.traffic else []
        if allocated:
            further.append(_live_arrays(allocated, io.unit))
        if lower in io.children:
            side = tag("p", f"Tiles of {lower} in one tile of the level above: ", formula(io.children[lower]))
            further.append(side)
        head = [tag("h3", f"{upper} to {lower}" + ("" if lower in io.groups else " (a cache)"))]
        if lower not in io.groups:
            head.append(tag("p", _CACHE, class_="soft"))
        parts.append(tag("div", *head, *body, folded("by array", *further) if further else ""))
    return joined(parts)


_CACHE = (
    "Groups run in waves. Fetched: each distinct tile that the groups of a wave load, once, if all of them fit the "
    "cache together. Distinct: the largest total of the distinct tiles of a wave. Both need given sizes and tiles."
)


def of_optimum(optimum: Optimum, words: str = "") -> Html:
    """The least transfers that a memory allows, with tiles, conditions and regimes."""
    parts: list[Html] = []
    for called, value, tiles, conditions in (
        ("At leading order", optimum.leading, optimum.leading_tiles, optimum.leading_conditions),
        ("Exactly, over real tiles", optimum.exact, optimum.tiles, optimum.conditions),
    ):
        if value is None:
            continue
        parts += [tag("p", f"{called}:"), displayed(_h(above="∗"), value)]
        parts.append(_where(tiles, conditions))
    if optimum.reason:
        parts.append(tag("p", optimum.reason[:1].upper() + optimum.reason[1:] + "."))
    if words:
        parts.append(tag("p", f"Its certificate, checked in rational arithmetic: {words}.", class_="soft"))
    return joined(parts)


def _where(tiles: Mapping[Expr, Expr], conditions: Iterable[Expr]) -> Html:
    found = []
    if tiles:
        found.append(tag("div", "at ", _long_or(at(tiles), tiles.values())))
    conditions = list(conditions)
    if conditions:
        found.append(tag("div", "if ", _long_or(_all(conditions), conditions)))
    return tag("div", *found, class_="scroll") if found else Html("")


def _long_or(body: Html, exprs: Iterable[Expr]) -> Html:
    return folded("long formulas", body) if sum(len(str(e)) for e in exprs) > _LONG * 2 else body


def _all(conditions: Iterable[Expr]) -> Html:
    return joined([tag("span", of_expr(c), class_="one") for c in conditions], ", ")


def of_regimes(regimes: Regimes) -> Html:
    """The regimes: what binds, and the least transfers there."""
    rows = []
    for r in regimes.regimes:
        value = formula(r.value) if r.feasible else escaped("no tiles fit")
        tiles = at(r.tiles) if r.tiles else escaped("")
        conditions = _long_or(_all(r.conditions), r.conditions) if r.conditions else escaped("always")
        rows.append((_binding(r), value, _long_or(tiles, r.tiles.values()), conditions))
    said = (
        "z3 showed that one of them holds at all sizes of at least one and all capacities."
        if regimes.covers
        else "It is not shown that one of these holds at all sizes."
    )
    head = ["what binds", "least H", "tiles", "where"]
    found = table(head, rows, "Regimes, each with a certificate")
    parts = [tag("div", found, class_="scroll wide"), tag("p", said)]
    if regimes.open:
        parts.append(folded("other regimes, without a short formula", listed(map(escaped, regimes.open))))
    return joined(parts)


def _binding(regime: Regime) -> Html:
    """What binds, in words, with tiles and memories typeset."""
    if regime.minimum is not None:
        return joined([escaped("nothing fits below "), formula(regime.minimum)])
    said = [(joined(map(of_expr, c.sides), " = "), escaped(c.state)) for c in regime.active]
    return joined((joined(filter(None, parts), " ") for parts in said), ", ") if said else escaped(regime.binding)


def of_bound(bound: LowerBound) -> Html:
    """The lower bound over all schedules of the same scalar operations, with its conditions."""
    rows = [(escaped("each input and result once"), escaped("compulsory"), formula(bound.compulsory))]
    rows += [(plain(term.box), escaped(term.kind), formula(term.value)) for term in bound.terms]
    head = ["what it counts", "kind", f"at least, in {bound.unit}"]
    parts = [_table(head, rows, "The largest of these is the bound")]
    if not bound.terms:
        parts.append(tag("p", "No bound beyond the compulsory transfers is shown."))
    parts.append(tag("p", "It holds if ", _all(bound.conditions), "; assumptions:"))
    parts.append(listed(map(escaped, bound.assumptions)))
    return joined(parts)


def of_ratio(bound: LowerBound, optimum: Optimum, sizes: Mapping[str, int], room: MemoryText | None) -> Html:
    """The ratio of the least transfers to the bound; with sizes and a room, as a number too."""
    try:
        ratio = bound.ratio(optimum)
    except CatdiagError as error:
        return tag("p", error.message)
    parts = [tag("p", "The least transfers found, over the bound:"), displayed(_ratio(), ratio)]
    if room is not None and optimum.leading is not None:
        parts.append(_ratio_at(bound, optimum, sizes, room))
    return joined(parts)


def _ratio_at(bound: LowerBound, optimum: Optimum, sizes: Mapping[str, int], room: MemoryText) -> Html:
    known = {str(s): s for c in (optimum.leading, *optimum.leading_conditions) for s in c.free_symbols}
    numbers = {**sizes, str(bound.capacity): room.values}
    put = {known[n]: value for n, value in numbers.items() if n in known}
    where = f"At the sizes of the plan, and with {room.values:,} {bound.unit} of memory ({room.words})"
    if set(known) - set(numbers):
        return Html("")
    if not all(c.subs(put) == True for c in optimum.leading_conditions):  # noqa: E712
        return tag("p", f"{where}, the leading order is not the optimum: its conditions do not hold.")
    number = bound.ratio(optimum, sizes, room.values)
    return tag("p", f"{where}, that is {number:.2f}, at leading order.")


@dataclass(frozen=True)
class MemoryText:
    """The number of values that a memory holds, and the name of the memory."""

    values: int
    words: str


def _ratio() -> Html:
    return tag("mfrac", _h(above="∗"), tag("mtext", "bound"))


def in_a_line(symbol: str, value: Expr) -> Html:
    """`symbol = value` in a line; `H∗` is H with a star."""
    left = _h(above="∗") if symbol == "H∗" else tag("mi", symbol)
    return equation(left, value) if len(str(value)) <= _LONG else tag("span", math(left), ", a long formula,")
