"""Triton: a diagram's groups as kernels, and a function that launches them.

- `triton_module`: the module; `kernel_body`: a kernel from statements; `kernel_builder`: its arrays and sizes;
  `kernel_signature`: what it is for a launch; `kernel_source`, `launch_parameters`: its text and its parameters;
- `tile_expressions`: what is computed of tiles; `array_accesses`: arrays as functions of indices; `dot`: contractions;
  `mask_ranges`: which blocks a condition leaves whole; `triton_printer`: expressions as lines;
- `launch_function`, `launch_checks`: the function that launches, and what it checks.
"""
