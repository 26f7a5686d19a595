"""A mean with weights streams: the weights and the products are summed in one loop."""

import catdiag as cd

left = cd.library.get("normalised_contraction")
right = left.stream("x").group("q")
