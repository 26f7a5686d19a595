"""A linear layer and its change of low rank stream in one loop."""

import catdiag as cd

left = cd.library.get("lora")
right = left.stream("d").group("t o")
