"""Programmatic dependent launch: a kernel begins while the one before it ends (Hopper and later).

Ordinary launches of a stream wait until what was launched before is complete and what it wrote is in memory. A kernel
that is launched as a dependent may begin once each program of the kernel before has said so
(`griddepcontrol.launch_dependents` in PTX), or has ended. It waits itself (`griddepcontrol.wait`), until the grid
before it is complete and has written.

The law that makes a chain of such launches mean what ordinary ones do: **each kernel that is launched as a dependent
waits, in every program, before its first access to memory.** For then

- it reads and writes nothing before all that was launched earlier is complete. By induction: the grid before it is
  complete only after each of its own programs has waited for the one before that, or was launched ordinarily. So an
  array is read after it was written, and a part of the arena is written anew only after its last reader is complete.
- What was launched before the module, and calls of other libraries, say nothing of who waits for what. So the first
  kernel, one after a call, and one beside an array that is cleared or added up by torch are launched ordinarily.

Blocks of the next kernel are let in late, before a program stores: see `triggering`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from catdiag.codegen.kernel_tree import Do, If, PythonStatement, walked
from catdiag.codegen.syntax import FunctionCall, Name, call, dotted
from catdiag.codegen.triton.kernel_signature import KernelSpec
from catdiag.codegen.triton.opaque_call import OpaqueCall
from catdiag.codegen.triton.product_call import ProductCall

if TYPE_CHECKING:
    from catdiag.codegen.gluon.pipelined_loop import WarpSpecialized

TRIGGER, WAIT = "tl.extra.cuda.gdc_launch_dependents", "tl.extra.cuda.gdc_wait"
"""The functions of Triton that let the next kernel begin, and that wait for the one before."""
DEPENDENT = '''def _dependent(wanted, device):
    """Whether kernels begin while those before them end, and the option with which they are launched then."""
    if not wanted or _amd() or not _copies(device) or not hasattr(triton, "knobs") or triton.knobs.runtime.interpret:
        return False, {}
    return True, {"launch_pdl": True}'''
"""The function of generated modules that decides; it uses `_amd` and `_copies`."""


def chained(
    kernels: Sequence[KernelSpec], calls: Sequence[ProductCall | OpaqueCall], added: Collection[int]
) -> list[KernelSpec]:
    """The kernels of a module, each with whether it waits for the one before and lets the next one begin.

    `calls` are of other libraries; `added` are the places of the kernels that add to arrays, which torch clears before,
    and whose parts a kernel that is launched as a dependent may add up after them.
    """
    steps = sorted([*kernels, *calls], key=lambda step: step.place)

    def waits(before: KernelSpec | ProductCall | OpaqueCall, step: KernelSpec | ProductCall | OpaqueCall) -> bool:
        return all(isinstance(s, KernelSpec) and s.place not in added for s in (before, step))

    pairs = [waits(before, step) for before, step in pairwise(steps)]
    marks = dict(zip(map(id, steps), zip([False, *pairs], [*pairs, False], strict=True), strict=True))
    return [replace(k, waits=marks[id(k)][0], triggers=marks[id(k)][1] or bool(k.added)) for k in kernels]


def chained_forms(forms: Mapping[str, WarpSpecialized], kernels: Sequence[KernelSpec]) -> dict[str, WarpSpecialized]:
    """The warp-specialized forms of kernels, by the names of the kernels, in the same chain."""
    found = {}
    for kernel in (k for k in kernels if k.name in forms):
        form = forms[kernel.name]
        compute = replace(form.compute, waits=kernel.waits, triggers=kernel.triggers)
        found[kernel.name] = replace(form, compute=compute)
    return found


def waiting(kernel: KernelSpec) -> list[PythonStatement]:
    """The statements by which a kernel waits for the one before it: before its first access to memory."""
    return [_dependent(WAIT, "what ran before has written all")] if kernel.waits else []


def triggering(kernel: KernelSpec, body: Sequence[PythonStatement]) -> list[PythonStatement]:
    """A kernel's statements with the one that lets the next kernel begin, before the first that stores.

    Sooner it would take room on cores from blocks of this one: an H200 then gave some of them twice as many blocks of
    the next kernel as others, which made a step of decoding up to 1.4 times as long.
    """
    if not kernel.triggers:
        return list(body)
    place = next((n for n, s in enumerate(body) if any(map(_stores, walked([s])))), len(body))
    return [*body[:place], trigger(), *body[place:]]


_STORING = tuple(map(dotted, ("tl.store", "tl.atomic_add", "gl.store")))


def trigger() -> PythonStatement:
    """The statement that lets the next kernel begin."""
    return _dependent(TRIGGER, "the next kernel may begin")


def _dependent(function: str, note: str) -> PythonStatement:
    return If(Name("dependent"), [Do(call(function), note=note, beside=True)])


def _stores(s: PythonStatement) -> bool:
    """Whether a statement writes to memory."""
    return isinstance(s, Do) and isinstance(s.value, FunctionCall) and s.value.function in _STORING


def chain_constants(kernel: KernelSpec) -> list[str]:
    """The compile-time constant of a kernel of a chain: whether it is launched so."""
    return ["dependent"] if kernel.waits or kernel.triggers else []


def chain_arguments(kernel: KernelSpec) -> list[str]:
    """The arguments of the launch of a kernel of a chain."""
    return [f"{name}={name}" for name in chain_constants(kernel)] + ["**pdl"] * kernel.waits
