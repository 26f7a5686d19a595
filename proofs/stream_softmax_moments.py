"""Mean and variance under the weights of a softmax stream in one loop."""

import catdiag as cd

left = cd.library.get("softmax_moments")
right = left.stream("x").group("q")
