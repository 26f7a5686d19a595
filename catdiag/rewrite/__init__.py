"""Rewrites of diagrams, each with its theorem: an axis streamed through a loop, axes run in groups.

- `derivation`: a diagram rewritten step by step, every step proved;
- `rule`: a user's own rules; `search` finds where one may match, `unify` what its axes are there, `attempt` and
  `splice` rewrite, `whole` has the theorem;
- `strategy`: which axis to stream and which to group when nobody says;
- `stream`: the loop over blocks of an axis; `group`: tiles of axes, each on its own;
- `cascade`: which parts a loop's state has; it reads a diagram box by box, with `rules` for each kind of box,
  `separable` (statistics pulled out of elements) and `stabiliser` (exponentials kept as they were written);
- `terms`, `emitter`, `tidy`: the graph that the search grows, diagrams made from it, and one tidied before it;
- `stability`: whether exponentials overflow; `corollaries`: the laws of merges, and divisors. They make `claims`, which
  are equations about the states of parts of a list (`lists`);
- `fusions`: the ways to cut a diagram into kernels, and which moves least; `segments`: the pieces that it falls into,
  `schedules`: how each of them runs;
- `formula`: what was found, as formulas for people.
"""
