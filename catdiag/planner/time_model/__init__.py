"""How long a kernel takes for given tiles: the model by which a plan is chosen.

`prediction.predict` composes the terms, each a function of a `kernel_instance.KernelInstance`, with its unit in its
name:

- `matrix_units`: products; `core_pipelines`: special functions, ALUs, passing through registers, stalls;
- `memory_traffic`: bytes across each edge, what caches hold, what memory needs;
- `queueing`: how well blocks on a core fill each other's gaps, and how busy loads keep memory.

A backend says in what kernels differ, as the ideal one has it unless it says otherwise: who is on a core, late loads,
matrix units that fill and drain, how far warpgroups overlap. `ideal_backend` knows no compiler, `given_overlap` is
given what runs at once, `triton_backend` and `gluon_backend` are of kernels that are written. What a block takes of its
core is `catdiag.planner.resources`'.

Everything works on NumPy arrays, one entry for each candidate of tiles. docs/explanation/time_model.md says how near
it is to measurements.
"""
