"""A user's own rewrite rules: equations proved once, and applied wherever their left side occurs.

- `rule`: the rule, its theorem and its application; `rule_application`: one rule at one diagram.
- `subgraph_search`: occurrences by wiring (subgraph isomorphism); `unify`: the axes and sizes of an occurrence.
- `splice`: the replacement of an occurrence; `rule_theorem`: the theorem of the rewritten diagram.
"""
