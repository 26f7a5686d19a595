"""Triton: a diagram's groups as kernels, and a function that launches them."""

from catdiag.emit.triton.module import Argument, Module, module

__all__ = ["Argument", "Module", "module"]
