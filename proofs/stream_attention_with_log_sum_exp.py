"""Attention and the logarithm of its normaliser stream in one loop."""

import catdiag as cd

left = cd.library.get("attention_with_log_sum_exp")
right = left.stream("x").group("q")
