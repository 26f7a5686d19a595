"""Triton code generation: each group of a diagram becomes a kernel, and one function launches the kernels.

From the outside in:

- `triton_module`: the module as a whole, and the public function `module`; `generated_module`: the record of it;
- `kernel_body`: one kernel from the statements of a loop nest; `kernel_builder`: its arrays, sizes and tile dimensions;
- `tile_expressions`: the expression graph of a kernel (hash-consed nodes); `tile_fills`: what tiles contain outside of
  arrays; `array_accesses`: array reads as functions of indices; `mask_ranges`: blocks that need no mask;
- `dot`: contractions as matrix products; `product_types`: in which types; `value_bounds`: factors that are too large
  for 16 bits;
- `triton_printer`: expressions as source, in the dialect of `triton_dialect` or in Gluon's;
- `kernel_signature`, `kernel_source`, `launch_parameters`: a kernel's signature, source and parameters;
- `launch_function`, `launch_sizes`, `launch_checks`: the launch function, its sizes, and the checks of its arguments.
"""
