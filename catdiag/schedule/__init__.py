"""The one lowering of a diagram to a kernel, which costs, code generation and the planner all read.

A diagram stores its boxes in an order. That order says which loops run, what is loaded when, and when each array dies.

- `loop_nest`: a diagram as loops of statements, which code generators print; `statements`: what these are;
- `liveness`: the same statements with what is allocated on chip, and the points of maximum memory; `kernel_work`,
  `peak_memory`: the work and the most memory, read off them;
- `kernel_cut`: which boxes are a kernel, and a kernel as a graph of its own; `lowered_kernel`: a kernel with its
  transfers, work and statements; `kernel_analysis`: all kernels of a diagram;
- `live_ranges`: the last use of each array, views, what is computed in place, what is rematerialized;
- `placement`: the memory level of each array; `element_widths`: the bytes of an element; `full_precision`: which arrays
  between kernels are statistics and stay in fp32;
- `access_region`: views that a group reads in place; `footprint`: the box of elements that such a view reads, halo
  included; `region_loads`: what is loaded of it in the whole run; `gathers`: reads at indices that are data;
- `loop_bounds`: which blocks a loop runs under a mask; `mask_counts`: how many, as formulas; `load_imbalance`: how much
  groups differ; `grid_formulas`: sums and maxima over the groups of a grid;
- `tile_counts`: tiles within tiles; `phases`: loops whose states are above the innermost level; `split_k`: a split loop
  as two kernels; `contractions`: the matrix products of a kernel and their factors.
"""
