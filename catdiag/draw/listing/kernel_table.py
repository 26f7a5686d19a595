"""One kernel of a program as a table: its lines from the top, a column for each variable, and the memory allocated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.draw.label_formulas import label
from catdiag.draw.listing.program_lines import KernelListing, LineText
from catdiag.draw.listing.size_text import Wording
from catdiag.draw.scene import Curve, Frame, Item, Label, LabelRole, Point2D, Shape, StraightLine, straight
from catdiag.draw.text_width import text_width
from catdiag.util.line_breaking import filled

ROW, FURTHER, HEAD = 17.0, 12.0, 13.0
"""The heights of a line of the program, of each further line of its text, and of a line above the columns."""
_TEXT, _TOTAL = 250.0, 250.0  # the largest widths of a line of text, and of a total
_INDENT, _EDGE, _GAP = 13.0, 8.0, 14.0
_BAR, _PAD = 22.0, 13.0  # the least width of a bar, and the space beside a name in it
_DOT = 5.0
_CHART = 90.0  # the width of the longest bar of a total


@dataclass(frozen=True)
class PanelStyle:
    """The levels of a picture: the look and the name of each place, and of the slow memory."""

    places: Mapping[str, int]
    slow: tuple[int, str]


@dataclass(frozen=True)
class Panel:
    """A drawn kernel: its items and their extent."""

    items: tuple[Item, ...]
    right: float
    bottom: float


@dataclass
class _PanelRow:
    """A row of the table: a line of the program or the head of a loop, as lines of text, with its depth in loops."""

    texts: list[str]
    depth: int
    line: int = -1
    loop: int = -1
    top: float = 0.0
    height: float = ROW

    @property
    def middle(self) -> float:
        return self.top + ROW / 2


@dataclass
class _PanelColumn:
    """A column: a variable, or several of one shape with disjoint live ranges.

    `names` are the variables in it, with the line from which on each is in it. The texts are those above the bars.
    """

    variables: list[int]
    places: tuple[str, ...]
    element: str
    in_slow_memory: str
    live: dict[str, str]
    bytes: dict[str, str]
    names: list[tuple[int, str, int]] = field(default_factory=list)
    alive: set[int] = field(default_factory=set)
    x: float = 0.0
    width: float = 0.0

    def bar(self, place: str) -> Point2D:
        """The position and the width of the bar of a level."""
        each = (self.width - 6) / len(self.places)
        return self.x + 3 + each * self.places.index(place), each

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def shape(self) -> object:
        """What variables must have in common to share a column."""
        return self.places, self.element, self.live


@dataclass(frozen=True)
class _Head:
    """A line above the columns: what it is about, a text for each column, how these look, and their level's color."""

    caption: str
    texts: list[str]
    role: LabelRole = "note"
    level: int = 0


def wrapped(text: str, width: float, role: LabelRole = "body", after: str = "") -> list[str]:
    """A text in lines of at most a width, broken at spaces, or only at those after a sign.

    >>> wrapped("start: a = 0, b = 0", 80, after=",")
    ['start: a = 0,', 'b = 0']
    """
    return filled(text.split(f"{after} "), width, f"{after} ", lambda line: text_width(line, role))


