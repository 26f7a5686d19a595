"""How transfers and memory are counted.

- `amounts`: how many; `widths`: how wide; `live`: which arrays are on chip when; `lives`: what the stored order says of
  them; `places`: where they are; `kernels`: a diagram cut into kernels;
- `nested`: tiles within tiles; `phases`: loops whose states are above the innermost level; `caches`: what a wave of
  groups fetches; `fetches`: by array;
- `extents`: which blocks a loop runs that leaves some out; `density`: how often it turns, in all groups; `uneven`: the
  same in numbers, for plans; `windows`: what groups hold of arrays that they read at computed positions,
  `window_loads`: what they load of them; `grids`: sums and maxima over groups.
"""
