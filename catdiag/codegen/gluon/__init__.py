"""Gluon code generation: warp-specialized kernels for loops in which one matrix product feeds another (attention).

- `warp_specialization`: which loops have this form, and the code of the consumer warpgroups;
- `producer_warp`: the code of the producer warp, which loads; also the entry point, `specialize_warps`;
- `pipelined_loop`: the records of such a kernel;
- `gluon_source`: the text of the kernel that starts both; `gluon_printer`: expressions as text, with register layouts.
"""
