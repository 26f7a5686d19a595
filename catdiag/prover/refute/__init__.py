"""Counterexamples: searched in floats, decided on exact numbers, made small.

- `counterexample_search`: the search; `program_comparison`: two programs on the same inputs; `candidate_inputs`: inputs
  to try; `float_screening`: many at once, in floats; `boundary_inputs`: inputs at which a program branches;
- `exact_execution`: programs run on the numbers of `exact_reals`, with `function_interpretations` of functions that
  have no meaning of their own;
- `counterexample_shrink`: smaller ones; `counterexample_data`: as plain data; `validate`: whether one stands.
"""
