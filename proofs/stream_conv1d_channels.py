"""A convolution streams over its input channels, in groups of its results."""

import catdiag as cd

left = cd.library.get("conv1d")
right = left.stream("c").group("n o")
