"""A mean weighted by Gaussians of distances streams with a running maximum."""

import catdiag as cd

left = cd.library.get("distance_attention")
right = left.stream("x").group("q")
