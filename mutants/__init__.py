"""Mutation testing of the kernel: `python -m mutants`."""
