"""Diagrams run on NumPy arrays, blocks and tiles included.

- `interpreter`: the run; `named_arrays`: arrays whose axes have names; `size_inference`: sizes from shapes;
- `indexed_reads`: reads at index arithmetic.
"""
