"""A matrix times a vector streams over the columns, in groups of rows."""

import catdiag as cd

left = cd.library.get("matvec")
right = left.stream("b").group("a")
