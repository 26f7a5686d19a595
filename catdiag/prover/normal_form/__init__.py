"""Normal forms of terms, as traces of kernel steps.

- `normalize`: the full normal form; `opaque_ite`: a cheaper form in which every if-then-else is an atom, tried first.
- `conditions`: comparisons and connectives; `guards`: if-then-else as indicator functions; `index_arithmetic`: floors
  and reindexed reductions.
- `reduction_terms`: reductions; `binder_order`: the canonical order of their binders.
"""
