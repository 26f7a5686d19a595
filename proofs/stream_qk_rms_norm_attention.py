"""Attention of queries and keys divided by their root mean squares streams over the keys."""

import catdiag as cd

left = cd.library.get("qk_rms_norm_attention")
right = left.stream("x").group("q")
