"""Derivatives of diagrams, forward and reverse: `linear_maps`, one table of rules by operation, and the two passes."""
