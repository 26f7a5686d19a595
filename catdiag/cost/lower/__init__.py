"""Lower bounds on transfers: the data-flow that they are derived from, and their certificates.

- `flow`: the data-flow graph of a diagram, with loops and groups inlined; `sources`: the cases that it has
  (contractions with paths from inputs and to outputs); `needed`: compulsory transfers;
- `segments`, `lifetimes`: certificates by segments (Hong and Kung) and by lifetimes, and their checkers.
"""
