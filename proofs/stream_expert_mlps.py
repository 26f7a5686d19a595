"""Experts on their own tokens stream over their hidden units."""

import catdiag as cd

left = cd.library.get("expert_mlps")
right = left.stream("f").group("e t")
