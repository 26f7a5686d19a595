"""Mutation testing of the kernel: `python -m tests.mutants`."""
