"""The style and page layout of plots, shared by all of them.

Colors are those of the levels of memory in diagrams. Each color comes with a marker, a dash and a hatch of its own, so
that nothing is distinguished by color alone. Text is set in the font that matplotlib includes, so that positions are
the same on every machine. matplotlib is imported when it is needed; pyplot and global settings are not changed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from catdiag.draw.scene import spans
from catdiag.draw.theme import LEVEL_COLORS, LIGHT
from catdiag.util.errors import CatdiagError
from catdiag.util.line_breaking import filled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, SOFT, FAINT, PAPER, PALE = (LIGHT[name] for name in ("ink", "soft", "faint", "paper", "bar0"))
"""The colors of lines and letters, of notes, of the background marks, of the paper, and of pale fills."""
BAND, MORE = LIGHT["fold"], LIGHT["bar1"]
"""The backgrounds of every other band, and of added traffic."""
LEVELS = tuple(LIGHT[name] for name in LEVEL_COLORS)
"""The colors of levels of memory, as in diagrams: slow memory, shared memory, registers, matrix units."""
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES: tuple[Any, ...] = ("solid", (0, (6, 1.6)), (0, (3, 1.4)), (0, (6, 1.6, 1.2, 1.6)), (0, (1.2, 1.2)))
HATCHES = ("////", "\\\\\\\\", "xxxx", "....", "----")
SIZE, SMALL, LARGE = 8.0, 7.0, 9.5
"""Font sizes in points: of axes, of notes, of titles."""
SHADES = 9
"""The number of shades."""
WIDTH = 6.3
"""The width of a plot in inches: that of a page of text."""
_PAD = 0.08
_SETTINGS = MappingProxyType(
    {
        "font.family": ["DejaVu Sans"],
        "mathtext.fontset": "dejavusans",
        "mathtext.default": "it",
        "font.size": SIZE,
        "axes.linewidth": 0.6,
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "axes.unicode_minus": True,
        "text.color": INK,
        "text.usetex": False,
        "xtick.color": INK,
        "ytick.color": INK,
        "hatch.linewidth": 0.4,
        "hatch.color": SOFT,
        "lines.linewidth": 1.2,
        "path.sketch": None,
        "path.simplify": False,
        "svg.fonttype": "none",
        "svg.hashsalt": "catdiag",
        "pdf.fonttype": 42,
        "savefig.dpi": 200,
    }
)
TITLE, CAPTION = "catdiag-title", "catdiag-caption"
"""The names (gid) of the texts of titles and captions."""


def load() -> Any:
    """The matplotlib module. Raises CatdiagError, saying how to install it, where there is none."""
    try:
        import matplotlib
        import matplotlib.figure
    except ImportError as error:
        raise CatdiagError(
            "plots are drawn with matplotlib, which is not installed: pip install 'catdiag[plot]'"
        ) from error
    return matplotlib


@contextmanager
def styled() -> Iterator[Any]:
    """A context with matplotlib under our settings, which are restored afterwards."""
    matplotlib = load()
    with matplotlib.rc_context({**_SETTINGS}):
        yield matplotlib


def shades(count: int, dark: bool = False) -> list[str]:
    """A sequential color scale of one hue, from the most to the least, readable in print and with color blindness.

    On a light background the most is dark, on a dark background it is light.

    >>> shades(3), shades(3, dark=True)
    (['#1f486e', '#98abbc', '#f1f4f6'], ['#a9d0f5', '#596c7f', '#1d2228'])
    """
    most, least = ((169, 208, 245), (29, 34, 40)) if dark else ((31, 72, 110), (241, 244, 246))
    parts = [(k / (count - 1)) ** 0.8 for k in range(count)]
    return ["#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in zip(most, least)) for part in parts]


# -- words and numbers ---------------------------------------------------------------------------------------------


def written(text: str) -> str:
    """A text with the subscripts of names set as such, for matplotlib.

    >>> written("g_q = 64")
    '$g_{q}$ = 64'
    """
    found = ""
    parts = spans(text)
    for place, (part, low) in enumerate(parts):
        if low:
            continue
        if place + 1 < len(parts) and parts[place + 1][1]:
            head, name = re.fullmatch(r"(.*?)([^\W\d_]*)", part, re.DOTALL).groups()  # type: ignore[union-attr]
            under = parts[place + 1][0].replace("_", r"\_")
            found += _plain(head) + (f"${name}_{{{under}}}$" if name else _plain(f"_{parts[place + 1][0]}"))
        else:
            found += _plain(part)
    return found


def _plain(text: str) -> str:
    return text.replace("$", r"\$")


def quantity(number: float, unit: str = "", digits: int = 3) -> str:
    """A number with a decimal prefix and a unit, such as bytes, FLOP or seconds.

    >>> quantity(541065216, "B"), quantity(3.35e12, "B/s"), quantity(92.7e-6, "s"), quantity(0)
    ('541 MB', '3.35 TB/s', '92.7 µs', '0')
    """
    if number == 0:
        return f"0 {unit}".strip()
    for scale, prefix in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")):
        if abs(number) >= scale * (1 - 0.5 * 10**-digits):
            return f"{_short(number / scale, digits)} {prefix}{unit}".strip()
    if unit == "s":
        for scale, prefix in ((1e-3, "m"), (1e-6, "µ"), (1e-9, "n")):
            if abs(number) >= scale:
                return f"{_short(number / scale, digits)} {prefix}{unit}"
    return f"{_short(number, digits)} {unit}".strip()


def _short(number: float, digits: int) -> str:
    text = f"{number:.{digits}g}"
    if "e" in text:
        text = f"{round(number):d}"
    return text


def listed(sizes: Any) -> str:
    """Sizes in a line, with line breaks only between them.

    >>> listed({"q": 64, "g_q": 8}).replace("\N{NO-BREAK SPACE}", " ")
    'q = 64, g_q = 8'
    """
    return ", ".join(f"{name}\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{value}" for name, value in sizes.items())


# -- a figure ------------------------------------------------------------------------------------------------------


def panels(given: Axes | None, heights: Sequence[float]) -> tuple[Figure, list[Axes]]:
    """A figure with a column of axes of these heights in inches; or the axes that were given, for a single panel.

    Raises CatdiagError for axes that are given where there are several.
    """
    if given is not None:
        if len(heights) != 1 or not hasattr(given, "get_figure"):
            raise CatdiagError(f"ax is {given!r}: expected axes of matplotlib, for a plot of one panel")
        return figure_of(given), [given]
    figure = load().figure.Figure(figsize=(WIDTH, sum(heights) + 1.0), facecolor=PAPER)
    return figure, [figure.add_axes((0.1, 0.1, 0.8, 0.8)) for _ in heights]


def figure_of(ax: Axes) -> Figure:
    """The figure that contains the axes. Raises CatdiagError where there is none."""
    found = ax.get_figure(root=True)
    if found is None:
        raise CatdiagError("ax is in no figure: expected axes of a figure")
    return found


def dress(ax: Axes) -> None:
    """The style of axes: no upper and right spine, small ticks outside."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.tick_params(which="major", length=3.0, width=0.6, labelsize=SMALL, pad=2.5)
    ax.tick_params(which="minor", length=1.6, width=0.4)
    ax.set_facecolor("none")


