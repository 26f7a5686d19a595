"""From a diagram and a chip to a plan: tiles, stages, warps, kernels, predicted time, and the proof that it fits.

- `partition.plan`: the plan of a program, in one kernel or several; `multi_kernel_plan`: what it is;
- `program_bound`: what the best equal program known needs at least;
- `fit`: the tiles of one kernel; `plan`: what is found; `plan_request`: what is asked; `tile_search`: all candidates;
  `explanation`: from a candidate to the plan that is shown;
- `resources`: what a thread block takes of its core; `time_model`: how long a kernel takes; both as a backend makes it:
  ideal, Triton or Gluon;
- `pipeline_simulation`: how warpgroups share a core; `instruction_shapes`, `memory_sectors`: which tiles a chip wants;
  `fits_proof`, `fits_in_ranges`: proofs by z3;
- `configuration_candidates`, `launch_configurations`: what is worth being tried; `emitted_module`: what a configuration
  becomes once it is written; `fitted_configuration`: the plan of a kernel as it is written; `compiled_plan`: kernels at
  given tiles;
- `graph_segments`: where a program may be cut; `kernel_drafts`: how a kernel may run; `partition`, `kernel_candidates`:
  one kernel or several, by time; `fusions`, `kernel_schedules`: the same by transfers;
- `derivation_search`: which axis to stream and which to group; `sweep`: many plans.
"""
