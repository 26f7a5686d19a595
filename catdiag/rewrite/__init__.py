"""Rewrites of diagrams: finding them here, proving them in `derivation`."""
