"""A machine that runs the text of a module with Gluon kernels for Hopper, without a GPU, and finds its races.

`load(text)` executes the module with stand-ins for `triton` and its Gluon parts; calling its functions on torch CPU
tensors runs the kernels: every program of a grid, the partitions of `gl.warp_specialize` as threads of which one runs
at a time, handing over at barriers and asynchronous operations only. Who goes on, and when a copy arrives, is drawn
from `seed`: every seed is another interleaving, and the same one again is the same run.

Found are, whatever the interleaving, races on shared memory (`gluon_memory` says how); bytes expected and copied that
differ, arrivals beyond a barrier's count, a phase that passes unnoticed, deadlocks, accumulators read early, copies and
products that nobody waits for, pointers out of bounds, two programs storing the same element, and layouts that do not
agree (`gluon_values`). The machine is stricter than the compiler where that accepts and the hardware goes wrong.

Not modelled: more than one CTA in a cluster, bank conflicts, registers, speed, `tl.dot`, atomics.
"""

from __future__ import annotations

import builtins
import inspect
import itertools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import CodeType, FrameType, SimpleNamespace
from typing import Any

import torch

from tests.codegen import gluon_layouts as layouts
from tests.codegen import gluon_values as values
from tests.codegen.gluon_hopper import Descriptor, Hopper
from tests.codegen.gluon_layouts import GluonError, Layout, need
from tests.codegen.gluon_memory import Program, Shared
from tests.codegen.gluon_values import Accumulator, Dtype, Tensor


class Jit:
    """A function under @gluon.jit: called within a kernel it is Python; `kernel[grid](...)` launches it."""

    def __init__(self, machine: Machine, of: Callable[..., Any]) -> None:
        self.machine, self.of, self.name = machine, of, of.__name__
        machine.kernels.add(of.__code__)
        self.signature = inspect.signature(of)
        said = {n: p.annotation for n, p in self.signature.parameters.items()}
        self.constants = {n for n, a in said.items() if a is Constexpr or (isinstance(a, str) and "constexpr" in a)}

    def __call__(self, *args: Any, **named: Any) -> Any:
        need(self.machine.program is not None, lambda: f"{self.name} is a kernel: {self.name}[grid](...)")
        given = self.signature.bind(*args, **named).arguments
        for name in self.constants & given.keys():
            need(
                not isinstance(given[name], Tensor),
                f"{self.name}: {name} is a constexpr, known only at run time here",
            )
        return self.of(*args, **named)

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return lambda *args, **named: self.machine.launch(self, grid, args, named)


class Constexpr:
    """gl.constexpr: constants are plain Python values here."""

    def __new__(cls, value: Any) -> Any:
        return value


