"""Linear attention may sum over the keys first: the state has no queries."""

import catdiag as cd

left = cd.library.get("linear_attention")
right = cd.library.get("linear_attention_by_state")
