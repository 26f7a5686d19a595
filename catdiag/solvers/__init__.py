"""Solvers as functions from goals to answers, each in a child process; neither the kernel nor the prover."""
