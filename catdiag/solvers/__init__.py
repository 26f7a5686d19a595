"""Solvers as functions from goals to answers, each in a child process; neither the kernel nor the prover.

- `child_process`: a child behind a pipe, bounded and killable; `solver_worker`: the same, seen from the child;
- `z3`, `cvc5`: the solvers; `z3_encoding`, `cvc5_encoding`: how each is put a goal, in its child;
- `cross_check`: z3 with cvc5 as a second opinion; `countermodels`: small numbers tried before a solver is started.
"""
