"""A simulator of memory hierarchies: it runs diagrams, moves blocks between memories, and counts transfers and peaks.

It is the oracle for the formulas of `catdiag.cost`. The two share the rules in words, and no code.

- `machine`: one memory on chip, `count`; `multi_level_machine`: several levels, `count_levels`;
- `on_chip_memory`: runs the boxes of a kernel on its tiles; `loop_iterations`: loops, with rings of buffers;
- `phased_kernels`: kernels whose loop states are above the fastest level;
- `memory_cells`: memories, arrays and tiles; `graph_readers`: the readers of each array, and what is rematerialized;
- `read_regions`: access regions of views; `cache_waves`: loads that caches pass on; `byte_widths`: bytes per value.
"""