class Machine:
    """Runs modules; see `load`."""

    def __init__(self, text: str, seed: int, name: str) -> None:
        self.text, self.seed, self.file, self.launches = text.splitlines(), seed, f"<{name}>", 0
        self.program: Program | None = None
        self.kernels: set[CodeType] = set()
        self.loops: dict[int, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
        self.grid: tuple[int, ...] = ()
        self.pid: tuple[int, ...] = ()
        self.stored: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    # Errors, with the line.

    def frames(self, frame: FrameType | None) -> list[tuple[int, str]]:
        found = []
        while frame is not None:
            if frame.f_code in self.kernels:
                found.append((frame.f_lineno, frame.f_code.co_name))
            frame = frame.f_back
        return found

    def target(self) -> str:
        """The name that the line under way assigns to, if it does."""
        found = self.frames(sys._getframe(1))
        name = re.match(r"\s*(\w+)\s*=[^=]", self.text[found[0][0] - 1]) if found else None
        return name[1] if name else ""

    def where(self, frames: list[tuple[int, str]] | None = None) -> str:
        found = frames or self.frames(sys._getframe(1))
        line = self.text[found[0][0] - 1].strip()
        return " from ".join(f"line {n} ({f})" for n, f in found) + f": {line}"

    def located(self, error: BaseException) -> BaseException:
        """The error with the kernel's line that led to it."""
        if not isinstance(error, Exception) or (isinstance(error, GluonError) and error.located):
            return error
        found: list[tuple[int, str]] = []
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code in self.kernels:
                found.insert(0, (trace.tb_lineno, trace.tb_frame.f_code.co_name))
            trace = trace.tb_next
        kind = "" if isinstance(error, GluonError) else f"{type(error).__name__}: "
        made = GluonError(f"{kind}{error}" + (f"\n    {self.where(found)}" if found else ""))
        made.located, made.__cause__ = True, error
        return made

    # Launching.

    def launch(self, kernel: Jit, grid: Any, args: Sequence[Any], named: dict[str, Any]) -> None:
        warps = int(named.get("num_warps", 4))
        named = {k: v for k, v in named.items() if k in kernel.signature.parameters or k not in LAUNCH}
        given = kernel.signature.bind(*args, **named)
        given.apply_defaults()
        sizes = grid(given.arguments) if callable(grid) else grid
        self.grid = (*sizes, 1, 1)[:3]
        passed = {n: v if n in kernel.constants else self.argument(v) for n, v in given.arguments.items()}
        self.stored, self.loops, self.launches = {}, {}, self.launches + 1
        for pid in itertools.product(*(range(g) for g in reversed(self.grid))):
            self.program = Program(self.where, self.located, f"{self.seed}/{self.launches}/{pid}", warps)
            self.pid = pid[::-1]
            try:
                kernel(**passed)
                self.end(self.program)
            except BaseException as error:
                raise self.located(error) from None
            finally:
                self.program = None

    def argument(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            kind = values.OF_TORCH[value.dtype]
            pointer = Dtype(f"pointer<{kind}>", torch.int64, 64, 4, kind)
            return Tensor(torch.tensor(0), pointer, None, value)
        return values.scalar(value) if isinstance(value, int | float) else value

    def end(self, run: Program) -> None:
        run.finish(run.main)
        while run.copies:
            run.copies.pop()()
        for actor, tick, what in run.duties:
            need(run.main.clock.get(actor, 0) >= tick, f"{what} is never waited for")

    @property
    def run(self) -> Program:
        need(self.program is not None, "this runs within a kernel only")
        assert self.program is not None
        return self.program

    # Blocks.

    def arange(self, start: int, end: int, layout: Layout | None = None) -> Tensor:
        return self.made(torch.arange(start, end), values.int32, layout)

    def full(self, shape: Sequence[int], value: Any, dtype: Dtype, layout: Layout | None = None) -> Tensor:
        return self.made(values.scalar(value).to(dtype).data.expand(*shape), dtype, layout)

    def made(self, data: torch.Tensor, dtype: Dtype, layout: Layout | None) -> Tensor:
        need(
            all(n > 0 and n & (n - 1) == 0 for n in data.shape),
            lambda: f"sizes of a block are powers of two, not {tuple(data.shape)}",
        )
        layout = layout or layouts.AutoLayout()
        self.run.fits(layout)
        return Tensor(data, dtype, layout if data.shape else None)

    def convert_layout(self, x: Tensor, layout: Layout, assert_trivial: bool = False) -> Tensor:
        self.run.fits(layout)
        return values.convert_layout(x, layout)

    def range(self, *args: Any) -> Iterator[Any]:
        """A loop of a kernel: its counter is an int32, and what it carries keeps its type and layout."""
        if self.program is None or sys._getframe(1).f_code not in self.kernels:
            return iter(builtins.range(*args))
        return self.loop(*(int(a.__index__()) for a in args))

    def loop(self, *args: int) -> Iterator[Tensor]:
        """What stood before the loop is carried by it; what an outer loop's body made in an earlier turn is gone."""
        now = dict(sys._getframe(1).f_locals)
        outer = self.loops.setdefault(id(sys._getframe(1)), [])
        gone = {n for entry, start in outer for n, v in start.items() if n not in entry and now.get(n) is v}
        entry = {name: value for name, value in now.items() if name not in gone}
        for n in builtins.range(*args):
            outer.append((entry, dict(sys._getframe(1).f_locals)))
            yield values.scalar(n)
            outer.pop()
            for name, value in sys._getframe(1).f_locals.items():
                old = entry.get(name, value)
                if old is not value and isinstance(value, Tensor | Accumulator | Shared):
                    was, now_ = kind(old), kind(value)
                    fine = was == now_ or (isinstance(old, int | float) and value.shape == ())
                    need(fine, f"{name}, carried by a loop, was {was} and becomes {now_}")
        if not outer:
            del self.loops[id(sys._getframe(1))]

    # Global memory.

    def reach(self, pointer: Tensor, mask: Any, x: Any) -> tuple[torch.Tensor, torch.Tensor, Tensor]:
        """The whole storage, the places in it that a block of pointers means, and `x` as a block of its shape."""
        need(isinstance(pointer, Tensor) and pointer.base is not None, "a pointer is needed here")
        base, kind = pointer.base, pointer.dtype.element_ty
        assert base is not None and kind is not None
        (at, on, data), layout = values.together(
            pointer, values.scalar(True if mask is None else mask), values.scalar(x).to(kind)
        )
        need(
            at.shape == pointer.shape,
            lambda: f"pointers of shape {pointer.shape} for a block of shape {tuple(at.shape)}",
        )
        flat = values.whole_storage(base)
        places = torch.where(on.bool(), at + base.storage_offset(), -1)
        met = places[on.bool()]
        if met.numel():
            low, high, n = int(met.min()), int(met.max()), flat.numel()
            need(low >= 0 and high < n, lambda: f"a pointer leaves its tensor of {n} elements: {low} to {high}")
        return flat, places, Tensor(data, kind, layout)

    def load(self, pointer: Tensor, mask: Any = None, other: Any = None, **_: Any) -> Tensor:
        """What a mask leaves out is `other`, else NaN (0 for integers)."""
        kind = pointer.dtype.element_ty
        poison = float("nan") if kind is not None and kind.is_floating() else 0
        flat, places, rest = self.reach(pointer, mask, poison if other is None else other)
        found = flat[places.clamp(min=0)].to(rest.data.dtype)
        return replace(rest, data=torch.where(places >= 0, found, rest.data))

    def store(self, pointer: Tensor, value: Any, mask: Any = None, **_: Any) -> None:
        flat, places, block = self.reach(pointer, mask, value)
        self.owns(flat, places[places >= 0])
        flat[places[places >= 0]] = block.data[places >= 0].to(flat.dtype)

    def owns(self, flat: torch.Tensor, places: torch.Tensor) -> None:
        """An element is stored by one program."""
        _, owner = self.stored.setdefault(flat.data_ptr(), (flat, torch.full((flat.numel(),), -1, dtype=torch.int32)))
        x, y, z = self.pid
        me = x + self.grid[0] * (y + self.grid[1] * z)
        other = owner[places][(owner[places] >= 0) & (owner[places] != me)]
        if other.numel():
            raise GluonError(f"programs {int(other[0])} and {me} store the same element")
        owner[places] = me


def kind(x: Any) -> tuple[Any, ...]:
    """The type of a value, as a loop must keep it."""
    if isinstance(x, Accumulator):
        return ("an accumulator", x.like.dtype, x.like.shape, x.like.layout)
    return (x.dtype, x.shape, x.layout) if isinstance(x, Tensor | Shared) else (type(x).__name__,)


LAUNCH = ("num_warps", "num_ctas", "num_stages", "maxnreg", "enable_fp_fusion", "warp_size", "debug")


def named(path: str, **parts: Any) -> SimpleNamespace:
    return SimpleNamespace(__name__=path, **parts)


class Boxed:
    """TensorDescriptor of Triton, which modules may derive from: kernels in Gluon are not given any."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    @classmethod
    def from_tensor(cls, *_: Any, **__: Any) -> Boxed:
        return cls()


def stand_ins(m: Machine) -> dict[str, Any]:
    """What stands in for `triton` and for each of its modules, by their names."""

    def either(of: Callable[..., Any], here: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *xs, **said: here(*xs) if any(isinstance(x, Tensor) for x in xs) else of(*xs, **said)

    def cdiv(a: Any, b: Any) -> Any:
        return (a + b - 1) // b

    def static_assert(condition: Any, message: str = "") -> None:
        need(not isinstance(condition, Tensor) and bool(condition), lambda: f"static_assert: {message}")

    def device_assert(condition: Any, message: str = "") -> None:
        need(bool(values.scalar(condition).data.all()), lambda: f"device_assert: {message}")

    def jit(of: Any = None, **_: Any) -> Any:
        return Jit(m, of) if of is not None else lambda f: Jit(m, f)

    def constexpr_function(of: Any) -> Any:
        return of

    same = lambda x, *_, **__: x  # noqa: E731
    language = named("gl", **values.DTYPES, **values.UNARY, **values.REDUCTIONS, constexpr=Constexpr, tensor=Tensor)
    vars(language).update(
        {
            n: getattr(values, n)
            for n in ("expand_dims", "where", "maximum", "minimum", "reduce", "inline_asm_elementwise")
        },
        **{n: getattr(layouts, n) for n in ("AutoLayout", "BlockedLayout", "SliceLayout", "DotOperandLayout")},
        **{n: getattr(layouts, n) for n in ("NVMMADistributedLayout", "NVMMASharedLayout", "SwizzledSharedLayout")},
        **{n: getattr(m, n) for n in ("arange", "full", "convert_layout", "load", "store")},
        zeros=lambda shape, dtype, layout=None: m.full(shape, 0, dtype, layout),
        zeros_like=lambda x: m.full(x.shape, 0, x.dtype, x.layout),
        full_like=lambda x, value: m.full(x.shape, value, x.dtype, x.layout),
        program_id=lambda axis: values.scalar(m.pid[axis]),
        num_programs=lambda axis: values.scalar(m.grid[axis]),
        num_warps=lambda: m.run.current.warps,
        warp_specialize=lambda functions, warps, registers: m.run.specialize(functions, warps, registers),
        static_range=builtins.range,
        to_tensor=values.scalar,
        cast=lambda x, dtype, bitcast=False: values.scalar(x).to(dtype, bitcast=bitcast),
        fma=lambda x, y, z: x * y + z,
        permute=lambda x, *dims: x.permute(*dims),
        reshape=lambda x, *shape: x.reshape(*shape),
        thread_barrier=lambda: m.run.pause() and None,
        set_auto_layout=m.convert_layout,
        **dict.fromkeys(("multiple_of", "max_contiguous", "max_constancy"), same),
        **{n: lambda *_, **__: None for n in ("assume", "static_print", "device_print")},
        cdiv=cdiv,
        static_assert=static_assert,
        device_assert=device_assert,
    )
    h = Hopper(m)
    language.allocate_shared_memory = h.allocate_shared_memory
    mbarrier = named("mbarrier", MBarrierLayout=layouts.MBarrierLayout, invalidate=same)
    vars(mbarrier).update({n: getattr(h, n) for n in ("init", "expect", "arrive", "wait")})
    tma = named(
        "tma", async_copy_global_to_shared=h.copy_in, async_copy_shared_to_global=h.copy_out, store_wait=h.store_wait
    )
    hopper = named("hopper", tma=tma, mbarrier=mbarrier, fence_async_shared=h.fence, warpgroup_mma=h.warpgroup_mma)
    vars(hopper).update(warpgroup_mma_wait=h.warpgroup_mma_wait, warpgroup_mma_init=lambda x: Accumulator(0, x))
    language.nvidia = named("nvidia", hopper=hopper)
    host = named("hopper", TensorDescriptor=Descriptor)
    gluon = named(
        "gluon", language=language, jit=jit, constexpr_function=constexpr_function, nvidia=named("nvidia", hopper=host)
    )
    power = lambda n: 1 << (n - 1).bit_length()  # noqa: E731
    triton = named(
        "triton",
        language=language,
        jit=jit,
        cdiv=cdiv,
        next_power_of_2=power,
        experimental=named("x", gluon=gluon),
        __version__="3.6.0",
        knobs=named("knobs", runtime=named("runtime", interpret=False)),
    )
    base = "triton.experimental.gluon"
    modules = {"triton": triton, "triton.language": language, "triton.experimental": triton.experimental, base: gluon}
    modules |= {
        f"{base}.language": language,
        f"{base}.language.nvidia": language.nvidia,
        f"{base}.nvidia": gluon.nvidia,
    }
    modules |= {f"{base}.language.nvidia.hopper": hopper, f"{base}.nvidia.hopper": host}
    modules |= {f"{base}.language.nvidia.hopper.{n}": v for n, v in (("tma", tma), ("mbarrier", mbarrier))}
    modules["triton.tools.tensor_descriptor"] = named("tensor_descriptor", TensorDescriptor=Boxed)
    modules["builtins"] = {"range": m.range, "min": either(min, values.minimum), "max": either(max, values.maximum)}
    return modules


def load(text: str, *, seed: int = 0, name: str = "module.py") -> dict[str, Any]:
    """Execute a module's text with the stand-ins; what it defines, by name.

    Its functions take torch CPU tensors. `seed` draws the interleavings; `name` is the file's name in errors.

    Raises GluonError, here or when a kernel runs, naming the kernel's lines.
    """
    machine = Machine(text, seed, name)
    modules = stand_ins(machine)
    own = modules.pop("builtins")

    def imported(wanted: str, scope: Any = None, local: Any = None, parts: Any = (), level: int = 0) -> Any:
        if wanted.split(".")[0] != "triton":
            return builtins.__import__(wanted, scope, local, parts, level)
        need(wanted in modules, lambda: f"this machine has no {wanted}")
        return modules[wanted if parts else "triton"]

    scope: dict[str, Any] = {"__name__": name, "__builtins__": {**vars(builtins), "__import__": imported, **own}}
    exec(compile(text, machine.file, "exec"), scope)
    return scope
