"""The number of elements that a softmax is spread over streams."""

import catdiag as cd

left = cd.library.get("participation")
right = left.stream("x").group("q")
