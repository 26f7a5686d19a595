"""Runs diagrams on NumPy arrays, with streamed axes in blocks and grouped axes in tiles.

- `interpreter`: the interpreter, `run`; `named_arrays`: arrays with named axes, and their contraction;
- `size_inference`: axis sizes from shapes, and lengths of blocks and tiles;
- `indexed_reads`: reads at index arithmetic (gathers, windows, padding).
"""
