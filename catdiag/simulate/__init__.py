"""A machine that counts: it really moves blocks between memories, and shares with `cost` the rules in words.

- `machine`: two memories; `multi_level_machine`: several; `on_chip_memory`: boxes on the pieces of a kernel;
- `memory_cells`: what memories hold; `graph_readers`: who reads what; `loop_iterations`: blocks in rings of buffers;
- `phased_kernels`: states above the last level; `read_regions`: what is read of whole arrays; `cache_waves`: what
  caches fetch; `byte_widths`: how many bytes a value takes.
"""
