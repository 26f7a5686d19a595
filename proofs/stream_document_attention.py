"""Attention within documents streams over the keys; a query without keys gives 0."""

import catdiag as cd

left = cd.library.get("document_attention")
right = left.stream("x").group("q")
