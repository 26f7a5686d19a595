"""The tests, and two programs that test further: `python -m tests.fuzz` and `python -m tests.mutants`."""
