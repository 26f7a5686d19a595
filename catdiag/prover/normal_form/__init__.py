"""Normal forms of terms, as traces of kernel steps.

- `normalize`: the whole of it; `opaque_ite`: the form in which case distinctions are atoms, tried first;
- `conditions`: comparisons; `guards`: case distinctions; `index_arithmetic`: positions;
- `reduction_terms`: reductions, with binders in the order of `binder_order`.
"""
