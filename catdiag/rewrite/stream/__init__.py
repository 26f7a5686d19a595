"""Streaming: the online state of a reduction, found and proved.

- `streaming`: a stream as a step of a derivation; `fold_search`: the loop over blocks; `cascade`: which accumulators
  its state has and how each is repaired, read box by box with `separation_rules` and `hoisting`; `separable_form`:
  statistics pulled out of elements;
- `exponential_repair`, `divisor_repair`, `selection_repair`: how an accumulator is repaired when a statistic changes;
- `multi_pass`: loops one after the other; `whole_axis_arrays`: what stays on chip along the whole axis;
- `user_fold`: a fold that a user brings, with `user_fold_tracing`, `user_fold_state`, `user_fold_stream` and
  `user_fold_counterexample`.
"""
