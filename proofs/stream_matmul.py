"""A product of matrices streams over the inner axis, in tiles of the result."""

import catdiag as cd

left = cd.library.get("matmul")
right = left.stream("b").group("a c")
