"""Generated kernels beside what people use today, on one GPU in one run: `python -m benchmarks.gpu` says how."""
