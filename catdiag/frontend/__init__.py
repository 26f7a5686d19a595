"""Programs with named axes, written as Python functions, to diagrams.

- `builder`: the decorator `algorithm`, contractions and reductions; `signature`: the grammar of `q d, x d -> q x`;
- `tracing`: arrays that note what is done with them; `constants`: numbers in a program, exact;
- `elementwise`: scalar functions of arrays; `nn`: activations and the like, as named boxes;
- `reshape`: axes split, merged, sliced and concatenated; `indexing`: reads at computed positions, whose arithmetic
  `index_expressions` reads back; `diagram_calls`: diagrams used as functions.
"""
