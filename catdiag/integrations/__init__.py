"""Programs inside of other libraries: modules of PyTorch compiled, and regions of graphs that PyTorch compiles.

- `compiled_module`: `cd.compile`, a module as a program, a plan, a theorem and a function of tensors;
- `graph_regions`: the parts of a graph that are programs here, and what they move; `inductor_model`: what Inductor is
  predicted to take; `region_operator`: a region as an operator of torch; `torch_backend`: the backend of
  `torch.compile`; `inductor_pass`: a pass of Inductor that does the same;
- `attention_interface`: attention of Hugging Face's transformers.
"""
