"""A Triton module from a diagram: one kernel for each group, and a launch function.

A loop that is split into parts (split-K) becomes two kernels: one computes a state for each part, the other merges
the states.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from catdiag.category.diagram import Diagram, HasDiagram, diagram_of
from catdiag.category.ops import Reindex
from catdiag.category.types import COMPUTED, STORED, ArrayType, Axis
from catdiag.codegen.gluon.gluon_printer import GLUON, Unfit
from catdiag.codegen.gluon.gluon_source import kernel_functions, merged
from catdiag.codegen.gluon.pipelined_loop import WarpSpecialized
from catdiag.codegen.gluon.producer_warp import specialize_warps
from catdiag.codegen.kernel_tree import KernelCode
from catdiag.codegen.names import Names
from catdiag.codegen.program_sizes import spans_of_loops, symbols_of_program
from catdiag.codegen.triton.added_results import ADDS_UP, AddedArray
from catdiag.codegen.triton.array_accesses import Made, Pull, StoredArray
from catdiag.codegen.triton.dependent_launch import chained, chained_forms
from catdiag.codegen.triton.generated_module import EntryArgument, Module
from catdiag.codegen.triton.kernel_body import Writing
from catdiag.codegen.triton.kernel_signature import (
    L2_BYTES,
    PROGRAMS,
    WIDTHS,
    KernelSpec,
    ModuleContext,
    check_types,
    saved_types,
    torch_type,
)
from catdiag.codegen.triton.kernel_source import grid, kernel_function, tile_note
from catdiag.codegen.triton.launch_function import LaunchWriter
from catdiag.codegen.triton.launch_memory import OutputBuffer
from catdiag.codegen.triton.merged_parts import merge_parts
from catdiag.codegen.triton.module_text import ModuleText
from catdiag.codegen.triton.opaque_call import OpaqueCall, opaque_call
from catdiag.codegen.triton.product_call import ProductCall, product_axes
from catdiag.codegen.triton.reserved_names import GLUON_WORDS, MODULE_WORDS
from catdiag.codegen.triton.tile_nodes import TileNode
from catdiag.codegen.triton.triton_dialect import helper_function
from catdiag.schedule.contractions import deciding
from catdiag.schedule.live_ranges import is_view
from catdiag.schedule.loop_nest import LoopNest, lower
from catdiag.schedule.operand_types import result_type, widest_of
from catdiag.schedule.split_k import split_statements
from catdiag.schedule.statements import For, Let, LoopSpan, Make, NestValue, Save, Statement, statements
from catdiag.schedule.stored_types import element_types, rest_type
from catdiag.util.errors import CatdiagError, SizeError, TypeMismatch


def module(
    diagram: Diagram | HasDiagram,
    tiles: Mapping[str, int],
    dtype: str | Mapping[str, str] = "bf16",
    *,
    stages: int | Sequence[int] = 2,
    warps: int | Sequence[int] = 4,
    specialized: bool | Sequence[bool] = False,
    library: Collection[int] = (),
    l2_bytes: int = L2_BYTES,
    programs: int | Sequence[int] = PROGRAMS,
) -> Module:
    """The Triton module of a derived diagram, whose loops are streamed and whose results are grouped.

    - `tiles`: the length of each tile and block in entries, by its symbol; powers of two. A tile of 1 is compiled in.
      Other tiles are keyword arguments of the launch function, with these lengths as defaults.
    - `dtype`: the element type of inputs and results, or a type for each by name (results are `out`, or `out0`, `out1`,
      …), as `catdiag.cost.traffic.io` has it. Sums are accumulated in float32.
    - `stages` and `warps`: pipeline stages (buffers per loaded block) and warps, one number or one for each group.
    - `specialized`: whether to write a second, warp-specialized form too, in Gluon (Triton 3.6, Hopper), for all groups
      or for each. A kernel has this form if one matrix product in a loop feeds another. The launch function takes it
      where chip, tiles (at least 64 rows per warpgroup) and tensors allow, unless called with `specialized=False`.
    - `library`: the groups that are calls instead of kernels, by number. Each is a product of two arrays, which torch
      computes, or an uninterpreted box, for which the launch function takes `functions` by name, and nothing else.
    - `l2_bytes`, `programs`: what orders programs with loops of several lengths, and how many add up runs of tiles.

    >>> import catdiag as cd
    >>> total = cd.algorithm("q x -> q", name="total")(lambda A: cd.sum(A, "x"))
    >>> made = module(total.stream("x").group("q"), {"g_q": 64, "s_x": 64}, "fp32")
    >>> made.entry, made.kernels, dict(made.tiles)
    ('total', ('_total',), {'g_q': 64, 's_x': 64})

    Raises SizeError for a tile that is missing or not a positive integer. Raises TypeMismatch for a diagram that cannot
    be a kernel: a function without definition, or a tile in registers that is read at other positions than its own.
    Raises CatdiagError for an unknown dtype or array name, for a number of warps that Triton does not take, and for a
    group in `library` that is no product of arrays of one type, and no uninterpreted box.
    """
    program = lower(diagram := diagram_of(diagram), library)
    check_types(program, dtype)
    types = element_types(diagram, dtype)
    builder = _ModuleBuilder(
        program, deciding(diagram), dict(tiles), types, rest_type(dtype), stages, warps, specialized, library
    )
    builder.shared.l2_bytes, builder.shared.programs = l2_bytes, programs
    return builder.build()


class _ModuleBuilder:
    """Lowers the statements of a loop nest to kernels, and assembles the module."""

    def __init__(
        self,
        program: LoopNest,
        factors: Sequence[str],
        tiles: dict[str, int],
        types: Mapping[str, str],
        rest: str,
        stages: int | Sequence[int],
        warps: int | Sequence[int],
        specialized: bool | Sequence[bool],
        library: Collection[int] = (),
    ) -> None:
        self.library, self.calls = library, list[ProductCall | OpaqueCall]()
        self.program, self.factors = program, factors
        groups = max(1, sum(isinstance(s, For) and s.kind == "tiles" for s in program.body))
        self.stages, self.warps = (_each(n, w, groups) for n, w in ((stages, "stages"), (warps, "warps")))
        self.dtype = widest_of([types[v.name] for v in program.inputs if v.name in types]) or rest
        self.rest, self.place = rest, 0
        self.dtypes, self.symbols = dict(types), spans_of_loops(program)
        for symbol, span in self.symbols.items():
            size = tiles.get(symbol)
            if size is None:
                raise SizeError(
                    f"the length of {symbol}, a tile of axis {span.axis}, is missing: expected all of "
                    f"{', '.join(self.symbols)}"
                )
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise SizeError(f"{symbol} is {size!r}: expected a positive number of entries of axis {span.axis}")
        self.tiles = {s: tiles[s] for s in self.symbols}
        title = re.match(r"[A-Za-z_]\w*", program.title)
        own = Names(set(MODULE_WORDS))
        self.entry = own.fresh(title.group() if title else "program")
        self.shared = ModuleContext(own, self.tiles, self.dtypes, self.dtype, reshaped=program.reshaped)
        self.kernels: list[KernelSpec] = []
        self.specialized = [specialized] * groups if isinstance(specialized, bool) else list(specialized)
        self.specialized_kernels: dict[str, WarpSpecialized] = {}
        self.unspecialized: dict[str, str] = {}
        self.buffers: list[OutputBuffer] = []
        self.saved_types = saved_types(program, rest)
        self.added: list[AddedArray] = []
        self.cleared: list[NestValue] = []

    # -- the module ------------------------------------------------------------------------------------------

    def build(self) -> Module:
        """Lowers all kernels, then writes the launch function and the text. Raises as `module` does."""
        program, names = self.program, self.shared.names
        names.taken |= set(self.symbols)
        arrays = self._input_arrays()
        env: dict[NestValue, Pull] = dict(arrays)
        inputs = [arrays[value] for value in program.inputs]
        found = symbols_of_program(program, (*program.inputs, *program.outputs))
        sizes = {s: names.fresh(s) for s in found if s not in self.symbols}
        names.taken |= set(sizes.values())
        self.shared.sizes.update(sizes)
        self._lower_body(env)
        outputs = [self._saved_output(value, env) for value in program.stored]
        self._check_warps()
        keywords = {t: n for t, n in self.tiles.items() if n != 1 or self._is_argument(t)}
        launch = LaunchWriter(
            self.entry, inputs, outputs, self.buffers, self.kernels, keywords, self.stages, self.warps,
            self.dtypes, self._about(), sizes, self.specialized_kernels, self.calls,
            (*self.shared.merged.values(), *self.shared.array_parts.values()), tuple(self.added),
        )  # fmt: skip
        forms = tuple(self.specialized_kernels.values())
        products = any(isinstance(call, ProductCall) for call in self.calls)
        printer = ModuleText(
            self._about(), self.kernels, forms, self.calls,
            products or any(not a.temporary for a in self.shared.merged.values()), launch.memory.uses_arena,
            bool(program.outputs),
            "fp8" in self.dtypes.values(),
        )  # fmt: skip
        host = printer.host(launch.text())
        helpers = sorted({h for k in self.kernels for h in k.helpers})
        plain = [(k, kernel_function(k)) for k in self.kernels]
        specialized = [(a, kernel_functions(a, grid(merged(a), GLUON.module))) for a in forms]
        trees = [*map(helper_function, helpers), *(t for _, t in plain), *(t for _, own in specialized for t in own)]
        return Module(
            printer.text(host, helpers, plain, specialized),
            host,
            KernelCode({tree.name: tree for tree in trees}),
            self.entry,
            tuple(k.name for k in self.kernels),
            tuple(
                EntryArgument(v.name, a.ty, torch_type(a, self.dtypes, self.dtype))
                for v, a in zip(program.inputs, inputs, strict=True)
            ),
            tuple(EntryArgument(a.name, a.ty, self._stored_as(a)) for a in outputs),
            keywords,
            self.stages,
            self.warps,
            self.dtype,
            tuple(a.name for a in forms),
            tuple(a.row.symbol for a in forms),
            tuple(a.compute.phases for a in forms),
            tuple(a.reuses_blocks for a in forms),
            {k.name: k.place for k in self.kernels}
            | {a.name: k.place for k in self.kernels for n, a in self.specialized_kernels.items() if n == k.name},
            tuple((a.names["groups"], a.names["stages"]) for a in forms),
            launch.memory.work_buffers(),
            launch.functions,
            dict(self.unspecialized),
            tuple(sizes[s] for s in launch.launch_sizes.wanted),
            (*(k.name for k in self.kernels if k.waits), *[ADDS_UP] * any(bool(k.added) for k in self.kernels)),
        )

    def _input_arrays(self) -> dict[NestValue, StoredArray]:
        """The arrays that the launch function is given, under names that the module uses for nothing else."""
        names = self.shared.names
        env: dict[NestValue, StoredArray] = {}
        names.taken |= {value.name for value in self.program.inputs}
        for value in self.program.inputs:
            name = value.name
            if not name.isidentifier():  # the result of another kernel, such as "mul [t f]"
                name = names.fresh("_".join(re.findall(r"[A-Za-z]\w*", name)) or "made")
            elif self._is_reserved(name):
                name = names.fresh(name)
            if value.name in self.dtypes:
                self.dtypes[name] = self.dtypes[value.name]
            if value.name in self.factors:
                self.shared.factors.add(name)
            env[value] = StoredArray(value.ty, name)
        return env

    def _saved_output(self, value: NestValue, env: Mapping[NestValue, Pull]) -> StoredArray:
        pull = self.shared.saved.get(value) or env[value]
        if not isinstance(pull, StoredArray):
            name = value.name or "a result"
            raise TypeMismatch(f"{name} is not saved by any kernel: expected a result that a kernel computes")
        return pull

    def _check_warps(self) -> None:
        """Raises CatdiagError for default numbers of warps that the launch function would refuse."""
        for kernel in self.kernels:
            warps = self.warps if isinstance(self.warps, int) else self.warps[kernel.place]
            further = (12,) if kernel.name in self.specialized_kernels else ()
            if warps not in (1, 2, 4, 8, 16, 32, *further):
                more = "" if further else " (12 for a warp-specialized kernel, a form that this kernel does not have)"
                raise CatdiagError(f"{kernel.name} is to run with {warps} warps: expected 1, 2, 4, 8, 16 or 32{more}")

    def _is_reserved(self, name: str) -> bool:
        """Whether the name of an input is used for something else in the module: an option, a tile, a library."""
        return name in self.symbols or (name in MODULE_WORDS and (any(self.specialized) or name not in GLUON_WORDS))

    def _is_argument(self, symbol: str) -> bool:
        """Whether a tile is an argument even if its length is 1: numbers of parts are."""
        return any(isinstance(s, For) and s.kind == "parts" and any(p.symbol == symbol for p in s.spans)
                   for _, s in statements(self.program.body))  # fmt: skip

    def _stored_as(self, array: StoredArray) -> str:
        return next((r.dtype for r in self.buffers if r.array is array), torch_type(array, self.dtypes, self.dtype))

    # -- kernels -----------------------------------------------------------------------------------------------

    def _lower_body(self, env: dict[NestValue, Pull]) -> None:
        """Makes a kernel of each group, and of the statements between two groups."""
        ungrouped: list[Statement] = []
        for s in self.program.body:
            if isinstance(s, For) and s.kind == "tiles":
                self._ungrouped(ungrouped, env)
                ungrouped = []
                if self.place in self.library:
                    self.calls.append(opaque_call(s, env, self.shared.saved, self.place) or self._product(s, env))
                    env.update(self.shared.written)
                else:
                    self._group(s, env)
                self.place += 1
            elif isinstance(s, Make):
                for value in s.values:
                    self._allocate(value)
                self.cleared = list(s.cleared)
            else:
                ungrouped.append(s)
        self.place = max(0, self.place - 1)
        self._ungrouped(ungrouped, env)
        for value in self.program.outputs:
            if value in self.shared.saved:
                env[value] = self.shared.saved[value]
        if any(value.ty.axes for value in self.program.inputs):
            self.kernels = chained(self.kernels, self.calls, {a.place for a in self.added})
        self.specialized_kernels = chained_forms(self.specialized_kernels, self.kernels)

    def _ungrouped(self, body: Sequence[Statement], env: dict[NestValue, Pull]) -> None:
        """Statements outside groups: a kernel of one program, except views and numbers, which later kernels inline."""
        if not body:
            return
        for s in body:
            if isinstance(s, Save):
                self._allocate(s.target)
        split = next((s for s in body if isinstance(s, For) and s.kind == "parts"), None)
        writing = self._writing(env, ())
        if split is None:
            self._run(writing, body, "what is not in groups")
        else:
            writing = self._parts(For("tiles", (), list(body)), env)
        for s in body:
            if isinstance(s, Save):
                env[s.target] = self.shared.saved[s.target]
                # A later kernel reads the saved array, since a tile exists in its own kernel only.
                env.setdefault(s.value, self.shared.saved[s.target])
        views = self._writing(env, ())
        for s in body:
            if isinstance(s, Let) and all(a in views.k.env for a in s.args):
                views.body([s])
        for value, pull in views.k.env.items():
            if not isinstance(pull, Made):
                env.setdefault(value, pull)

    def _allocate(self, value: NestValue) -> None:
        """Enters the array in global memory into which a value is saved."""
        if value in self.shared.saved:
            return
        result = value in self.program.stored
        name = self.shared.names.fresh(value.name or "t") if value.name != "out" else "out"
        array = self.shared.save(value, name)
        if result:
            self.shared.results.add(array)
        # The type of a result is looked up by its own name, also if an input has that name and the array another.
        named = self.dtypes.get(value.name if result else name)
        real = self.saved_types.get(value, result_type(self.rest))
        kind = named or STORED.get(value.ty.element, real)
        self.dtypes[name] = kind
        self.buffers.append(OutputBuffer(array, WIDTHS[kind], result=result))

    def _clear(self, value: NestValue, spans: Sequence[LoopSpan]) -> None:
        """Enters an array that the next kernel adds to, in tiles of some axes. Additions are in fp32 at least: a
        narrower array is made of the sums after the kernel."""
        array, result, names = self.shared.saved[value], None, self.shared.names
        if WIDTHS[self.dtypes[array.name]] not in ("float32", "float64"):
            sums = self.shared.save(value, names.fresh(f"{array.name}_sums"))
            self.dtypes[sums.name] = "fp32"
            self.buffers.append(OutputBuffer(sums, WIDTHS["fp32"]))
            array, result = sums, array
        part, own = names.fresh(f"{array.name}_part"), tuple(s for s in spans if s.axis not in value.ty.names)
        self.added.append(AddedArray(self.place, array, part, names.fresh(f"{array.name}_parts"), own, result))
        self.shared.parts[array] = part, own

    def _writing(self, env: Mapping[NestValue, Pull], spans: Sequence[LoopSpan]) -> Writing:
        return Writing(self.shared, {**env, **self.shared.written}, spans)

    def _name(self) -> str:
        return self.shared.names.fresh(f"_{self.entry}")

    def _group(self, group: For, env: dict[NestValue, Pull]) -> None:
        split = next((s for s in group.body if isinstance(s, For) and s.kind == "parts"), None)
        spans, cleared, self.cleared = group.spans, self.cleared, []
        for value in cleared:
            self._clear(value, spans)
        if split is None:
            self._run(self._writing(env, spans), group.body, tile_note(spans))
            if self.specialized[self.place] and self.kernels and self.kernels[-1].place == self.place:
                self._specialize(env, spans, group.body)
        else:
            self._parts(group, env)
        made = {a.sums: a.result or a.sums for a in self.added}  # which later kernels read
        self.shared.saved.update({value: made[self.shared.saved[value]] for value in cleared})
        env.update(self.shared.written)

    def _product(self, group: For, env: Mapping[NestValue, Pull]) -> ProductCall:
        """The call of torch for a group that is a product."""
        lets = [s for s in group.body if isinstance(s, Let) and not is_view(s.box)]
        saves = [s for s in group.body if isinstance(s, Save)]
        axes = product_axes(lets[0].box) if len(lets) == len(saves) == 1 and not group.spans else None
        views = {s.targets[0]: s for s in group.body if isinstance(s, Let) and isinstance(s.box.op, Reindex)}
        arrays = [self._operand(a, views, env) for a in lets[0].args] if axes is not None else []
        if axes is None or not all(isinstance(a, StoredArray) for a in arrays):
            raise CatdiagError(
                f"group {self.place} is to be a call of torch: expected one product of two arrays in it, or one "
                "uninterpreted box, of arrays in memory"
            )
        first, second = (a for a in arrays if isinstance(a, StoredArray))
        result = self.shared.saved[saves[0].target]
        kinds = {self._stored_as(array) for array in (first, second, result)}
        if len(kinds) > 1:
            raise CatdiagError(f"torch multiplies arrays of one type: {', '.join(sorted(kinds))} are given")
        return ProductCall(first, second, result, lets[0].box, axes, self.place)

    def _operand(
        self, value: NestValue, views: Mapping[NestValue, Let], env: Mapping[NestValue, Pull]
    ) -> StoredArray | None:
        """The array in memory that a factor of a product is, with neighboring axes merged if a view merges them."""
        view = views.get(value)
        if view is None:
            found = env.get(value.origin)
            return found if isinstance(found, StoredArray) else None
        source = self._operand(view.args[0], views, env)
        op = view.box.op
        if source is None or not isinstance(op, Reindex) or op.kind != "merge":
            return None
        return self.shared.merged_array(source, [p.name for p in op.axis.parts], Names(set()))

    def _run(self, writing: Writing, body: Sequence[Statement], note: str) -> None:
        writing.body(body)
        if writing.k.writes:
            self.kernels.append(writing.done(self._name(), note, self.place))

    def _specialize(self, env: Mapping[NestValue, Pull], spans: Sequence[LoopSpan], body: Sequence[Statement]) -> None:
        """Adds the warp-specialized form of the last kernel, or the reason why it has none."""
        kernel = self.kernels[-1]
        if any(isinstance(s, Save) and s.adds for _, s in statements(body)):
            self.unspecialized[kernel.name] = "its groups add to one result"
            return
        try:
            found = specialize_warps(self.shared, {**env, **self.shared.written}, spans, body, kernel)
        except Unfit as error:
            self.unspecialized[kernel.name] = error.message
        else:
            self.specialized_kernels[kernel.name] = found

    def _parts(self, group: For, env: dict[NestValue, Pull]) -> Writing:
        """A split loop (split-K): one kernel saves a state for each part, a second one merges them.

        Returns the writer of the second kernel. `group` holds the statements around the loop over parts.
        """
        before, split, again, after = split_statements(group, self.program.graph)
        (span,) = split.spans
        first = self._writing(env, group.spans)
        first.body(before)
        first.parts = span
        first.body(split.body)
        partial_states: dict[NestValue, StoredArray] = {}
        starts = {s.symbol: s for s in group.spans}
        for value in split.partial_states:
            axes = tuple(
                Axis(a.name, starts[a.size].size) if isinstance(a.size, str) and a.size in starts else a
                for a in value.ty.axes
            )
            part = self._part_axis(value.ty)
            name = self.shared.names.fresh(f"{value.name or 'state'}_parts")
            ty = ArrayType((Axis(part, span.symbol), *axes), value.ty.element)
            array = StoredArray(ty, name, temporary=True, parts=True)
            partial_states[value] = array
            kind = COMPUTED.get(value.ty.element, "fp32")
            self.dtypes[array.name] = kind
            self.buffers.append(OutputBuffer(array, WIDTHS[kind], parts=span.symbol))
            first.store(
                array, first.k.tile(value), {part: first.k.nodes.symbol("part"), **self._global(first, value.ty)}
            )
        self.kernels.append(
            first.done(self._name(), f"{tile_note(group.spans)}, a part of {span.axis} each", self.place, chunk=span)
        )
        second = self._writing(env, group.spans)
        second.body(again)
        for s in after:
            if isinstance(s, For) and s.kind == "merge":
                merge_parts(second, s, partial_states, span)
            else:
                second.body([s])
        self.kernels.append(
            second.done(
                self._name(),
                f"{tile_note(group.spans)}: the states of the parts of {span.axis}, merged",
                self.place,
                span,
            )
        )
        return second

    def _part_axis(self, ty: ArrayType) -> str:
        name = "part"
        while name in ty.names:
            name += "_"
        return name

    def _global(self, writing: Writing, ty: ArrayType) -> dict[str, TileNode]:
        """The indices of a tile's entries in the whole array."""
        found = {}
        index = writing.k.index(ty)
        for axis in ty.axes:
            tile = writing.k.tiles.get(axis.size) if isinstance(axis.size, str) else None
            at = index[axis.name]
            found[axis.name] = at if tile is None else writing.k.nodes.op("add", tile.start, at)
        return found

    # -- text ----------------------------------------------------------------------------------------------------

    def _about(self) -> str:
        types = ", ".join(f"{v.name}[{' '.join(v.ty.names)}]" for v in self.program.inputs)
        ends = ", ".join(f"[{' '.join(v.ty.names)}]" for v in self.program.outputs)
        # This is put in docstrings, so quotes, backslashes and line breaks of the title are replaced.
        title = " ".join(self.program.title.replace("\\", "/").replace('"', "'").split())
        return f"{title}: {types} -> {ends}."


def _each(numbers: int | Sequence[int], what: str, groups: int) -> int | tuple[int, ...]:
    """One number for all groups, or one for each. Raises CatdiagError for another count."""
    if isinstance(numbers, int):
        return numbers
    if len(numbers) != groups:
        raise CatdiagError(f"{what} are {tuple(numbers)}: expected one number, or one for each of {groups} groups")
    return numbers[0] if groups == 1 else tuple(numbers)


__all__ = ["EntryArgument", "Module", "module"]
