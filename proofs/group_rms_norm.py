"""A root mean square norm runs in groups of rows."""

import catdiag as cd

left = cd.library.get("rms_norm")
right = left.group("t")