def finish(
    figure: Figure,
    axes: Sequence[Axes],
    heights: Sequence[float],
    title: str,
    subtitle: str,
    caption: Sequence[str],
    alone: bool,
) -> Figure:
    """Adds the title and the caption, and lays everything out so that nothing is cut off.

    In axes of the user's own (not `alone`) the title goes to the axes, and there is no caption.
    """
    if not alone:
        axes[0].set_title(written(title), loc="left", fontsize=LARGE, gid=TITLE)
        return figure
    inch = figure.dpi
    sides = [_overhang(ax) for ax in axes]
    left, right = (max(side[k] for side in sides) / inch for k in (0, 2))
    wide = WIDTH - left - right - 2 * _PAD
    lines = [line for text in caption for line in wrapped(text, SMALL, (WIDTH - 2 * _PAD) * 72)]
    under = wrapped(subtitle, SIZE, (WIDTH - 2 * _PAD) * 72) if subtitle else []
    titles = wrapped(title, LARGE * 1.15, (WIDTH - 2 * _PAD) * 72)  # bold letters are wider by about so much
    head = (LARGE * 1.3 * len(titles) + LARGE * 0.35 + SIZE * 1.4 * len(under) + 3) / 72
    foot = (SMALL * 1.42 * len(lines) + (6 if lines else 0)) / 72
    total = 2 * _PAD + head + foot + sum(heights) + sum(side[1] + side[3] for side in sides) / inch
    total += 0.12 * (len(axes) - 1)
    figure.set_size_inches(WIDTH, total)
    top = total - _PAD - head
    for ax, height, side in zip(axes, heights, sides):
        top -= side[3] / inch + height
        ax.set_position(((left + _PAD) / WIDTH, top / total, wide / WIDTH, height / total))
        top -= side[1] / inch + 0.12
    at = total - _PAD + LARGE * 0.25 / 72
    for line in titles:
        at -= LARGE * 1.3 / 72
        figure.text(_PAD / WIDTH, at / total, written(line), fontsize=LARGE, fontweight="bold", gid=TITLE)
    at -= LARGE * 0.15 / 72
    for line in under:
        at -= SIZE * 1.4 / 72
        figure.text(_PAD / WIDTH, at / total, written(line), fontsize=SIZE, color=SOFT, gid=CAPTION)
    at = _PAD + foot - 6 / 72
    for line in lines:
        at -= SMALL * 1.42 / 72
        figure.text(_PAD / WIDTH, (at + 0.03) / total, written(line), fontsize=SMALL, color=SOFT, gid=CAPTION)
    return figure


