"""Texts of a picture that are over each other, or leave the bar that they are in."""

from __future__ import annotations

from collections.abc import Iterator

from catdiag.draw.scene import Label, Scene, Shape
from catdiag.draw.text_width import SIZES, text_width


def box(label: Label) -> tuple[float, float, float, float]:
    width, size = text_width(label.text, label.role), SIZES[label.role]
    x = label.x - {"start": 0.0, "middle": width / 2, "end": width}[label.anchor]
    return x, label.y - 0.72 * size, x + width, label.y + 0.2 * size


def clashes(scene: Scene) -> Iterator[tuple[str, str]]:
    """Texts that are over another, partly outside of a bar, or outside of the picture."""
    boxes = sorted((box(item), item.text) for item in scene.items if isinstance(item, Label))
    bars = [i for i in scene.items if isinstance(i, Shape) and i.kind == "bar"]
    for k, ((left, top, right, low), text) in enumerate(boxes):
        if left < 0 or top < 0 or right > scene.width or low > scene.height:
            yield text, "the edge"
        for other, name in boxes[k + 1 :]:
            if other[0] < right and other[1] < low and top < other[3]:
                yield text, name
        for bar in bars:
            x, y = bar.x + bar.width, bar.y + bar.height
            inside = bar.x <= left and right <= x and bar.y <= top and low <= y
            if left < x and bar.x < right and top < y and bar.y < low and not inside:
                yield text, "a bar"
