"""Counterexamples: found by screening in floating point, decided in exact arithmetic, then shrunk.

- `counterexample_search`: the search; `candidate_inputs`: inputs to try; `boundary_inputs`: inputs on decision
  boundaries of a program; `float_screening`: many inputs at once, in floating point.
- `program_comparison`: two programs on the same inputs; `exact_execution`: programs in the exact arithmetic of
  `exact_reals`; `function_interpretations`: interpretations of uninterpreted functions.
- `counterexample_shrink`: smaller counterexamples; `counterexample_data`: counterexamples as plain data; `validate`: an
  independent check.
"""
