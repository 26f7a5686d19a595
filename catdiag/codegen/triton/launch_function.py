"""The launch function: it reads sizes from tensors, checks arguments, allocates results, and launches the kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from catdiag.category.types import ArrayType, Size
from catdiag.codegen.kernel_tree import listed
from catdiag.codegen.names import Names
from catdiag.codegen.syntax import (
    TIMES,
    ListOf,
    Name,
    Number,
    PythonExpression,
    Subscript,
    TupleOf,
    bracketed,
    call,
    joined,
    joined_all,
    length_of,
)
from catdiag.codegen.triton.added_results import AddedArray, AddedLines
from catdiag.codegen.triton.aligned_rows import FLAG, divisible_by_8, row_divisibility
from catdiag.codegen.triton.array_accesses import StoredArray
from catdiag.codegen.triton.dependent_launch import chain_arguments
from catdiag.codegen.triton.kernel_builder import sized
from catdiag.codegen.triton.kernel_signature import KernelSpec
from catdiag.codegen.triton.launch_expressions import (
    block_length,
    needs_no_mask,
    padded_length,
    product_of,
    programs,
    ring_bytes,
    summed_lengths,
    tile_count,
)
from catdiag.codegen.triton.launch_memory import LaunchMemory, OutputBuffer, torch_name
from catdiag.codegen.triton.launch_parameters import constants_of, rounding, spans_of, tiles_of_merge
from catdiag.codegen.triton.launch_sizes import LaunchSizes, sizes_of_launch
from catdiag.codegen.triton.mask_ranges import Bound, bound_expression
from catdiag.codegen.triton.opaque_call import OpaqueCall
from catdiag.codegen.triton.product_call import ProductCall
from catdiag.codegen.triton.reserved_names import LAUNCH_WORDS
from catdiag.codegen.triton.tile_runs import STAGES, runs

if TYPE_CHECKING:
    from catdiag.codegen.gluon.pipelined_loop import WarpSpecialized

LONGEST = 2**31 - 2**24
"""The limit of sizes: positions are 32-bit integers, also in a block that reaches past the end of an axis."""


@dataclass
class LaunchWriter:
    """Writes the launch function `entry`, with the docstring `about`."""

    entry: str
    inputs: Sequence[StoredArray]
    outputs: Sequence[StoredArray]
    buffers: Sequence[OutputBuffer]
    kernels: Sequence[KernelSpec]
    tiles: Mapping[str, int]
    stages: int | tuple[int, ...]
    warps: int | tuple[int, ...]
    dtypes: Mapping[str, str]
    about: str
    sizes: dict[str, str]
    specialized_kernels: Mapping[str, WarpSpecialized] = field(default_factory=dict)
    """The warp-specialized forms of kernels, by the names of the kernels."""
    calls: Sequence[ProductCall | OpaqueCall] = ()
    """The products that torch computes, and uninterpreted boxes."""
    merged_arrays: Sequence[StoredArray] = ()
    """The arrays that are others with neighboring axes merged."""
    added: Sequence[AddedArray] = ()
    """The arrays that are cleared before a kernel adds to them."""

    def __post_init__(self) -> None:
        from catdiag.codegen.gluon.gluon_source import merged

        self.lines: list[str] = []
        self.merged = {name: merged(specialized) for name, specialized in self.specialized_kernels.items()}
        every = [*self.kernels, *self.merged.values()]
        arrays = [*self.inputs, *(r.array for r in self.buffers), *self.merged_arrays]
        own = {*self.sizes.values(), *self.tiles, *(a.name for a in arrays), *(k.name for k in every)}
        self.names = Names(own | {b.name for k in every for b in k.boxes} | LAUNCH_WORDS)
        self.boxed = {b.array for k in self.kernels if k.rows for b in k.boxes}
        self.strides: dict[tuple[StoredArray, str], str] = {}
        self.lengths: dict[PythonExpression, Name] = {}
        steps: list[KernelSpec | ProductCall | OpaqueCall] = [*self.kernels, *self.calls]
        self.steps = sorted(steps, key=lambda step: step.place)
        self.several = len(self.kernels) > 1 or bool(self.calls)
        self.memory = LaunchMemory(self.steps, self.buffers, self.merged_arrays, self.boxed, self.size, self.added)

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of the functions that it calls."""
        return tuple(dict.fromkeys(call.function for call in self.calls if isinstance(call, OpaqueCall)))

    @cached_property
    def launch_sizes(self) -> LaunchSizes:
        """Where it has the sizes from that it reads."""
        return sizes_of_launch(self.inputs, [r.array for r in self.buffers], self.kernels, self.sizes)

    def size(self, size: Size) -> PythonExpression:
        """A size as an expression of the launch function."""
        return sized(size, self.sizes)

    def shape(self, ty: ArrayType) -> PythonExpression:
        """A shape as an expression."""
        return TupleOf(tuple(self.size(a.size) for a in ty.axes))

    def write(self, line: str) -> None:
        """Writes a line of the function."""
        self.lines.append("    " + line)

    def text(self) -> str:
        """The source of the function."""
        sizes = self.launch_sizes
        tensors = [a for a in self.inputs if a.ty.axes]
        first = tensors[0].name if tensors else ""
        keywords = self._keywords(sizes, bool(tensors))
        arguments = [a.name for a in self.inputs]
        device = f"{first}.device" if first else "device"
        self.write(f'"""{self.about}"""')
        for symbol, length in sizes.shown.items():
            self.write(f"{self.sizes[symbol]} = {length}")
        for array in tensors:
            self.write(f'_expect("{array.name}", {array.name}, {self.shape(array.ty)}, "{" ".join(array.ty.names)}")')
        self._tile_checks()
        made = {r.array.name: r for r in self.buffers if r.result}
        # Results are returned in the order of the diagram, in whatever order kernels save them.
        results = [made[a.name] for a in self.outputs]
        ends = [a.name for a in self.outputs]
        repeated = [k for k, name in enumerate(ends) if name in ends[:k]]
        ends = [f"out[{k}]" if k in repeated else name for k, name in enumerate(ends)]
        if results:
            self._results(results, ends, repeated, device)
        for line in (*self.memory.allocations(device), *self.memory.merged_inputs()):
            self.write(line)
        self._overflow_checks()
        for kernel in self.kernels:
            self._aligned(kernel)
        self._named()
        if any(k.waits or k.added for k in self.kernels):
            self.write(f"dependent, pdl = _dependent(dependent_launch, {device})")
        added = AddedLines(self.added, self.steps, self.sizes)
        for line in added.refused():
            self.write(line)
        if counts := [f"({array.name}, {count})" for array, count in added.decided()]:
            self._call("deterministic = _in_order", ["deterministic", *counts])
        for step in self.steps:
            if isinstance(step, (ProductCall, OpaqueCall)):
                self.write(step.text())
            else:
                for line in added.before(step):
                    self.write(line)
                self._launched(step)
                for line in added.after(step):
                    self.write(line)
        for k in repeated:
            self.write(f"out[{k}].copy_({self.outputs[k].name})")
        self.write(f"return {', '.join(ends) if ends else 'None'}")
        listed = ", ".join([*arguments, "*", *keywords])
        return "\n".join([f"def {self.entry}({listed}):", *self.lines])

    def _keywords(self, sizes: LaunchSizes, has_tensors: bool) -> list[str]:
        """Its parameters that are given by name, with their defaults."""
        keywords = [self.sizes[s] for s in sizes.wanted]
        keywords += [f"{t}={n}" for t, n in self.tiles.items()]
        keywords += [f"num_warps={self.warps}", f"num_stages={self.stages}"]
        if any("_in_registers" in k.helpers for k in self.kernels):
            keywords.append("in_registers=False")
        if self.specialized_kernels:
            keywords += ["specialized=True", "strict=False"]
        if self.functions:
            keywords.append("functions=None")
        if self.added:
            keywords.append("deterministic=None")
        if any(k.waits or k.added for k in self.kernels):
            keywords.append("dependent_launch=True")
        keywords.append("out=None")
        if not has_tensors:
            keywords.append('device="cuda"')
        return keywords

    def _results(
        self, results: Sequence[OutputBuffer], ends: Sequence[str], repeated: Sequence[int], device: str
    ) -> None:
        """The lines that allocate results, or check the tensors given as `out`.

        `ends` are the names of the results; `repeated` are the positions of those that are results a second time.
        """
        several = len(results) > 1
        made = ", ".join(self.memory.allocation(r, device) for r in results)
        names = ", ".join("_" if k in repeated else name for k, name in enumerate(ends))
        named = [] if names == "out" else [f"    {names} = out"]
        for line in ("if out is None:", f"    out = {f'({made})' if several else made}", *named, "else:", *named):
            self.write(line)
        for name, buffer in zip(ends, results, strict=True):
            axes = " ".join(buffer.array.ty.names)
            self.write(f'    _expect("{name}", {name}, {self.shape(buffer.array.ty)}, "{axes}")')
        written = [f'("{name}", {name}, {torch_name(r.dtype)})' for name, r in zip(ends, results, strict=True)]
        tensors = [a for a in self.inputs if a.ty.axes]
        safe = {
            (name, a.name): kind
            for name, r in zip(ends, results, strict=True)
            for a in tensors
            if (kind := self.memory.shared_by(r.array, a))
        }
        listed = [f"({name!r}, {other!r}): {kind!r}" for (name, other), kind in safe.items()]
        read = [f'("{a.name}", {a.name})' for a in tensors]
        where = device if tensors else f"{ends[0]}.device"
        groups = (f"[{', '.join(written)}]", f"[{', '.join(read)}]", f"{{{', '.join(listed)}}}".replace("'", '"'))
        self._call("    _writable", [where, *groups])

    def _tile_checks(self) -> None:
        """The checks of tiles, warps and pipeline stages."""
        free = {*(s for k in self.kernels for s in k.padded), *(k.parts.symbol for k in self.kernels if k.parts)}
        for check, tiles in (
            ("_positive", {t: Name(t) for t in self.tiles if t in free}),
            ("_powers", {t: Name(t) for t in self.tiles if t not in free}),
            ("_summed", summed_lengths(self.kernels, self.tiles, self.sizes, "fp8" in self.dtypes.values())),
        ):
            if tiles:
                self.write(str(call(check, **tiles)))
        places = {k.place: "" for k in self.kernels}
        places.update({k.place: ", 12" for k in self.kernels if k.name in self.specialized_kernels})
        if self.several:
            count = 1 + max(step.place for step in self.steps)
            for name in ("num_warps", "num_stages"):
                self.write(f'{name} = _each("{name}", {name}, {count})')
        for place, further in places.items():
            at = f"[{place}]" if self.several else ""
            self.write(f"_runs(num_warps{at}, num_stages{at}{further})")

    def _overflow_checks(self) -> None:
        """The check that 32 bits are enough for positions along axes, past their ends too, and for program ids."""
        counts: dict[PythonExpression, str] = {}
        for array in (*self.inputs, *(r.array for r in self.buffers if not r.parts)):
            counts.update({length: str(length) for length in (self.size(a.size) for a in array.ty.axes)})
        for kernel in self.kernels:
            spans = (*kernel.spans, *kernel.single, *kernel.loops)
            lengths = map(self.size, [*(s.size for s in spans), *kernel.blocks.values()])
            counts.update({length: str(length) for length in lengths})
            counts[programs(kernel, self.sizes)] = f"the number of programs of {kernel.name}"
            if kernel.chunk is not None:  # the last part may begin past the end
                loops = [s.symbol for s in kernel.loops if s.axis == kernel.chunk.axis]
                reached = product_of([length_of(symbol) for symbol in (kernel.chunk.symbol, *loops)])
                whole = joined(self.size(kernel.chunk.size), "+", reached)
                counts[whole] = f"{kernel.chunk.axis}, in whole parts,"
        checked = {c: name for c, name in counts.items() if not (isinstance(c, Number) and int(str(c)) < LONGEST)}
        if checked:
            most = next(iter(checked)) if len(checked) == 1 else call("max", *checked)
            self.write(f"if {most} >= {LONGEST}:")
            self._call("    _long", [TupleOf((Number(name), c)) for c, name in checked.items()])

    def _aligned(self, kernel: KernelSpec) -> None:
        """The line that copies misaligned factors of products to aligned rows, if that pays.

        A launch reads an input once for each tile of the axes that the input lacks.
        """
        read = [b.array for b in kernel.boxes if (b.array.source or b.array) in self.inputs]
        arrays = list(dict.fromkeys(read)) if kernel.rows else []
        if not arrays:
            return
        pairs = []
        for array in arrays:
            reads = [
                tile_count(kernel, span, self.sizes) for span in spans_of(kernel) if span.axis not in array.ty.names
            ]
            if kernel.parts is not None and kernel.parts.axis not in array.ty.names:
                reads.append(length_of(kernel.parts.symbol))
            pairs.append(TupleOf((Name(array.name), product_of(reads))))
        names = ", ".join(a.name for a in arrays) + "," * (len(arrays) == 1)
        self.write(f"{names} = {call('_aligned', *pairs)}")

    def _named(self) -> None:
        """The lines that name strides and lengths of blocks, so that each is computed once for all kernels."""
        wanted: dict[StoredArray, dict[str, None]] = {}
        every = [*self.kernels, *self.merged.values()]
        for kernel in every:
            for array, axis in kernel.strides:
                wanted.setdefault(array, {})[axis] = None
        for array, axes in wanted.items():
            names = []
            for place, axis in enumerate(array.ty.names):
                name = "_"
                if axis in axes:
                    ending = axis if axis.isidentifier() else str(place)
                    name = self.strides[array, axis] = self.names.fresh(f"{array.name}_{ending}")
                names.append(name)
            self.write(f"{', '.join(names)}{',' * (len(names) == 1)} = {array.name}.stride()")
        for kernel in every:
            blocks = [(name, self._length(kernel, name, self.size(size))) for name, size in kernel.blocks.items()]
            for name, length in [*blocks, *((name, padded_length(symbol)) for symbol, name in kernel.padded.items())]:
                if length not in self.lengths:
                    self.lengths[length] = Name(self.names.fresh(name))
                    self.write(f"{self.lengths[length]} = {length}")

    def _length(self, kernel: KernelSpec, name: str, size: PythonExpression) -> PythonExpression:
        """The length of a block of a whole axis: the next power of two, at least 16 if a matrix product needs that."""
        filled = name in kernel.sides and name not in kernel.short
        return call("_block" if filled else "_power", size)

    def _launched(self, kernel: KernelSpec) -> None:
        """The lines that launch a kernel, in its warp-specialized form if it has one and if that fits."""
        if kernel.parts is not None:
            loops = [s for s in kernel.loops if s.axis == kernel.parts.axis]
            block = length_of(loops[0].symbol if loops else "1")
            each = call("_tiles", self.size(kernel.parts.size), length_of(kernel.parts.symbol))
            self.write(f"chunk = {joined(call('max', Number(1), call('_tiles', each, block)), '*', block)}")
        count = programs(kernel, self.sizes)
        specialized = self.specialized_kernels.get(kernel.name)
        if specialized is None:
            whole = self._halved(kernel)
            self._plain(kernel, count)
            self.lines += [f"    {whole}"] if whole else []
            return
        self._specialized_launch(specialized, kernel, count)
        outer, self.lines = self.lines, []
        self._plain(kernel, count, self._lengths_of(kernel, list(specialized.tiles)))
        read = specialized.rings[0].boxes.array.name
        said = ["        if why:", f'            _plain("{kernel.name}", why, strict, {read}.device)']
        self.lines = [*outer, "    else:", *said, *("    " + line for line in self.lines)]

    def _halved(self, kernel: KernelSpec) -> str:
        """Writes the lines that halve the tiles of a kernel that merges parts; gives the line after its launch."""
        spans = tiles_of_merge(kernel)
        if not spans:
            return ""
        whole, tiles = self.names.fresh("whole_tiles"), TupleOf(tuple(Name(span.symbol) for span in spans))
        lengths = TupleOf(tuple(self.size(span.size) for span in spans))
        self.write(f"{whole} = {tiles}")
        self.write(f"{tiles} = {call('_merging', Name(whole), lengths)}")
        return f"{tiles} = {whole}"

    def _plain(self, kernel: KernelSpec, count: PythonExpression, fallback: ListOf | None = None) -> None:
        """The launch of a kernel in its Triton form.

        With `fallback`, the lengths of products' columns, this stands in for the warp-specialized form, for which warps
        and stages were chosen. Then warps are rounded to a power of two, and stages reduced to what fits.
        """
        parts = {a.sums: a.parts for a in self.added}
        arguments: list[object] = [parts.get(a, a.name) if a in kernel.added else a.name for a in kernel.arrays]
        if kernel.boxes:
            self._boxes(kernel)
            arguments += [b.name for b in kernel.boxes]
        arguments += self._numbers(kernel)
        arguments += [f"{name}={value}" for name, value in self._constants(kernel)]
        if kernel.added:
            arguments.append("deterministic=deterministic")
        if "_in_registers" in kernel.helpers:
            arguments.append("in_registers=in_registers")
        if "_tanh" in kernel.helpers:
            arguments.append(f"fast={self._fast()}")
        if kernel.helpers & {"_transposed", "_completed"}:
            arguments.append(f"compiled={self._compiled()}")
        arguments += self._wide(kernel)
        strides, sizes = row_divisibility(kernel)
        if strides or sizes:
            names = [*(self.strides[key] for key in strides), *(self.sizes[symbol] for symbol in sizes)]
            arguments.append(f"{FLAG}={divisible_by_8([*map(Name, names)])}")
        warps, stages = self._chosen("num_warps", kernel), self._chosen("num_stages", kernel)
        arguments += [f"{STAGES}={stages}"] if runs(kernel) else []
        warps = call("_warps", warps, fallback) if fallback else warps
        # With fewer than 16 rows per warp, merged from several axes, the compiler of Triton 3.6 aborts the process.
        joint = [
            call("max", Number(4), joined(product_of([length_of(s) for s in rows]), "//", Number(16)))
            for rows in kernel.merged_rows
            if all(s in self.tiles or s.isdigit() for s in rows)
        ]
        warps = call("min", warps, *joint) if joint else warps
        arguments.append(f"num_warps={warps}")
        if not fallback:
            arguments.append(f"num_stages={stages}")
        if kernel.rows:
            rows = dict.fromkeys(product_of(self._lengths_of(kernel, names).parts) for names in kernel.rows)
            arguments.append(f"**{call('_registers', warps, *rows)}")
        run = f"{kernel.name}[({count},)]"
        arguments += [*rounding(kernel), *chain_arguments(kernel)]
        if fallback:
            self._call("_fitted", [run, stages, *arguments])
        else:
            self._call(run, arguments)

    def _chosen(self, name: str, kernel: KernelSpec) -> PythonExpression:
        """The warps or stages of a kernel, of which there are several where there are several launches."""
        return Subscript(Name(name), (Number(kernel.place),)) if self.several else Name(name)

    def _numbers(self, kernel: KernelSpec) -> list[str]:
        """The strides, scalars and sizes that a kernel takes as arguments."""
        found = [self.strides[key] for key in kernel.strides]
        found += [s.name for s in kernel.scalars]
        constants = set(kernel.constants)
        found += [self.sizes[s] for s in kernel.sizes if s not in constants]
        found += ["chunk"] if kernel.chunk is not None else []
        if not runs(kernel):
            return [*found, *kernel.added.values()]
        run = call("_run", tile_count(kernel, spans_of(kernel)[0], self.sizes), Number(kernel.programs))
        return [*found, *kernel.added.values(), str(run)]

    def _call(self, function: str, arguments: Sequence[object], then: str = "") -> None:
        """Writes a call, broken into lines, followed by `then`."""
        indent = " " * (len(function) - len(function.lstrip()))
        for line in (f"{function}(", *listed([*map(str, arguments)], len(indent) + 4, 101), f"{indent}){then}"):
            self.write(line)

    def _specialized_launch(self, specialized: WarpSpecialized, plain: KernelSpec, count: PythonExpression) -> None:
        """The launch of a warp-specialized kernel, under the condition that chip, tiles and tensors allow it."""
        kernel, row = self.merged[plain.name], specialized.row.symbol
        known = dict(self._constants(kernel))
        arrays = list(dict.fromkeys(r.boxes.array.name for r in specialized.rings))
        stages, columns = self._chosen("num_stages", plain), self._lengths_of(kernel, list(specialized.tiles))
        counts = [row, self._chosen("num_warps", plain), stages, columns, ring_bytes(specialized, known, stages)]
        tensors = [f"{name}={name}" for name in arrays]
        self._call("groups, why = _groups", [*counts, *tensors], ' if specialized else (0, "")')
        each = {row: joined(Name(row), "//", Name("groups"))}
        shapes = {
            r.boxes.name: ListOf(tuple(block_length(b, {**known, **each} if r.rows else known) for b in r.boxes.shape))
            for r in specialized.rings
        }
        boxes = [(r.boxes, shapes[r.boxes.name]) for r in specialized.rings]
        self.write("if groups:")
        self._call("    why = _unboxed", [TupleOf((Number(b.array.name), b.tensor, shape)) for b, shape in boxes])
        self.write("if groups and not why:")
        outer, self.lines = self.lines, []
        for ring in specialized.rings:
            self.write(f"{ring.boxes.name} = _boxes({ring.boxes.tensor}, {shapes[ring.boxes.name]})")
        arguments = [*(a.name for a in kernel.arrays), *self._numbers(kernel), *(b.name for b in kernel.boxes)]
        constants = constants_of(kernel)
        arguments += [f"{name}={value}" for name, value in known.items() if name in constants]
        if "_tanh" in specialized.compute.helpers:
            arguments.append(f"fast={self._fast()}")
        arguments += self._wide(kernel)
        arguments += [
            f"{specialized.names['groups']}=groups",
            f"{specialized.names['stages']}={stages}",
            "num_warps=4",
        ]
        arguments += [*rounding(kernel), *chain_arguments(kernel)]
        self._call(f"{kernel.name}[({count},)]", arguments)
        self.lines = [*outer, *("    " + line for line in self.lines)]

    def _wide(self, kernel: KernelSpec) -> list[str]:
        """The constant `wide`: whether offsets within tiles may need more than 32 bits."""
        known = dict(self._constants(kernel))

        def steps(most: Bound, stride: str) -> PythonExpression:
            return joined(bracketed(bound_expression(most, known), TIMES), "*", Name(stride))

        reaches = (joined_all("+", [steps(n, self.strides[a, axis]) for a, axis, n in far]) for far in kernel.reaches)
        sums = list(dict.fromkeys(reaches))
        if len(sums) == 1:
            self.write(f"wide = {sums[0]} >= 2**31")
        elif sums:
            self._call("wide = max", sums, " >= 2**31")
        return ["wide=wide"] if sums else []

    def _fast(self) -> str:
        """Whether results have less than 4 bytes: then the chip's approximate functions are exact enough."""
        first = next((a.name for a in self.inputs if a.ty.axes and a.ty.element in ("real", "extended")), "")
        return f'{first}.device.type != "cpu" and {first}.element_size() < 4 and not _amd()' if first else "False"

    def _compiled(self) -> str:
        """Whether the kernel is compiled for a GPU of NVIDIA's, and not interpreted on the CPU."""
        first = next((a.name for a in self.inputs if a.ty.axes), "")
        return (f'{first}.device.type != "cpu"' if first else 'str(device) != "cpu"') + " and not _amd()"

    def _boxes(self, kernel: KernelSpec) -> None:
        """The lines that make tensor descriptors; one is None where the tensor, the block or the chip allows none."""
        for box in kernel.boxes:
            descriptor = call("_copied", box.tensor, self._lengths_of(kernel, box.shape))
            begins = [self.sizes[s] for s, name in kernel.sizes.items() if name in box.offsets]
            whole = [f"{begin} * {box.array.name}.element_size() % 16 == 0" for begin in begins]
            self.write(f"{box.name} = {descriptor}" + (f" if {' and '.join(whole)} else None" if whole else ""))

    def _lengths_of(self, kernel: KernelSpec, blocks: Sequence[str]) -> ListOf:
        """The lengths of blocks in a launch."""
        known = dict(self._constants(kernel))
        return ListOf(tuple(block_length(block, known) for block in blocks))

    def _constants(self, kernel: KernelSpec) -> list[tuple[str, PythonExpression]]:
        """The compile-time constants of a kernel: (name, expression in the launch function)."""
        found: list[tuple[str, PythonExpression]]
        found = [(kernel.sizes.get(s, s), Name(self.sizes[s])) for s in kernel.constants]
        for name, size in kernel.blocks.items():
            found.append((name, self.lengths[self._length(kernel, name, self.size(size))]))
        spans = (*kernel.spans, *kernel.loops, *([] if kernel.parts is None else [kernel.parts]))
        found += [(span.symbol, Name(span.symbol)) for span in spans if not span.symbol.isdigit()]
        found += [(name, self.lengths[padded_length(symbol)]) for symbol, name in kernel.padded.items()]
        for name, span in kernel.exact.items():
            padded = self.lengths[padded_length(span.symbol)] if span.symbol in kernel.padded else None
            found.append((name, needs_no_mask(kernel, name, self.size(span.size), padded)))
        return found
