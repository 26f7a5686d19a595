"""catdiag: array programs as diagrams, rewritten with proofs, costed in closed form."""
