"""Generated kernels, run or read: imported, compiled, registered with torch.

- `compile`: a kernel as a function of tensors; `module_cache`: texts as modules; `torch_operator`: kernels as
  operators;
- `machine_code`: what a module launches, and its code; `launch_recorder`: the launches without torch or a GPU;
- `abstract_interpreter/`: what a kernel's text says of memory.
"""
