"""The function that launches kernels: it reads sizes off tensors, checks them, makes room for results."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from catdiag.category.index_maps import read_off
from catdiag.category.types import ArrayType, Size, size_symbols
from catdiag.codegen.triton.array_accesses import StoredArray
from catdiag.codegen.triton.kernel_builder import Boxes, Names
from catdiag.codegen.triton.kernel_signature import WIDTHS, KernelSpec
from catdiag.codegen.triton.launch_parameters import constants_of, spans_of
from catdiag.schedule.loop_nest import LoopSpan

if TYPE_CHECKING:
    from catdiag.codegen.gluon.warp_specialization import WarpSpecialized

_OWN = {"num_warps", "num_stages", "held", "compiled", "specialized", "device", "chunk", "groups", "out", "_",
        "torch", "triton", "tl", "gl", "gluon"}  # fmt: skip
_KINDS = {"int": "torch.int64", "bool": "torch.bool"}


LONGEST = 2**31 - 2**24
"""Positions are numbers of 32 bits, also those of a block that reaches over the end of an axis."""


@dataclass(frozen=True, eq=False)
class OutputBuffer:
    """An array that the launch makes: a result, or what one kernel hands to another; `parts` is a first axis."""

    array: StoredArray
    dtype: str
    parts: str = ""
    result: bool = False


@dataclass
class LaunchWriter:
    """Writes the launch function."""

    entry: str
    inputs: Sequence[StoredArray]
    outputs: Sequence[StoredArray]
    rooms: Sequence[OutputBuffer]
    kernels: Sequence[KernelSpec]
    tiles: Mapping[str, int]
    stages: int | tuple[int, ...]
    warps: int | tuple[int, ...]
    dtypes: Mapping[str, str]
    dtype: str
    about: str
    sizes: dict[str, str]
    specialized_kernels: Mapping[str, WarpSpecialized] = field(default_factory=dict)
    """Other forms of kernels by their names: those in which loads are apart."""

    def __post_init__(self) -> None:
        from catdiag.codegen.gluon.gluon_source import merged

        self.lines: list[str] = []
        self.merged = {name: merged(apart) for name, apart in self.specialized_kernels.items()}
        every = [*self.kernels, *self.merged.values()]
        arrays = [*self.inputs, *(r.array for r in self.rooms)]
        own = {*self.sizes.values(), *self.tiles, *(a.name for a in arrays), *(k.name for k in every)}
        self.names = Names(own | {b.name for k in every for b in k.boxes} | _OWN)
        self.boxed = {b.array for k in self.kernels if k.rows for b in k.boxes}
        self.strides: dict[tuple[StoredArray, str], str] = {}
        self.lengths: dict[str, str] = {}

    def size(self, size: Size) -> str:
        """A size as an expression of the launch."""

        def leaf(v: Any) -> str:
            return str(v) if isinstance(v, int) else self.sizes[v]

        return read_off(size, leaf, lambda op, a, b: f"({a} {op} {b})")

    def shape(self, ty: ArrayType) -> str:
        """A shape as an expression."""
        sizes = [self.size(a.size) for a in ty.axes]
        return f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"

    def write(self, line: str) -> None:
        """A line of the function."""
        self.lines.append("    " + line)

    def known(self) -> tuple[dict[str, str], list[str]]:
        """Which sizes a shape shows, and those that none does."""
        shown: dict[str, str] = {}
        wanted: dict[str, None] = {}
        composite: list[tuple[Size, str]] = []
        for array in self.inputs:
            for n, axis in enumerate(array.ty.axes):
                if isinstance(axis.size, str):
                    shown.setdefault(axis.size, f"{array.name}.shape[{n}]")
                else:
                    composite.append((axis.size, f"{array.name}.shape[{n}]"))
                wanted.update(dict.fromkeys(sorted(size_symbols(axis.size))))
        for size, text in composite:
            left = size_symbols(size) - set(shown)
            if len(left) == 1:
                (symbol,) = left
                solved = _solved(size, symbol, text, lambda s: self.sizes[s])
                if solved:
                    shown[symbol] = solved
        for kernel in self.kernels:
            wanted.update(dict.fromkeys(kernel.sizes))
            wanted.update(dict.fromkeys(kernel.constants))
        for room in self.rooms:
            for axis in room.array.ty.axes:
                wanted.update(dict.fromkeys(sorted(size_symbols(axis.size))))
        return shown, [s for s in wanted if s not in shown and s in self.sizes]

    def text(self) -> str:
        """The source of the function."""
        shown, given = self.known()
        tensors = [a for a in self.inputs if a.ty.axes]
        first = tensors[0].name if tensors else ""
        keywords = [self.sizes[s] for s in given]
        keywords += [f"{t}={n}" for t, n in self.tiles.items()]
        keywords += [f"num_warps={self.warps}", f"num_stages={self.stages}"]
        if any("_held" in k.helpers for k in self.kernels):
            keywords.append("held=False")
        if self.specialized_kernels:
            keywords.append("specialized=True")
        keywords.append("out=None")
        if not tensors:
            keywords.append('device="cuda"')
        arguments = [a.name for a in self.inputs]
        device = f"{first}.device" if first else "device"
        self.write(f'"""{self.about}"""')
        for symbol, text in shown.items():
            self.write(f"{self.sizes[symbol]} = {text}")
        for array in tensors:
            self.write(f'_expect("{array.name}", {array.name}, {self.shape(array.ty)}, "{" ".join(array.ty.names)}")')
        self._tile_checks()
        made = {r.array.name: r for r in self.rooms if r.result}
        # A kernel saves results in an order of its own; what is taken and given is in that of the diagram.
        results = [made[a.name] for a in self.outputs]
        ends = [a.name for a in self.outputs]
        again = [k for k, name in enumerate(ends) if name in ends[:k]]
        ends = [f"out[{k}]" if k in again else name for k, name in enumerate(ends)]
        if results:
            self._results(results, ends, again, device)
        for room in self.rooms:
            if not room.result:
                self.write(f"{room.array.name} = {self._empty(room, device)}")
        self._overflow_checks()
        for kernel in self.kernels:
            self._aligned(kernel)
        self._named()
        for kernel in self.kernels:
            self._launched(kernel)
        for k in again:
            self.write(f"out[{k}].copy_({self.outputs[k].name})")
        self.write(f"return {', '.join(ends) if ends else 'None'}")
        listed = ", ".join([*arguments, "*", *keywords])
        return "\n".join([f"def {self.entry}({listed}):", *self.lines])

    def _results(self, results: Sequence[OutputBuffer], ends: Sequence[str], again: Sequence[int], device: str) -> None:
        """Room for results: new tensors, or those that are given, which are checked."""
        several = len(results) > 1
        made = ", ".join(self._empty(r, device) for r in results)
        names = ", ".join("_" if k in again else name for k, name in enumerate(ends))
        named = [] if names == "out" else [f"    {names} = out"]
        for line in ("if out is None:", f"    out = {f'({made})' if several else made}", *named, "else:", *named):
            self.write(line)
        for name, room in zip(ends, results, strict=True):
            axes = " ".join(room.array.ty.names)
            self.write(f'    _expect("{name}", {name}, {self.shape(room.array.ty)}, "{axes}")')
        written = [f'("{name}", {name}, {_torch(r.dtype)})' for name, r in zip(ends, results, strict=True)]
        tensors = [a for a in self.inputs if a.ty.axes]
        safe = {
            (name, a.name): kind
            for name, r in zip(ends, results, strict=True)
            for a in tensors
            if (kind := self._safe(r.array, a))
        }
        listed = [f"({name!r}, {other!r}): {kind!r}" for (name, other), kind in safe.items()]
        read = [f'("{a.name}", {a.name})' for a in tensors]
        where = device if tensors else f"{ends[0]}.device"
        groups = (f"[{', '.join(written)}]", f"[{', '.join(read)}]", f"{{{', '.join(listed)}}}".replace("'", '"'))
        self._call("    _writable", [where, *groups])

    def _safe(self, result: StoredArray, given: StoredArray) -> str:
        """What a result may share with an input: "any" memory where all of that has been read before any is written,
        "all" where each program writes just the entries that it alone has read before; else nothing."""
        first = next((n for n, k in enumerate(self.kernels) if result in k.writes), len(self.kernels))
        later = [k for k in self.kernels[first:] if given in k.reads]
        if not later:
            return "any"
        kernel = self.kernels[first]
        alone = later == [kernel] and sum(len(places) for places in kernel.writes.values()) == 1
        return "all" if alone and set(kernel.reads[given]) == set(kernel.writes[result]) else ""

    def _tile_checks(self) -> None:
        """Checks of tiles, warps and buffers."""
        free = {*(s for k in self.kernels for s in k.padded), *(k.parts.symbol for k in self.kernels if k.parts)}
        summed = dict.fromkeys(s for k in self.kernels for s in k.summed)
        for check, tiles in (
            ("_positive", [t for t in self.tiles if t in free]),
            ("_powers", [t for t in self.tiles if t not in free]),
            ("_summed", [t for t in summed if t in self.tiles]),
        ):
            if tiles:
                self.write(f"{check}({', '.join(f'{t}={t}' for t in tiles)})")
        places = {k.place: "" for k in self.kernels}
        places.update({k.place: ", 12" for k in self.kernels if k.name in self.specialized_kernels})
        if len(self.kernels) > 1:
            for name in ("num_warps", "num_stages"):
                self.write(f'{name} = _each("{name}", {name}, {1 + max(places)})')
        for place, further in places.items():
            at = f"[{place}]" if len(self.kernels) > 1 else ""
            self.write(f"_runs(num_warps{at}, num_stages{at}{further})")

    def _overflow_checks(self) -> None:
        """A check that 32 bits hold all positions along axes, where blocks reach over their ends too, and programs."""
        counts: dict[str, str] = {}
        for array in (*self.inputs, *(r.array for r in self.rooms if not r.parts)):
            counts.update({text: text for text in (self.size(a.size) for a in array.ty.axes)})
        for kernel in self.kernels:
            spans = (*kernel.spans, *kernel.single, *kernel.loops)
            lengths = map(self.size, [*(s.size for s in spans), *kernel.blocks.values()])
            counts.update({text: text for text in lengths})
            counts[self._programs(kernel)] = f"the number of programs of {kernel.name}"
            if kernel.chunk is not None:  # the last part may begin past the end
                loops = [s.symbol for s in kernel.loops if s.axis == kernel.chunk.axis]
                reached = " * ".join([kernel.chunk.symbol, *loops])
                counts[f"{self.size(kernel.chunk.size)} + {reached}"] = f"{kernel.chunk.axis}, in whole parts,"
        given = {c: name for c, name in counts.items() if not c.isdigit() or int(c) >= LONGEST}
        if given:
            most = next(iter(given)) if len(given) == 1 else f"max({', '.join(given)})"
            self.write(f"if {most} >= {LONGEST}:")
            self._call("    _long", [f'("{name}", {c})' for c, name in given.items()])

    def _programs(self, kernel: KernelSpec) -> str:
        """How many programs of a kernel there are."""
        grid = [self._count(kernel, span) for span in spans_of(kernel)]
        grid += [kernel.parts.symbol] if kernel.parts is not None else []
        return " * ".join(_factor(g) for g in grid) or "1"

    def _empty(self, room: OutputBuffer, device: str) -> str:
        sizes = [room.parts] if room.parts else []
        sizes += [self.size(a.size) for a in room.array.ty.axes[len(sizes) :]]
        shape = f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"
        dtype = _torch(room.dtype)
        if room.array in self.boxed and not room.result:
            return f"_room({shape}, {dtype}, {device})"
        return f"torch.empty({shape}, dtype={dtype}, device={device})"

    def _aligned(self, kernel: KernelSpec) -> None:
        """Inputs of products, with how often a launch reads each: once for each tile of the axes that it lacks."""
        arrays = list(dict.fromkeys(b.array for b in kernel.boxes if b.array in self.inputs)) if kernel.rows else []
        if not arrays:
            return
        given = []
        for array in arrays:
            often = [self._count(kernel, span) for span in spans_of(kernel) if span.axis not in array.ty.names]
            if kernel.parts is not None and kernel.parts.axis not in array.ty.names:
                often.append(kernel.parts.symbol)
            given.append(f"({array.name}, {' * '.join(map(_factor, often)) or '1'})")
        names = ", ".join(a.name for a in arrays) + "," * (len(arrays) == 1)
        self.write(f"{names} = _aligned({', '.join(given)})")

    def _count(self, kernel: KernelSpec, span: LoopSpan) -> str:
        """How many tiles of a span the grid has."""
        whole = self.size(span.size)
        return whole if span in kernel.single else f"_tiles({whole}, {span.symbol})"

    def _named(self) -> None:
        """Strides, and lengths of blocks, by names: each is asked for once, whatever number of kernels takes it."""
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
            for name, text in [*blocks, *((name, f"_block({symbol})") for symbol, name in kernel.padded.items())]:
                if text not in self.lengths:
                    self.lengths[text] = self.names.fresh(name)
                    self.write(f"{self.lengths[text]} = {text}")

    def _length(self, kernel: KernelSpec, name: str, size: str) -> str:
        """The length of a block that holds an axis: where a product needs no more, that is all of it."""
        filled = name in kernel.sides and name not in kernel.short
        return f"{'_block' if filled else '_power'}({size})"

    def _launched(self, kernel: KernelSpec) -> None:
        if kernel.parts is not None:
            symbol = kernel.parts.symbol
            loops = [s for s in kernel.loops if s.axis == kernel.parts.axis]
            block = loops[0].symbol if loops else "1"
            self.write(f"chunk = max(1, _tiles(_tiles({self.size(kernel.parts.size)}, {symbol}), {block})) * {block}")
        count = self._programs(kernel)
        apart = self.specialized_kernels.get(kernel.name)
        if apart is None:
            self._plain(kernel, count)
            return
        self._specialized_launch(apart, kernel, count)
        outer, self.lines = self.lines, []
        known = dict(self._constants(kernel))
        self._plain(kernel, count, ", ".join(known.get(block, block) for block in apart.tiles))
        self.lines = [*outer, "    else:", *("    " + line for line in self.lines)]

    def _plain(self, kernel: KernelSpec, count: str, fallback: str = "") -> None:
        """The launch of a kernel in Triton. As a `fallback`, of products with these columns, numbers of warps and
        buffers are those of another form: here warps are a power of two, and buffers as many as there is room for."""
        arguments = [a.name for a in kernel.arrays]
        if kernel.boxes:
            self._boxes(kernel)
            arguments += [b.name for b in kernel.boxes]
        arguments += self._numbers(kernel)
        for name, text in self._constants(kernel):
            arguments.append(f"{name}={text}")
        if "_held" in kernel.helpers:
            arguments.append("held=held")
        if "_tanh" in kernel.helpers:
            arguments.append(f"fast={self._fast()}")
        if "_turned" in kernel.helpers:
            arguments.append(f"compiled={self._compiled()}")
        arguments += self._wide(kernel)
        several = len(self.kernels) > 1
        warps, stages = (f"{name}[{kernel.place}]" if several else name for name in ("num_warps", "num_stages"))
        warps = f"_warps({warps}, [{fallback}])" if fallback else warps
        # Where rows of several axes are fewer than 16 a warp, Triton 3.6 ends the process while it compiles.
        joint = [" * ".join(rows) for rows in kernel.merged_rows if all(s in self.tiles or s.isdigit() for s in rows)]
        if joint:
            warps = f"min({', '.join([warps, *(f'max(4, {rows} // 16)' for rows in joint)])})"
        arguments.append(f"num_warps={warps}")
        if not fallback:
            arguments.append(f"num_stages={stages}")
        if kernel.rows:
            known = dict(self._constants(kernel))
            rows = dict.fromkeys(" * ".join(known.get(name, name) for name in of) for of in kernel.rows)
            arguments.append(f"**_registers({warps}, {', '.join(rows)})")
        run = f"{kernel.name}[({count},)]"
        arguments += _rounding(kernel)
        if fallback:
            self._call("_fitted", [run, stages, *arguments])
        else:
            self._call(run, arguments)

    def _numbers(self, kernel: KernelSpec) -> list[str]:
        """Strides, scalars and sizes that a kernel is handed."""
        found = [self.strides[key] for key in kernel.strides]
        found += [s.name for s in kernel.scalars]
        constants = set(kernel.constants)
        found += [self.sizes[s] for s in kernel.sizes if s not in constants]
        return [*found, *(["chunk"] if kernel.chunk is not None else [])]

    def _call(self, function: str, arguments: Sequence[str], then: str = "") -> None:
        indent = " " * (len(function) - len(function.lstrip()))
        self.write(f"{function}(")
        line = ""
        for argument in arguments:
            if len(line) + len(argument) > 100:
                self.write(f"{indent}    {line}")
                line = ""
            line += f"{' ' if line else ''}{argument},"
        self.write(f"{indent}    {line}")
        self.write(f"{indent}){then}")

    def _specialized_launch(self, apart: WarpSpecialized, plain: KernelSpec, count: str) -> None:
        """The launch of a kernel whose loads are apart, where chip, tiles and tensors allow it."""
        kernel, row = self.merged[plain.name], apart.row.symbol
        known = dict(self._constants(kernel))
        at = f"[{plain.place}]" if len(self.kernels) > 1 else ""
        arrays = list(dict.fromkeys(r.boxes.array.name for r in apart.rings))
        columns = ", ".join(known.get(block, block) for block in apart.tiles)
        given = (
            f"{row}, num_warps{at}, num_stages{at}, [{columns}], {self._shared(apart, known, at)}, {', '.join(arrays)}"
        )
        self.write(f"groups = _groups({given}) if specialized else 0")
        shapes = {
            r.boxes.name: "[" + ", ".join(
                f"{row} // groups" if r.rows and b == row else known.get(b, b) for b in r.boxes.shape) + "]"
            for r in apart.rings
        }  # fmt: skip
        fits = " and ".join(f"_boxed({r.boxes.array.name}, {shapes[r.boxes.name]})" for r in apart.rings)
        self.write(f"if groups and {fits}:")
        outer, self.lines = self.lines, []
        for ring in apart.rings:
            self.write(f"{ring.boxes.name} = _boxes({ring.boxes.array.name}, {shapes[ring.boxes.name]})")
        arguments = [*(a.name for a in kernel.arrays), *self._numbers(kernel), *(b.name for b in kernel.boxes)]
        asked = constants_of(kernel)
        arguments += [f"{name}={text}" for name, text in known.items() if name in asked]
        if "_tanh" in apart.compute.helpers:
            arguments.append(f"fast={self._fast()}")
        arguments += self._wide(kernel)
        arguments += [f"{apart.names['groups']}=groups", f"{apart.names['stages']}=num_stages{at}", "num_warps=4"]
        arguments += _rounding(kernel)
        self._call(f"{kernel.name}[({count},)]", arguments)
        self.lines = [*outer, *("    " + line for line in self.lines)]

    def _shared(self, apart: WarpSpecialized, known: Mapping[str, str], at: str) -> str:
        """The bytes of shared memory that the rings of a kernel take: elements of two bytes, and barriers of eight."""
        blocks = {r: " * ".join(known.get(b, b) for b in r.boxes.shape if b != "1") for r in apart.rings}
        iterations, rows = (" + ".join(text for r, text in blocks.items() if r.rows is of) for of in (False, True))
        count = sum(not r.rows for r in apart.rings)
        each = f"num_stages{at} * ({iterations} + {8 * count})"
        return f"2 * ({each}{f' + {rows} + {4 * (len(blocks) - count)}' if rows else ''})"

    def _wide(self, kernel: KernelSpec) -> list[str]:
        """The constant that says that an entry may be so far from where its tile begins that 32 bits do not hold it."""
        known = dict(self._constants(kernel))

        def factor(text: str) -> str:
            named = re.sub(r"[A-Za-z_]\w*", lambda name: _factor(known.get(name.group(), name.group())), text)
            return f"({named})" if " + " in named and not named.startswith("max(") else named

        sums = [" + ".join(f"{factor(n)} * {self.strides[a, axis]}" for a, axis, n in far) for far in kernel.reaches]
        sums = list(dict.fromkeys(sums))
        if not sums:
            return []
        if len(sums) == 1:
            self.write(f"wide = {sums[0]} >= 2**31")
        else:
            self._call("wide = max", sums, " >= 2**31")
        return ["wide=wide"]

    def _fast(self) -> str:
        """Whether results are so short that the chip's own functions are as exact."""
        first = next((a.name for a in self.inputs if a.ty.axes and a.ty.element in ("real", "extended")), "")
        return f'{first}.device.type != "cpu" and {first}.element_size() < 4' if first else "False"

    def _compiled(self) -> str:
        """Whether the kernel is compiled, and not interpreted on a processor."""
        first = next((a.name for a in self.inputs if a.ty.axes), "")
        return f'{first}.device.type != "cpu"' if first else 'str(device) != "cpu"'

    def _boxes(self, kernel: KernelSpec) -> None:
        """Descriptors of the boxes that are loaded, None where the tensor, the box or the chip allows none."""
        for box in kernel.boxes:
            self.write(f"{box.name} = _copied({box.array.name}, {self._shape_of(kernel, box)})")

    def _shape_of(self, kernel: KernelSpec, boxes: Boxes) -> str:
        known = dict(self._constants(kernel))
        return f"[{', '.join(known.get(b, b) for b in boxes.shape)}]"

    def _constants(self, kernel: KernelSpec) -> list[tuple[str, str]]:
        found = [(kernel.sizes.get(s, s), self.sizes[s]) for s in kernel.constants]
        for name, size in kernel.blocks.items():
            found.append((name, self.lengths[self._length(kernel, name, self.size(size))]))
        for span in (*kernel.spans, *kernel.loops):
            found.append((span.symbol, span.symbol))
        if kernel.parts is not None:
            found.append((kernel.parts.symbol, kernel.parts.symbol))
        for symbol, name in kernel.padded.items():
            found.append((name, self.lengths[f"_block({symbol})"]))
        for name, span in kernel.exact.items():
            whole = self.size(span.size)
            test = f"{whole} % {span.symbol} == 0"
            if span.symbol in kernel.padded:
                test = f"{self.lengths[f'_block({span.symbol})']} == {span.symbol} and {test}"
            found.append((name, test))
        return found


