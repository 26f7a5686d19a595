"""Attention over keys in parts at once, each with a state of its own, and a merge (flash decoding), in groups."""

import catdiag as cd

left = cd.library.get("attention")
right = left.stream("x").split("x").group("q")
