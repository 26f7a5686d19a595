"""A convolution is windows laid out in rows, times the kernels as a matrix, of the library."""

import catdiag as cd

left = cd.library.get("conv1d")
right = cd.library.get("im2col")
