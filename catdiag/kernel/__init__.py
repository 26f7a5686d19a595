"""The trusted room: terms, their meaning, definedness, the rules, and the checker of certificates.

It does no search and imports the standard library only; solvers are handed to it as functions.

- `terms`: the term language and its total semantics;
- `form`: whether data is a core program by its form;
- `meaning`: core programs and what they mean as terms;
- `context`: what is known at a place in a term: ranges, facts, signs;
- `defined`: what a term owes before its total value is what its program means;
- `polynomial`: the normal form behind the steps `ring` and `field`;
- `axioms`: the table of rewrite rules, and how one is applied at a place; `reductions` and `scalars`: the rules, each
  with its argument; `arguments`: how they read what a step gives them;
- `check`: theorems, list induction, definedness, certificates.
"""
