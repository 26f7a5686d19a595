"""Hypothesis strategies.

- `type_strategies`: axes and array types; `op_strategies`: single boxes; `diagram_strategies`: programs, sizes, arrays;
  `typed_programs`: programs of a wanted type; `kernel_programs`: those that kernels are made of;
- `equations`: pairs that mean the same, or nearly; `hierarchy_strategies`: memories;
- `adversarial_inputs`: sizes and arrays at which kernels go wrong; `distribution`: what is drawn how often.
"""
