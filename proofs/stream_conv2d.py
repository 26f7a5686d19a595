"""A convolution of images streams over the channels, in groups of images and output channels."""

import catdiag as cd

left = cd.library.get("conv2d")
right = left.stream("c").group("n o")
