"""An abstract interpreter of Triton kernels: it executes them on tiles that have shapes and no elements.

- `kernel_reader`: the interpreter; `tile_values`: its abstract values and its trace; `tile_operations`: the functions
  of Triton's language; `common_subexpressions`: what the compiler computes once;
- `shared_memory`: the shared memory that a kernel allocates; `register_layouts`: tiles in registers, and the scratch
  memory of layout conversions; `symbolic_lengths`: integers with the polynomial of tile lengths that they are.
"""
