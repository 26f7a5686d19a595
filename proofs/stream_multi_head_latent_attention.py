"""Attention to latents streams over them: keys and values are made in the loop."""

import catdiag as cd

left = cd.library.get("multi_head_latent_attention")
right = left.stream("x").group("q h")
