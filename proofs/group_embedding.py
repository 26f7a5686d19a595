"""Rows are looked up in groups."""

import catdiag as cd

left = cd.library.get("embedding")
right = left.group("t d")
