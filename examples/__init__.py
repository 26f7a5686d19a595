"""Programs that use catdiag: `python examples/kernel.py`, and `python -m examples.napkin`."""
