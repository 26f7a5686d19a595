"""Least transfers.

- `posynomial`: programs, certificates of their optima, and their checker; `closed`: what has a closed form;
- `regimes`: which constraints bind, of all `choices` there are; `points` has the closed forms of one, certificates are
  checked in `stationary`, signs decided in `signs`; `likely` gives an order of work by what is `binding` at random
  sizes; `cases`: two ways compared in every regime;
- `dual`: optima without a closed form between two fractions, which `convex` finds and `enclosure` bounds;
- `slowest`: the greatest of several edges;
- `least`, `whole`: over whole tiles, by trying all, and by branch and bound under divisibility;
- `powerform`: transfers as powers of the capacity.
"""