def _rounding(kernel: KernelSpec) -> list[str]:
    """The option by which the assembler makes no product and difference one instruction."""
    return ["enable_fp_fusion=False"] if kernel.separately_rounded else []


def torch_type(array: StoredArray, dtypes: Mapping[str, str], dtype: str) -> str:
    """The torch type of an array's elements, without "torch."."""
    if array.ty.element in _KINDS:
        return _KINDS[array.ty.element].removeprefix("torch.")
    return WIDTHS[dtypes.get(array.name, dtype)]


def _torch(dtype: str) -> str:
    """A type of elements as an expression: by torch's name, or an expression already."""
    return dtype if "." in dtype else f"torch.{dtype}"


def _factor(text: str) -> str:
    return f"({text})" if " " in text and not text.startswith(("(", "_tiles")) else text


def _solved(size: Size, symbol: str, text: str, name: Any) -> str:
    """The symbol of a size that is so many times it and a number, from what the whole is."""
    if not isinstance(size, tuple):
        return ""
    op, a, b = size
    if op == "+" and a == b == symbol:
        return f"{text} // 2"
    for one, other in ((a, b), (b, a)):
        if one == symbol and symbol not in size_symbols(other):
            known = read_off(
                other, lambda v: str(v) if isinstance(v, int) else name(v), lambda o, x, y: f"({x} {o} {y})"
            )
            return f"{text} - {known}" if op == "+" else f"{text} // {known}"
    return ""
