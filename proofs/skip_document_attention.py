"""Attention within documents leaves out the blocks of keys that are of other documents."""

import catdiag as cd

left = cd.library.get("document_attention")
right = left.stream("x").group("q").skip("x")
