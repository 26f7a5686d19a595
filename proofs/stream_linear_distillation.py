"""The divergence of a student from its teacher streams: both make their logits in the loop."""

import catdiag as cd

left = cd.library.get("linear_distillation")
right = left.stream("v").group("t")
