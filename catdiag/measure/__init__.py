"""Measurements on a GPU: kernels are checked, timed, tuned, benchmarked and profiled.

- `bench`: runs a benchmark of a kernel against others; `bench_case`: its data; `bench_kernels`: the kernels to run;
  `bench_table`: its results as markdown;
- `tune`: autotuning, the fastest of the configurations that the time model proposes;
- `device_timer`: timing; `output_check`: results against a float64 reference;
- `profile/`: a profiler's hardware counters against the formulas.
"""
