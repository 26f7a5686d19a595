"""A softmax runs in groups of rows."""

import catdiag as cd

left = cd.library.get("softmax")
right = left.group("q")
