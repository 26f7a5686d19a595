"""Programs written from diagrams.

- `numpy_source`, `pseudocode`: loops as NumPy and as pseudocode; `loop_state`: what loops carry, as formulas;
- `triton/`, `gluon/`: kernels; `torch_reference`: what a diagram means, in PyTorch;
- `source_writer`: what printers share; `numpy_expressions`, `torch_expressions`: what a box makes of arrays, as text.
"""
