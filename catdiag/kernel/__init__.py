"""The trusted room: terms, their meaning, definedness, the rules, and the checker of certificates.

It does no search and imports the standard library only; solvers are handed to it as functions. In the order in which
they are read:

- `terms`: the term language and its total semantics; `well_formed`: whether data is a core program by its form;
- `semantics`: core programs and what they mean as terms; `size_scope`: names of sizes;
- `definedness`: what a program owes before its total value is the value that its program means;
- `checker`: what a theorem says, and the replay of a certificate; `loop_rules`: loops and groups, by induction;
- `judgments`: conditions, by proofs that are replayed; `rewrite_rules`: steps, of `scalar_rules` and `reduction_rules`,
  whose arguments are read by `rule_arguments`;
- `context`: what is known at a place in a term: ranges, facts, signs; `polynomial`: the normal form behind `ring` and
  `field`; `opaque_atoms`: goals about reals for a solver;
- `witness`, `contradiction`: whether a theorem is about something, or about nothing.
"""
