"""The expert of a token and how sure the router is stream in one loop."""

import catdiag as cd

left = cd.library.get("top_1_routing")
right = left.stream("e").group("t")
