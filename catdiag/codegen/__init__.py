"""Code generation: source text from diagrams, by way of the loop nest of `catdiag.schedule.loop_nest`.

- `triton/`, `gluon/`: GPU kernels;
- `numpy_source`, `pseudocode`: loops as NumPy and as pseudocode; `loop_state`: the state of loops, as formulas;
- `torch_reference`: the meaning of a diagram in PyTorch, without its loops;
- `source_writer`: the base class of NumPy and pseudocode printers; `numpy_expressions`, `torch_expressions`: one box as
  an expression.
"""
