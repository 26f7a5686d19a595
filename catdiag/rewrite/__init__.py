"""Rewrites of diagrams, each with its theorem.

- `derivation`: a diagram rewritten step by step, every step proved; `steps`: what a step did; `compose`: derivations
  one after the other and beside each other; `advice`: what a theorem about real numbers does not say;
- `stream/`: the loop over blocks of an axis with a small state; `group`: tiles of axes (`group_by_level`,
  `group_renaming`, `group_views`); `split`: loops in parts; `skip`: blocks that a mask empties (`skip_support`,
  `skip_counterexample`);
- `distribute`: sums of polynomials, distributed (`distribute_products`, `deferred_scaling`); `contraction_order`: sums
  of products, two at a time; `fuse`: what stays on chip; `stabilize`: maxima subtracted in exponentials; `casts`;
- `matching/`: a user's own rules, found and applied;
- `claims`: equations about the states of parts of a list (`list_states`), of which `stability` and `loop_laws` are
  made; `theorem_decorator`: equations that a user claims;
- `hash_consed_graph`, `graph_builder`, `canonicalize`: the graph that rewrites grow; `formula`: what was found, in
  formulas for people.
"""
