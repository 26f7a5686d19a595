"""Finding proofs: what the kernel then checks. See `catdiag.prove.api` for `prove` and `equivalent`."""
