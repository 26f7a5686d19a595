"""A convolution streams over the kernel, in groups of its results."""

import catdiag as cd

left = cd.library.get("conv1d")
right = left.stream("k").group("n y o")
