"""Scenes made by hand: one that has every kind of item, and parts to make others of."""

from __future__ import annotations

from typing import get_args

from catdiag.draw.scene import Curve, Frame, FrameKind, Item, Label, LabelRole, Scene, Shape, ShapeKind, StraightLine

HOSTILE = "]]>&lt;<script>'\"\\input{x}#$%^&~{}\x00\x1b\ud800é愛𝔸\u202e"


def level_wire(x1: float, x2: float, y: float, **options) -> Curve:
    """A horizontal wire."""
    step = (x2 - x1) / 3
    return Curve(((x1, y), (x1 + step, y), (x2 - step, y), (x2, y)), **options)


def bent(x1: float, y1: float, x2: float, y2: float, **options) -> Curve:
    """A wire that is horizontal at both ends."""
    middle = (x1 + x2) / 2
    return Curve(((x1, y1), (middle, y1), (middle, y2), (x2, y2)), **options)


def everything() -> Scene:
    """Each kind of item, each role, each level, crossings, and texts that try to break out."""
    items: list[Item] = []
    for n, frame in enumerate(get_args(FrameKind)):
        items.append(Frame(frame, 20 + 90 * n, 20, 70, 90, n % 4, f"frame {frame}"))
    for n, shape in enumerate(get_args(ShapeKind)):
        items.append(Shape(shape, 20 + 45 * n, 130, 36, 20, n % 4, f"key{n}", f"shape {shape}"))
    for level in range(5):
        items += [level_wire(20, 200, 170 + 14 * level, level=level), Label(110, 166 + 14 * level, f"g_q{level}")]
        items.append(level_wire(210, 300, 170 + 14 * level, kind="item", level=level))
        items.append(bent(310, 170 + 14 * level, 400, 226 - 14 * level, kind="state", level=level, arrow=True))
    items += [
        level_wire(410, 500, 170, kind="thin"),
        StraightLine(410, 190, 500, 190),
        StraightLine(410, 200, 500, 200, "solid"),
    ]
    for n, role in enumerate(get_args(LabelRole)):
        items.append(Label(20 + 60 * n, 260, "Σ_x √d′ ≤ −∞", role, "start", n % 4, False, HOSTILE))
        items.append(Label(20 + 60 * n, 320, f"{HOSTILE} s_{{2x}} a", role, "end", 0, True))
    levels = {0: "HBM", 1: "SMEM", 2: "registers", 3: "tensor cores"}
    return Scene(580, 340, tuple(items), f"Everything {HOSTILE}", f"All\n{HOSTILE}", levels)
