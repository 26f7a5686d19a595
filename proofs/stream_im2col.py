"""A convolution as a product of matrices streams over the rows of windows, kernel and channels in one axis."""

import catdiag as cd

left = cd.library.get("im2col")
right = left.stream("(k c)").group("n o")
