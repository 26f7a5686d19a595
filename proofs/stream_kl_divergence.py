"""The divergence of two softmaxes streams with two running maxima."""

import catdiag as cd

left = cd.library.get("kl_divergence")
right = left.stream("v").group("t")
