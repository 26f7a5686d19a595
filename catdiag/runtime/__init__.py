"""Generated kernels at run time: imported, launched, registered with torch; and analyzed without a GPU.

- `compile`: a kernel as a function of tensors; `module_cache`: generated texts as Python modules; `torch_operator`:
  kernels as custom operators of torch;
- `machine_code`: the launches of a module and its compiled binaries (registers, spills, shared memory);
- `launch_recorder`: the launches without torch, triton or a GPU;
- `abstract_interpreter/`: shared memory, loads and products of a kernel, from its tree or its source.
"""
