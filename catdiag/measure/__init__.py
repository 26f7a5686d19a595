"""Kernels on a GPU: timed, tuned, compared, profiled.

- `tune`: the quickest of a few configurations; `bench`: a kernel beside what people use, of `bench_kernels`, as a
  `bench_case`, shown as a `bench_table`; `device_timer`: times; `output_check`: whether results are right;
- `profile/`: a profiler's counters against the formulas.
"""
