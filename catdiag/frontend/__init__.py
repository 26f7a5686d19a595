"""The frontend: Python functions over arrays with named axes, traced to diagrams.

- `builder`: the decorator `algorithm`, contractions (einsum), reductions, positions and sizes.
- `signature`: the parser of signatures such as `q d, x d -> q x`.
- `tracing`: traced arrays, which record the operations on them; `constants`: Python numbers as exact constants.
- `elementwise`: scalar functions; `nn`: activations, log-sum-exp, variance, as named boxes.
- `reshape`: axes transposed, split, merged, sliced, concatenated; `indexing`: gathers, windows, slices and other reads
  at computed positions; `index_expressions`: recovers index arithmetic from traced boxes.
- `diagram_calls`: diagrams called as functions inside an algorithm.
"""