def _overhang(ax: Axes) -> tuple[float, float, float, float]:
    """How far the texts of axes extend beyond them, in pixels: left, below, right, above."""
    inner, outer = ax.get_window_extent(), ax.get_tightbbox()
    if outer is None:
        return 0.0, 0.0, 0.0, 0.0
    reach = (inner.x0 - outer.x0, inner.y0 - outer.y0, outer.x1 - inner.x1, outer.y1 - inner.y1)
    left, below, right, above = (max(0.0, side) for side in reach)
    return left, below, right, above


def label_right(ax: Axes, labels: Sequence[tuple[float, str, str]]) -> None:
    """Labels at the right of axes, each at its height and without overlaps: (height, text, color)."""
    low, high = (float(v) for v in ax.transData.transform([(1, y) for y in ax.get_ylim()])[:, 1])
    points = 72 / figure_of(ax).dpi
    heights = [(float(ax.transData.transform((1, y))[1]) - low) * points for y, _, _ in labels]
    order = sorted(range(len(labels)), key=lambda k: heights[k])
    spread = spaced([heights[k] for k in order], SMALL * 1.3, (high - low) * points)
    for k, place in zip(order, spread):
        _, text, color = labels[k]
        ax.annotate(
            written(text),
            (1, heights[k] / ((high - low) * points)),
            xycoords="axes fraction",
            xytext=(9, place - heights[k]),
            textcoords="offset points",
            va="center",
            fontsize=SMALL,
            color=color,
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "lw": 0.4, "color": SOFT, "shrinkA": 1, "shrinkB": 1, "relpos": (0, 0.5)},
        )


def spaced(heights: Sequence[float], least: float, top: float) -> list[float]:
    """Heights in order, moved as little as possible to be at least `least` apart, within 0 and `top` if there is room.

    >>> spaced([10.0, 12.0, 50.0], 8.0, 100.0)
    [7.0, 15.0, 50.0]
    """
    clusters: list[list[float]] = []  # each: the mean wanted height of its labels, and their number
    for height in heights:
        clusters.append([height, 1])
        while True:
            mean, count = clusters[-1]
            half = least * (count - 1) / 2
            clusters[-1][0] = max(half, min(mean, top - half))
            if len(clusters) < 2:
                break
            before, many = clusters[-2]
            if clusters[-1][0] - half - (before + least * (many - 1) / 2) >= least:
                break
            clusters[-2:] = [[(before * many + mean * count) / (many + count), many + count]]
    return [mean + least * (k - (count - 1) / 2) for mean, count in clusters for k in range(int(count))]


def key(ax: Axes, handles: Sequence[Any] | None = None, above: float = 4.0, columns: int = 3) -> None:
    """The legend, in rows `above` points above the axes."""
    from matplotlib.transforms import ScaledTranslation

    figure = figure_of(ax)
    lifted = ax.transAxes + ScaledTranslation(0, above / 72, figure.dpi_scale_trans)
    found = list(handles) if handles is not None else ax.get_legend_handles_labels()[0]
    ax.legend(
        handles=found,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        bbox_transform=lifted,
        ncols=min(columns, max(1, len(found))),
        fontsize=SMALL,
        frameon=False,
        borderaxespad=0,
        borderpad=0,
        handlelength=2.8,
        columnspacing=1.6,
        labelspacing=0.35,
    )


def decades(axis: Any, unit: str, shown: Callable[[float, str], str] = quantity) -> None:
    """Ticks of a logarithmic axis: at powers of ten, and at some of their multiples where these are few."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

    low, high = axis.get_view_interval()
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    major: list[float] = []
    for steps in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)):
        major = [step * 10.0**power for power in powers for step in steps if low <= step * 10.0**power <= high]
        if len(major) >= 3:
            break
    major = major[:: -(-len(major) // 9)]
    minor = [k * 10.0**power for power in powers for k in range(1, 10)] if len(powers) < 9 else []
    axis.set_major_locator(FixedLocator(major))
    axis.set_minor_locator(FixedLocator([value for value in minor if low <= value <= high]))
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda value, _: shown(value, unit)))


def text_width(text: str, size: float) -> float:
    """The width of a text in points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    shown = written(text)
    font = FontProperties(family=["DejaVu Sans"], size=size)
    width, _, _ = text_to_path.get_text_width_height_descent(shown, font, ismath="$" in shown)
    return float(width)


def _hyphenated(word: str, size: float, width: float) -> list[str]:
    """A word, broken where it is wider than a line."""
    if len(word) < 40 or text_width(word, size) <= width:
        return [word]
    return [word[k : k + 40] for k in range(0, len(word), 40)]


def shortened(text: str, letters: int = 30) -> str:
    """A name, cut at the end where it is long.

    >>> shortened("einsum [q x]"), shortened("abcdefgh", 5)
    ('einsum [q x]', 'abcd…')
    """
    return text if len(text) <= letters else text[: letters - 1] + "…"


def wrapped(text: str, size: float, width: float) -> list[str]:
    """A text in lines of at most `width` points, broken between words."""
    words = [part for whole in text.split(" ") for part in _hyphenated(whole, size, width)] if text else []
    return filled(words, width, measure=lambda line: text_width(line, size))
