"""The difference of two softmaxes streams in one loop with two running maxima."""

import catdiag as cd

left = cd.library.get("differential_attention")
right = left.stream("x").group("q")
