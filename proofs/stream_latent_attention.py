"""Attention in the space of latents streams over them: each is read once, as a key and as a value."""

import catdiag as cd

left = cd.library.get("latent_attention")
right = left.stream("x").group("q h")
