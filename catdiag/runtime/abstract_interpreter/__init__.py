"""A kernel's text read without running it: tiles that have shapes and no elements.

- `kernel_reader`: the reader; `tile_values`: what is known of values; `tile_operations`: what Triton's functions do;
- `symbolic_lengths`: numbers that know their polynomial; `register_layouts`: how a block holds a tile; `shared_memory`:
  how much shared memory a kernel takes.
"""
