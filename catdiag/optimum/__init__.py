"""The least of a posynomial under others, in closed form, with certificates that are checked.

- `minimize`: the least transfers that a memory allows; `posynomial`: programs and certificates; `closed_form`: what has
  one; `power_form`: sums of powers of the capacity; `crossover`: where one begins to be less than another;
- `regimes`: which constraints bind (`active_sets`, `active_constraints`, `stationary_points`), each with an
  `optimality_certificate`, signs by `sign_proofs`, in the order of `screening`; `regime_comparison`: two ways compared;
- `integer`: whole tiles by branch and bound; `exhaustive`: by trying all;
- `minimax`: the greatest of several;
- `dual_bound`: brackets where there is no closed form, by `convex_solver` and `rational_enclosure`;
- `certificate_text`: what a certificate rests on, in words.
"""
