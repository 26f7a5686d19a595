"""The largest of a softmax streams."""

import catdiag as cd

left = cd.library.get("largest_probability")
right = left.stream("x").group("q")
