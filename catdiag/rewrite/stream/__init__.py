"""Streaming: finds the state of an online algorithm for the reductions over an axis, and the loop over blocks that
keeps it.

A *statistic* is a value that depends on the whole axis, such as a running maximum. An *element* is a value at one index
of the axis. Accumulators of elements that depend on a statistic are *repaired* (rescaled) when it changes.

- `streaming`: the rewrite `stream` of a derivation; `fold_search`: candidate loops; `multi_pass`: several loops over
  one axis.
- `cascade`: the reductions over the axis as accumulators in order of dependence, found by abstract interpretation with
  the rules of `separation_rules` and `hoisting`; `separable_form`: the algebra of sums of products of statistics and
  elements.
- `exponential_repair`, `divisor_repair`, `selection_repair`: how an accumulator is repaired when a statistic changes.
- `whole_axis_arrays`: arrays that stay on chip along the whole axis.
- `user_fold`: a fold given by the user, with `user_fold_tracing`, `user_fold_state`, `user_fold_stream` and
  `user_fold_counterexample`.
"""
