"""What a diagram's stored order says of a kernel: one lowering, which cost, code and plans read.

- `loop_nest`: a diagram as loops of statements; `kernel_analysis`: a diagram cut into kernels, each measured;
- `liveness`: which arrays are allocated when; `live_ranges`: views, last uses, what is rematerialized;
- `placement`: the level that each array is in; `element_widths`: how many bytes a value takes; `full_precision`: which
  arrays between kernels are statistics;
- `footprint`, `access_region`, `region_loads`: what a group holds and loads of arrays that it reads at computed
  positions; `gathers`:
  reads at the integers of other arrays;
- `loop_bounds`: which blocks a loop runs under a mask; `mask_counts`: how many; `load_imbalance`: how groups differ;
- `tile_counts`: tiles within tiles; `phases`: loops whose states are above the innermost level; `split_k`: loops in
  parts as two kernels; `contractions`: the products of a kernel and their factors; `grid_formulas`: formulas over
  groups.
"""
