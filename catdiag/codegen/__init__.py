"""Code generation: source text from diagrams, by way of the loop nest of `catdiag.schedule.loop_nest`.

- `triton/`, `gluon/`: GPU kernels;
- `numpy_source`, `pseudocode`: loops as NumPy and as pseudocode;
- `torch_reference`: the meaning of a diagram in PyTorch, without its loops;
- `dialect`: how a language writes functions and lays out arrays, with a `notation` for each function;
- `array_expressions`: one box applied to arrays as an expression; its dialects are `numpy_expressions` and
  `torch_expressions`;
- `names`, `program_sizes`: names in generated code, and the sizes that a program reads;
- `source_writer`: the base class of NumPy and pseudocode printers.
"""
