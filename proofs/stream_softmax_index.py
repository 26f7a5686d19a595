"""The mean position under the weights of a softmax streams."""

import catdiag as cd

left = cd.library.get("softmax_index")
right = left.stream("x").group("q")
