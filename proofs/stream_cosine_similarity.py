"""A cosine streams in one pass."""

import catdiag as cd

left = cd.library.get("cosine_similarity")
right = left.stream("x").group("q")
