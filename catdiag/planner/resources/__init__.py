"""What a thread block takes of its core: shared memory, registers, tensor memory, threads.

`block_resources.Resources` is the answer: whether it fits, what overflows, and how many blocks share a core. A backend
works it out: `ideal_resources` (each array where the chip keeps it), `triton_resources` (where Triton puts it), or
`gluon_resources` (kernels whose loads warps of their own issue). `dot_products` is what these read of a diagram.
"""
