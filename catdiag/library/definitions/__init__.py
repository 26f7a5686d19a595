"""The definitions of operators: each module holds a few, whose mathematics stands in the docstring of its function.

`catdiag.library` gives them as programs, `catdiag.library.diagrams` as bare diagrams.
"""
