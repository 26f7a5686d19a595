"""A GPU's hardware counters against the formulas, by Nsight Compute.

- `expected_counters`: the predicted counters of a kernel, and the known causes of differences;
- `ncu`: runs Nsight Compute and reads its output; `profiler_target`: the program that it profiles;
- `counter_comparison`: measured counters beside predicted ones.
"""
