"""Rewrites of diagrams, each with its theorem: tiling, streaming, fusion and algebraic transformations.

- `derivation`: a diagram rewritten step by step, every step proved; `steps`: the record of each kind of step;
  `compose`: derivations in sequence and in parallel; `advice`: numerical warnings, which a theorem about real numbers
  does not give.
- `stream/`: a loop over blocks of an axis with a small state (online algorithms); `split`: the loop in parallel parts
  (split-K); `skip`: blocks that a mask makes irrelevant are skipped (`skip_support`, `skip_counterexample`).
- `group`: tiling of axes into independent groups (`group_by_level`, `group_renaming`, `group_views`); `fuse`: which
  intermediate arrays stay on chip, and which kernels follow.
- `distribute`: products distributed over sums, such as squared distances as matrix products (`distribute_products`,
  `deferred_scaling`); `contraction_order`: products of several arrays in the order that multiplies least
  (`pairwise_contractions`);
  `merge_axes`: one summed axis in place of several; `stabilize`: maxima subtracted in
  exponentials (safe softmax); `casts`: which of the casts that the source has are kept; `integer_factors`: integers of
  8 bits, or unpacked from them, cast to the type of matrix products.
- `matching/`: a user's own rewrite rules: search, unification, replacement.
- `claims`: properties of a derived loop, put as equations about the states of parts of a list (`list_states`);
  `stability` and `loop_laws` state such properties; `theorem_decorator`: equations that a user claims.
- `hash_consed_graph`, `graph_builder`, `canonicalize`: the graphs that rewrites build; `box_formulas`: boxes and
  wires as formulas; `loop_state`: the states of loops as formulas.
"""
