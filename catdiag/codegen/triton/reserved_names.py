"""Names that a generated module uses itself: inputs, tiles and sizes get others."""

from __future__ import annotations

import keyword

from catdiag.codegen.triton.triton_dialect import HELPERS

MODULE_WORDS = {*keyword.kwlist, *HELPERS, "tl", "triton", "torch", "out", "num_warps", "num_stages", "phase",
    "part", "chunk", "pid", "device", "float", "min", "max", "range", "tuple", "_block", "_expect", "_powers",
    "pid_tiles", "pid_beside", "pid_first", "pid_width",
    "_summed", "_boxed", "gl", "gluon", "hopper", "specialized", "Boxes", "_groups", "_boxes", "_down", "barrier",
    "slot", "w", "in_registers", "compiled", "math", "fast", "TensorDescriptor", "functools", "_tiles", "_registers",
    "_power", "_positive", "_runs", "_each", "_fitted", "_warps", "_room", "_aligned", "_starts", "_chip", "_copies",
    "_copied", "_Checked", "_long", "wide", "_writable", "_bounds", "_meets", "_meet", "_repeats", "_offsets",
    "_layout", "_arena", "_merged", "_product", "_called", "functions", "deterministic", "_parts", "strict", "why",
    "_in_order", "_added_up", "_add_up", "_run", "_programs", "run", "tile", "tiles_ahead", "divisible_by_8",
    "warnings", "_unboxed", "_plain", "_amd", "_dependent", "dependent",
    "pdl", "dependent_launch"}  # fmt: skip
"""Names used in all modules."""
GLUON_WORDS = {"barrier", "slot", "w", "strict", "why", "warnings"}
"""Names used in warp-specialized kernels only."""
LAUNCH_WORDS = {"num_warps", "num_stages", "in_registers", "compiled", "specialized", "device", "chunk", "groups",
    "out", "_", "strict", "why", "deterministic", "torch", "triton", "tl", "gl", "gluon", "dependent", "pdl",
    "dependent_launch"}  # fmt: skip
"""Names used in launch functions only."""
