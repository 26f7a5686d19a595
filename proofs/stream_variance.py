"""A variance streams in one pass, in groups of rows."""

import catdiag as cd

left = cd.library.get("variance")
right = left.stream("x").group("q")
