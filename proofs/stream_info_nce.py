"""A contrastive loss streams over the items, and meets the one that belongs to each on the way."""

import catdiag as cd

left = cd.library.get("info_nce")
right = left.stream("j").group("i")
