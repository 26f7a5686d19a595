"""The trusted kernel: terms, their meaning, definedness, the rules, and the checker of certificates.

It does no search and imports the standard library only. Solvers are passed to it as functions. `READING_ORDER` lists
its files in reading order:

- *statement*, what a theorem says: `terms`, the term language and its total semantics; `well_formed`, whether data has
  the form of a core program; `size_scope`, names of sizes; `semantics`, core programs and their meaning as terms;
  `definedness`, the side conditions under which a program's total value is the value that it means;
  `differentiability`, those under which it has a derivative; `checker`, the theorem and the replay of its certificate;
  `composition`, the theorem about a program from those about its parts.
- *rules*, the axioms as functions, each with its argument: `rewrite_rules`, the table of rules and where in a term they
  apply; `rule_arguments`, parsing of their arguments; `scalar_rules` and `reduction_rules`; `loop_rules`, loops and
  groups by induction; `judgments`, conditions by proofs that are replayed.
- *arithmetic*, on which rules rest: `facts` and `context`, what is known at a place in a term (ranges, facts, signs);
  `polynomial`, the normal form behind `ring` and `field`, with `rationals`, its numbers; `opaque_atoms`, goals about
  reals for a solver.
- *vacuity*, on which no equation rests: `witness` and `contradiction`, whether the hypotheses of a theorem can be met.
"""

READING_ORDER = {
    "statement": (
        "__init__",
        "terms",
        "well_formed",
        "size_scope",
        "semantics",
        "definedness",
        "differentiability",
        "checker",
        "composition",
    ),
    "rules": ("rewrite_rules", "rule_arguments", "scalar_rules", "reduction_rules", "loop_rules", "judgments"),
    "arithmetic": ("facts", "context", "rationals", "polynomial", "opaque_atoms"),
    "vacuity": ("witness", "contradiction"),
}
"""The files of this room, by what they are for, in the order in which they are read."""
