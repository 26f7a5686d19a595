"""A mixture of experts streams over the experts, with a running maximum of what the router says."""

import catdiag as cd

left = cd.library.get("mixture_of_experts")
right = left.stream("e").group("t o")
