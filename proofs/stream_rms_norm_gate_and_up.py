"""Two linear layers stream in one loop with the root mean square before them."""

import catdiag as cd

left = cd.library.get("rms_norm_gate_and_up")
right = left.stream("d").group("t f")
