"""Linear attention streams with a state that no query takes part in."""

import catdiag as cd

left = cd.library.get("linear_attention_by_state")
right = left.stream("x")
