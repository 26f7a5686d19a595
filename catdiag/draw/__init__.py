"""String diagrams and other pictures of diagrams, derivations and plans: layouts make scenes, writers print them."""

from catdiag.draw.legend import with_legend
from catdiag.draw.pipeline import pipeline_picture
from catdiag.draw.program import program_picture
from catdiag.draw.scene import Curve, Frame, Label, Rule, Scene, Shape
from catdiag.draw.svg import svg
from catdiag.draw.tikz import tikz

__all__ = [
    "Curve",
    "Frame",
    "Label",
    "Rule",
    "Scene",
    "Shape",
    "pipeline_picture",
    "program_picture",
    "svg",
    "tikz",
    "with_legend",
]
