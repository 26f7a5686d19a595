"""A profiler's counters against the formulas.

- `expected_counters`: what a kernel should show; `profiler_target`: the program that a profiler runs;
- `ncu`: how Nsight Compute it is run and read; `counter_comparison`: what was counted beside what was predicted.
"""
