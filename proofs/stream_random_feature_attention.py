"""Attention by random features streams over the keys."""

import catdiag as cd

left = cd.library.get("random_feature_attention")
right = left.stream("x").group("q")
