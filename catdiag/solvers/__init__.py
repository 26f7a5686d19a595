"""Solvers as functions from goals to answers, each in a child process; neither the kernel nor the prover.

- `process`: what they share, seen from here: a child behind a pipe, bounded and killable;
- `worker`: what they share, seen from the child;
- `z3`, `cvc5`: the solvers; `z3_goals`, `cvc5_goals`: how each is put a goal, in its child;
- `both`: z3 with cvc5 as a second opinion;
- `limit`: a limit on the time of any piece of work.
"""
