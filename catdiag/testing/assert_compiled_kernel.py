"""Whether a compiled kernel gives what the program that it was written from means: `assert_compiled`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catdiag.execute.size_inference import tile_bounds
from catdiag.runtime.compile import NO_GPU, CompiledKernel, interpreted
from catdiag.testing.assert_kernel import Tested, assert_implements
from catdiag.testing.concise_failures import concise
from catdiag.util.errors import CatdiagError


@concise
def assert_compiled(
    kernel: CompiledKernel, sizes: Mapping[str, Any] | None = None, trials: int = 20, **options: Any
) -> Tested:
    """Tests a compiled kernel against what its diagram means, by `assert_implements`: at sizes about its tiles and
    arrays at which kernels go wrong, within what rounding allows, results poisoned before they are written.

    `sizes` fixes some axes, to a number or several to draw from; each new size may be compiled for. There are `trials`
    calls; further options are those of `assert_implements`. It runs on
    the GPU, or where `TRITON_INTERPRET=1` was set, slowly, without one. Raises Mismatch with the smallest sizes and
    arrays that fail; CatdiagError where the diagram is not known or the kernel takes types that are not tested.

        plan = cd.library.attention.stream("x").group("q").plan("H100", {"q": 4096, "x": 4096, "d": 128})
        cd.testing.assert_compiled(plan.compile(), sizes={"d": 128})
    """
    import torch

    subject: Any = kernel if kernel.source is not None else kernel.diagram
    if subject is None:
        raise CatdiagError("the kernel's diagram is not known: expected one that plan.compile() gave")
    given = {a.dtype for a in kernel.code.inputs if a.ty.axes and a.ty.element in ("real", "extended")}
    if len(given) > 1:
        raise CatdiagError(f"the inputs are of {', '.join(sorted(given))}: kernels of one type are tested")
    results = {a.dtype for a in kernel.code.outputs if a.ty.element in ("real", "extended")}
    if not interpreted(kernel.module) and not torch.cuda.is_available():
        raise CatdiagError(NO_GPU)
    if interpreted(kernel.module) and "bfloat16" in given | results:
        raise CatdiagError(
            "Triton's interpreter cuts numbers off to bfloat16 and does not round them: test there what is "
            "compiled with dtype='fp16' or 'fp32'"
        )
    lengths = tile_bounds(kernel.diagram or subject)
    block = {size: kernel.tiles[t] for t, size in lengths.items() if isinstance(size, str) and t in kernel.tiles}
    return assert_implements(
        kernel,
        subject,
        next(iter(given), "float32"),
        sizes=sizes,
        block={size: length for size, length in block.items() if length > 1},
        trials=trials,
        convert="torch" if interpreted(kernel.module) else "torch:cuda",
        **{**({"result": next(iter(results))} if len(results) == 1 else {}), **options},
    )
