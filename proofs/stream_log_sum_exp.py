"""Log-sum-exp streams with a running maximum, in groups of rows."""

import catdiag as cd

left = cd.library.get("log_sum_exp")
right = left.stream("x").group("q")
