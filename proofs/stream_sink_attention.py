"""Attention with a logit that takes weight streams over the keys."""

import catdiag as cd

left = cd.library.get("sink_attention")
right = left.stream("x").group("q")
