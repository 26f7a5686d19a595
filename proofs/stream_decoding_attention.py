"""A step of decoding streams over the cache; a group holds the queries of all heads that share keys."""

import catdiag as cd

left = cd.library.get("decoding_attention")
right = left.stream("x").group("b k r")