class Table:
    """The layout of one kernel; `peaks` are the totals of each place that are maximal in the whole program."""

    def __init__(
        self,
        kernel_listing: KernelListing,
        wording: Wording,
        style: PanelStyle,
        head: str,
        peaks: Mapping[str, Sequence[IntPolynomial]],
        top: float,
        totals: bool = True,
    ) -> None:
        self.listing, self.wording, self.style, self.head, self.peaks = kernel_listing, wording, style, head, peaks
        self.behind: list[Item] = []
        self.items: list[Item] = []
        self.shown = [p for p in style.places if any(line.total(p) for line in kernel_listing.lines)]
        self.columns = self._columns()
        self.heads = self._heads()
        self.rows = self._rows()
        self.totals = {place: self._totals(place) for place in self.shown if totals}
        self.at: dict[int, _PanelRow] = {row.line: row for row in self.rows if row.line >= 0}
        self.first = top + HEAD * len(self.heads) + 15
        self.end = self._down()
        self.left = max([_EDGE + 4, *(self._x(row.depth) + _widest(row.texts) for row in self.rows)])
        self.left = max(self.left, *(text_width(head.caption, "level") + _EDGE for head in self.heads), 0.0)
        x = self.left + _GAP
        for column in self.columns:
            column.x, column.width = x, self._width(column)
            x += column.width
        self.right = x
        self.top = top

    # -- rows and columns -------------------------------------------------------------------------------------

    def _rows(self) -> list[_PanelRow]:
        rows: list[_PanelRow] = []
        if self.head:
            rows.append(_PanelRow(wrapped(self.head, _TEXT + 2 * _INDENT, after=" and"), 0))
        first = int(bool(self.head))
        opened: set[int] = set()
        for number, line in enumerate(self.listing.lines):
            for depth, loop in enumerate(line.loops):
                if loop not in opened:
                    opened.add(loop)
                    rows.append(
                        _PanelRow(wrapped(_label(self.listing.loops[loop].parts), _TEXT), first + depth, loop=loop)
                    )
            depth = first + len(line.loops)
            after = "," if line.kind == "start" else ""
            texts = wrapped(_label(line.parts), _TEXT - _INDENT * depth, after=after)
            rows.append(_PanelRow(texts, depth, number))
        return rows

    def _columns(self) -> list[_PanelColumn]:
        """The variables: those from slow memory first, each kind in the order in which they become live."""
        most: dict[tuple[int, str], IntPolynomial] = {}
        for line in self.listing.lines:
            for variable, place, amount in line.live:
                if (variable, place) not in most or amount.dominates(most[variable, place]):
                    most[variable, place] = amount
        found: dict[int, _PanelColumn] = {}
        wording = self.wording
        for variable in dict.fromkeys(
            v for line in self.listing.lines for v in (*line.writes, *(h[0] for h in line.live))
        ):
            present = tuple(p for p in self.style.places if (variable, p) in most)
            if not present:
                continue
            of = self.listing.variables[variable]
            texts = {p: wording.allocated(of.type, most[variable, p], p, of.stages.get(p, 1), label) for p in present}
            numbers = {p: wording.number(wording.value(most[variable, p], p)) for p in present if wording.values}
            slow = wording.untiled(of.type, self.listing.kernel, label) if of.slow else ""
            found[variable] = _PanelColumn([variable], present, of.element, slow, texts, numbers)
        for number, line in enumerate(self.listing.lines):
            for variable in {v for v, _, _ in line.live}:
                found[variable].alive.add(number)
            for variable, name in zip(line.writes, line.names, strict=False):
                column = found.get(variable)
                if column is not None and (not column.names or column.names[-1][1] != name):
                    column.names.append((number, name, variable))
        states = {v for loop in self.listing.loops for v in loop.states}
        columns = [c for c in found.values() if c.in_slow_memory]
        for variable, column in found.items():
            if column.in_slow_memory:
                continue
            shared = next(
                (c for c in columns if variable not in states and not c.in_slow_memory and _after(c, column, states)),
                None,
            )
            if shared is None:
                columns.append(column)
            else:
                shared.variables.append(variable)
                shared.names += column.names
                shared.alive |= column.alive
        return columns

    def _heads(self) -> list[_Head]:
        """The lines above the columns."""
        columns = self.columns
        heads = [
            _Head("", [c.names[0][1] if c.names else "" for c in columns], "array"),
            _Head("type", [c.element for c in columns]),
        ]
        if any(c.in_slow_memory for c in columns):
            heads.append(_Head(f"in {self.style.slow[1]}", [c.in_slow_memory for c in columns], "axis"))
        for place in self.shown:
            level = self.style.places[place]
            heads.append(_Head(f"in {place}", [c.live.get(place, "") for c in columns], "axis", level))
            if self.wording.values:
                numbers = [c.bytes.get(place, "") for c in columns]
                heads.append(_Head(f"{self.wording.unit} in {place}", numbers, "note", level))
        return heads

    def _totals(self, place: str) -> dict[int, list[str]]:
        """The memory allocated at a place, for the lines at which it changes."""
        found: dict[int, list[str]] = {}
        before: IntPolynomial | None = None
        for number, line in enumerate(self.listing.lines):
            total = line.total(place)
            if self.wording.values is not None:
                found[number] = [self.wording.number(self.wording.value(total, place))]
            elif total != before:
                most = total in self.peaks[place]
                name = "M" if len(self.style.places) == 1 else f"M_{{{place}}}"
                sign = f"{name} {'=' if len(self.peaks[place]) == 1 else '≥'} " if most else ""
                found[number] = wrapped(sign + label(self.wording.polynomial(total, place)), _TOTAL)
            before = total
        return found

    # -- positions ----------------------------------------------------------------------------------------------

    def _x(self, depth: int) -> float:
        return _EDGE + 6 + _INDENT * depth

    def _down(self) -> float:
        """Positions the rows under each other; returns where they end."""
        y = self.first
        inside: tuple[int, ...] = ()
        for k, row in enumerate(self.rows):
            after = next((r for r in self.rows[k:] if r.line >= 0), None)
            loops = self.listing.lines[after.line].loops if after is not None else ()
            closed = len(inside) - len([a for a, b in zip(inside, loops, strict=False) if a == b])
            y += 5.0 * max(closed, 0) + (3.0 if row.loop >= 0 else 0.0)
            row.top = y
            lines = max([len(row.texts), *(len(found.get(row.line, ())) for found in self.totals.values())])
            row.height = ROW + FURTHER * (lines - 1)
            y += row.height
            inside = loops if row.line >= 0 else inside[: len(loops)]
        return y + 5.0 * len(inside) + 3.0

    def _width(self, column: _PanelColumn) -> float:
        place = self.columns.index(column)
        names = max((text_width(name, "array") for _, name, _ in column.names), default=0.0)
        above = max(text_width(h.texts[place], "array" if h.role == "array" else "axis") for h in self.heads)
        return max(len(column.places) * max(names + _PAD + _DOT, _BAR) + 6, above + 10)

    # -- drawing -------------------------------------------------------------------------------------------------

    def panel(self) -> Panel:
        """The drawn kernel."""
        self._above()
        self._frames()
        for row in self.rows:
            for k, text in enumerate(row.texts):
                x = self._x(row.depth) + (8.0 if k else 0.0)
                self.items.append(Label(x, row.middle + 3.6 + FURTHER * k, text, "body", "start"))
        foot = self._bars()
        right = self.right + 2 * _GAP + 6
        for place in self.shown:
            self._most(place, right - 5)
            right = self._live_column(place, right) + _GAP if place in self.totals else right + 7
        return Panel((*self.behind, *self.items), right, foot)

    def _above(self) -> None:
        y = self.top
        for head in self.heads:
            y += HEAD
            self.items.append(Label(self.left, y - 3, head.caption, "level", "end", head.level))
            for column, text in zip(self.columns, head.texts, strict=True):
                if text:
                    self.items.append(Label(column.middle, y - 3, text, head.role, "middle", head.level))

    def _frames(self) -> None:
        """The group, and a frame for each loop, with the feedback of its states to its start."""
        most = max((row.depth for row in self.rows), default=0)
        if self.head:
            height = self.end - self.first + 2
            self.behind.append(Frame("group", _EDGE, self.first - 2, self.right + 4 + 4 * most - _EDGE, height))
        for row in self.rows:
            if row.loop < 0:
                continue
            inside = [self.at[n] for n, line in enumerate(self.listing.lines) if row.loop in line.loops]
            ending = self.listing.lines[inside[-1].line].loops  # loops that end at this line have their own edges there
            deeper = len(ending) - len(self.listing.loops[row.loop].inside) - 1
            bottom = inside[-1].top + inside[-1].height + 2 + 5.0 * deeper
            x = self._x(row.depth) - 6
            width = self.right + 4 + 4 * (most - row.depth - 1) - x
            self.behind.append(Frame("fold", x, row.top - 1, width, bottom - row.top + 1))
            states = [v for v in self.listing.loops[row.loop].states if any(v in c.variables for c in self.columns)]
            if states:
                top, low = row.top + row.height - 2, inside[-1].middle
                a, b = x + 6, x + 13
                way = ((b, low), (a + 2, low), (a, low - 2), (a, low - 7))
                level = self.style.places[self._home(states[0])]
                self.items.append(
                    Curve((*way, *straight(way[3], (a, top))[1:]), "state", level, True, title="the next iteration")
                )

    def _home(self, variable: int) -> str:
        return next(c.places[-1] for c in self.columns if variable in c.variables)

    def _bars(self) -> float:
        """The columns: bars over live ranges, loads and saves, and reads and writes."""
        lines = self.listing.lines
        low = self.end + 4
        for column in self.columns:
            saved: dict[str, int] = {}
            for place, variable in product(column.places, column.variables):
                x, width = column.bar(place)
                level = self.style.places[place]
                alive = [n for n, ln in enumerate(lines) if any(h[:2] == (variable, place) for h in ln.live)]
                runs = _runs(alive)
                for k, (first, last) in enumerate(runs):
                    top, bottom = self.at[first].top + 1.5, self.at[last].top + self.at[last].height - 1.5
                    name = next((name for n, name, v in column.names if v == variable), "")
                    title = f"{name} {column.live[place]} in {place}".strip()
                    self.items.append(Shape("bar", x, top, width, bottom - top, level, title=title))
                    if place == column.places[-1]:
                        self._names(column, variable, x, width, first, last)
                    if place != column.places[0]:
                        continue
                    if column.in_slow_memory and lines[first].kind == "load":
                        start = self._under(runs[k - 1][1]) if k else self.first - 8
                        way = straight((x + width / 2, start), (x + width / 2, top))
                        said = f"load from {self.style.slow[1]}"
                        self.behind.append(Curve(way, "axis", self.style.slow[0], True, title=said))
                    for n in range(first, last + 1):
                        if lines[n].kind == "save" and variable in lines[n].reads:
                            saved[lines[n].names[0]] = last
            if saved:
                x, width = column.bar(column.places[0])
                last = max(saved.values())
                start = self._under(last)
                way = straight((x + width / 2, start), (x + width / 2, self.end + 10))
                self.behind.append(Curve(way, "axis", self.style.slow[0], True, title=f"save to {self.style.slow[1]}"))
                of = self.listing.variables[column.variables[-1]]
                below = [", ".join(saved), self.wording.untiled(of.type, self.listing.kernel, label)]
                self.items.append(Label(column.middle, self.end + 22, below[0], "array"))
                self.items.append(Label(column.middle, self.end + 34, below[1], "axis"))
                low = self.end + 38
        self._touched()
        return low

    def _under(self, line: int) -> float:
        return self.at[line].top + self.at[line].height - 1.5

    def _names(self, column: _PanelColumn, variable: int, x: float, width: float, first: int, last: int) -> None:
        """The names in a bar, at its start and where they change."""
        own = [(n, name) for n, name, v in column.names if v == variable]
        named = [(first, name) for _, name in [(n, name) for n, name in own if n <= first][-1:]]
        named += [(n, name) for n, name in own if first < n <= last]
        for n, name in named:
            row = self.at[n]
            if n > first:
                self.items.append(StraightLine(x, row.top, x + width, row.top, "solid"))
            self.items.append(Label(x + (width + _DOT + 3) / 2, row.middle + 4, name, "array", "middle"))

    def _touched(self) -> None:
        """Dots where lines read and write, with guide lines to them."""
        by = {v: c for c in self.columns for v in c.variables}
        for n, line in enumerate(self.listing.lines):
            live = {v for v, _, _ in line.live}
            row, far = self.at[n], 0.0
            for variable in dict.fromkeys((*line.writes, *line.reads)):
                if variable not in live:
                    continue
                column = by[variable]
                wrote = variable in line.writes
                place = max((p for v, p, _ in line.live if v == variable), key=column.places.index)
                x = column.bar(place)[0] + 4
                self.items.append(Shape("dot" if wrote else "ring", x, row.middle - _DOT / 2, _DOT, _DOT))
                far = max(far, x)
            start = self._x(row.depth) + text_width(row.texts[0], "body") + 4
            if far:
                self.behind.append(Curve(straight((start, row.middle), (far, row.middle)), "thin"))

    def _most(self, place: str, x: float) -> None:
        """Marks the lines at the peak of a place."""
        wording, level = self.wording, self.style.places[place]
        totals = [line.total(place) for line in self.listing.lines]
        full: list[object] = list(self.peaks[place])
        amounts: list[object] = list(totals)
        if wording.values is not None:
            full = [max((wording.value(total, place) for total in self.peaks[place]), default=0)]
            amounts = [wording.value(total, place) for total in totals]
        for first, last in _runs([n for n, total in enumerate(amounts) if total in full]):
            way = straight((x, self.at[first].top + 2), (x, self._under(last) - 0.5))
            self.items.append(Curve(way, "axis", level, title=f"the peak of {place}"))

    def _live_column(self, place: str, x: float) -> float:
        """The memory allocated at a place, by line."""
        level = self.style.places[place]
        found, values = self.totals[place], self.wording.values
        widest = max(_widest(texts, "number" if values else "note") for texts in found.values())
        caption = f"allocated in {place}, {self.wording.unit}" if values is None else f"allocated in {place}"
        numbers = [self.wording.value(line.total(place), place) for line in self.listing.lines] if values else []
        most = max((self.wording.value(a, place) for a in self.peaks[place]), default=0) if values else 0
        width = max(widest + (_CHART + 6 if values else 0) + 8, text_width(caption, "level"))
        self.items.append(Label(x, self.top + HEAD * len(self.heads) - 3, caption, "level", "start", level))
        for n, texts in found.items():
            row = self.at[n]
            if values is None:
                for k, text in enumerate(texts):
                    self.items.append(Label(x, row.middle + 3.4 + FURTHER * k, text, "note", "start"))
                continue
            long = _CHART * numbers[n] / most if most else 0.0
            if long:
                self.items.append(Shape("bar", x, row.middle - 4.5, long, 9.0, level, title=f"{texts[0]} of {place}"))
            self.items.append(Label(x + long + 5, row.middle + 3.6, texts[0], "number", "start"))
        return x + width


def _after(column: _PanelColumn, other: _PanelColumn, states: set[int]) -> bool:
    """Whether variables of the other column can follow in this one, after its own."""
    apart = max(column.alive) + 1 < min(other.alive)
    return apart and column.shape == other.shape and not states & set(column.variables)


def _label(text: LineText) -> str:
    """A line as the text of a label."""
    return "".join(part if isinstance(part, str) else label(part) for part in text)


def _widest(texts: Sequence[str], role: LabelRole = "body") -> float:
    return max((text_width(text, role) + (8.0 if k else 0.0) for k, text in enumerate(texts)), default=0.0)


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Consecutive numbers as ranges.

    >>> _runs([1, 2, 3, 7])
    [(1, 3), (7, 7)]
    """
    found: list[tuple[int, int]] = []
    for n in numbers:
        if found and found[-1][1] == n - 1:
            found[-1] = (found[-1][0], n)
        else:
            found.append((n, n))
    return found
