"""The matrix that makes keys of latents moves over to the queries, and the one that makes values to the results."""

import catdiag as cd

left = cd.library.get("multi_head_latent_attention")


@cd.algorithm("q h d, q h r, x c, x r, c h d, c h v -> q h v")
def right(Q, R, C, P, W, U):
    absorbed = cd.einsum("q h d, c h d -> q h c", Q, W)
    products = cd.einsum("q h c, x c -> q h x", absorbed, C) + cd.einsum("q h r, x r -> q h x", R, P)
    S = products / cd.sqrt(cd.size("d") + cd.size("r"))
    return cd.einsum("q h c, c h v -> q h v", cd.einsum("q h x, x c -> q h c", cd.softmax(S, "x"), C), U)
