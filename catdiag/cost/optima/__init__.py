"""Optimal tile sizes: least transfers under capacities, in closed form or certified between bounds.

- `posynomial`: geometric programs, certificates of their optima, and the checker; `closed`: the known closed forms;
- `regimes`: which constraints bind, and the piecewise optimum; `choices` lists the active sets, `points` gives the
  closed forms of one, `stationary` checks certificates (Karush, Kuhn, Tucker), `signs` decides inequalities by z3;
  `likely` screens by what is `binding` at random sizes; `cases`: two schedules compared in every regime;
- `dual`: optima without a closed form, bracketed by rational bounds; `convex` finds them, `enclosure` bounds logarithms
  and roots;
- `slowest`: minimax, the largest of several edges' transfers;
- `least`, `whole`: integer tiles, exhaustively, and by branch and bound under divisibility;
- `powerform`: transfers as sums of powers of the capacity.
"""
