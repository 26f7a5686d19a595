"""Pictures of diagrams, derivations and plans: layouts make scenes, writers print them.

- `scene`: a picture as data; `svg_writer`, `tikz_writer`: writers, of what `paint` makes of a scene, with `paths`,
  `wire_crossings`, `theme`, `text_width`, `latex_escape`; `svg_conversion`: PDF and PNG; `legend`;
- `render`: diagrams as pictures; `memory_levels`: the level that each array is drawn in;
- `string_diagram/`, `listing/`, `plots/`, `report/`.
"""

from catdiag.draw.legend import with_legend
from catdiag.draw.listing.pipeline_chart import pipeline_picture
from catdiag.draw.listing.program_picture import program_picture
from catdiag.draw.scene import Curve, Frame, Label, Scene, Shape, StraightLine
from catdiag.draw.svg_writer import svg
from catdiag.draw.tikz_writer import tikz

__all__ = [
    "Curve",
    "Frame",
    "Label",
    "Scene",
    "Shape",
    "StraightLine",
    "pipeline_picture",
    "program_picture",
    "svg",
    "tikz",
    "with_legend",
]
