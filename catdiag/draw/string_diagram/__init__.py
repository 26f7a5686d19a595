"""From a diagram to a scene: a string diagram whose wires are axes.

- `layout`: the whole; `sheets`: what is drawn; `layering`: which function is in which column; `coordinate_assignment`:
  heights; `sheet_geometry`: where columns, frames and bands are;
- `box_shapes`, `wire_bands`, `wire_threads`: boxes and wires; `weaved_axes`: which pass around; `live_regions`: how
  much of an array is live; `subdiagrams`: large diagrams in parts; `diagram_diff`: what a rewrite changed.
"""
