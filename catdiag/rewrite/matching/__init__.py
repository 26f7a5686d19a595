"""A user's own rules: equations proved once and used wherever their left side occurs.

- `rule`: a rule; `subgraph_search`: where its left side occurs; `unify`: what axes and sizes are there;
- `rule_application`: one rule at one diagram; `splice`: the right side put in place; `rule_theorem`: the theorem.
"""
