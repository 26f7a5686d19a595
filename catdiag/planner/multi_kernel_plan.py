"""Plans: the kernels of a program on a chip, in order, what passes between them, and what other ways would take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

from catdiag.category.diagram import Diagram
from catdiag.chip.hardware import LAUNCH_S
from catdiag.planner.fits_proof import Proof
from catdiag.planner.partition_alternative import PartitionAlternative
from catdiag.planner.plan import CALLED, FUNCTION, IDEAL, TORCH, TRITON, KernelPlan, plural
from catdiag.planner.plan_table import arrays_of, configurations, kernel_table, launch_lines
from catdiag.schedule.kernel_analysis import given_sizes
from catdiag.util.display import AsHTML
from catdiag.util.errors import CatdiagError, NotFusable, OfOneKernel, require

if TYPE_CHECKING:
    from catdiag.chip.hardware import Hardware
    from catdiag.codegen.triton.triton_module import Module
    from catdiag.planner.program_bound import ProgramBound
    from catdiag.prover.api import Theorem
    from catdiag.rewrite.derivation import Derivation
    from catdiag.runtime.compile import CompiledKernel, TrainingKernels

HOST_LAUNCH_S = 20e-6
"""Seconds of the host for a launch from Python: 13 to 25 µs were measured beside an H200."""


@dataclass(frozen=True)
class Plan(AsHTML):
    """How a program runs on a chip: its kernels, one or more, in order, with the theorem that they mean the source.

    `kernels` are the plans of each (`catdiag.planner.plan.KernelPlan`): tiles, stages, warps, bytes, the predicted
    time, and z3's proof that it fits. Where there is one kernel, all that it has is read off the plan too, as in
    `plan.stages`; of several that is an error which names them. `tiles`, `time_s`, `flops`, `bytes_moved`, `hbm_bytes`
    and `proof` are those of all kernels together, of one or several.

    `derivation` is of the whole. Where the planner cut the source into kernels, each is a Group box on the outermost
    level of its diagram, in order. Outside of them are views, positions, sizes and constants. No tile or block of one
    kernel is called as one of another, but for kernels that are equal up to names, whose tiles are the same: `tiles` is
    one mapping for all.
    `saved` are the arrays that pass from kernel to kernel, each with its bytes, in the `dtype` of the plan; statistics
    (`catdiag.schedule.full_precision`) in fp32, or wider.
    `alternatives` are other ways to cut it: first everything in one kernel, where it was not taken. `lower_bound` is
    what the best equal program that is known needs at least.

    >>> import catdiag as cd
    >>> total = cd.algorithm("q x -> q", name="total")(lambda a: cd.sum(a, "x")).stream("x").group("q")
    >>> plan = total.plan("H100", {"q": 4096, "x": 4096})
    >>> len(plan.kernels), plan.backend, plan.stages == plan.kernels[0].stages
    (1, 'triton', True)
    >>> print(plan.code("triton").splitlines()[0])
    \"""total.stream('x').group('q'): a[q x] -> [q].
    """

    derivation: Derivation = field(repr=False, compare=False)
    kernels: tuple[KernelPlan, ...]
    dtype: str
    """The type of inputs, results and what is saved, but for statistics."""
    saved: tuple[tuple[str, int], ...] = ()
    alternatives: tuple[PartitionAlternative, ...] = ()
    module: Module | None = field(default=None, repr=False, compare=False)
    """What is written for Triton, with the tiles, stages and warps of the kernels."""
    reason: str = ""
    """Why there is no module."""
    seconds: float = field(default=0.0, repr=False, compare=False)
    """Of computing, to find the plan and prove it."""
    dtypes: str | Mapping[str, str] = field(default="bf16", repr=False, compare=False)
    """The types as they were asked for."""
    deterministic: bool = field(default=False, repr=False, compare=False)
    """Whether no scatter-adds were tried, nor are for the passes of its gradient."""
    unproved: tuple[str, ...] = ()
    """What was not proved, each with the goal at which it stopped: `kernel 4: …`. There is then no theorem about the
    whole, no module is written, and `derivation` is that of the kernels from themselves."""
    written_source: Diagram | None = field(default=None, repr=False, compare=False)
    """The source, where the kernels were not proved to mean it."""
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict, repr=False, compare=False)
    """The functions of uninterpreted boxes that are known, by name: an imported program has them."""
    gradient: Callable[[Plan, tuple[int, ...]], TrainingKernels] | None = field(default=None, repr=False, compare=False)
    """What plans and compiles the passes of the gradient by some inputs (`catdiag.planner.training_plans`); None where
    what is compiled has no gradient."""

    @staticmethod
    def of(derivation: Derivation, kernel: KernelPlan) -> Plan:
        """The plan of a `derivation` that is one `kernel`.

        >>> import catdiag as cd
        >>> total = cd.algorithm("q x -> q")(lambda a: cd.sum(a, "x")).stream("x").group("q")
        >>> Plan.of(total.derivation, total.plan("H100", {"q": 4096, "x": 4096}).kernels[0]).sizes
        {'q': 4096, 'x': 4096}
        """
        return Plan(derivation, (kernel,), kernel.dtype, module=kernel.module, reason=kernel.reason)

    @property
    def source(self) -> Diagram:
        """What was planned, as it was written."""
        return self.derivation.source if self.written_source is None else self.written_source

    @property
    def diagram(self) -> Diagram:
        """The derived diagram."""
        return self.derivation.diagram

    @property
    def theorem(self) -> Theorem:
        """That the kernels together mean the source, for all sizes, tiles and blocks.

        Raises NotFusable where that is not proved, naming the kernels.
        """
        if self.unproved:
            title = self.source.title or "the source"
            raise NotFusable(f"the kernels are not proved to mean {title}: {'; '.join(self.unproved)}")
        return self.derivation.theorem

    @property
    def proof(self) -> Proof:
        """That the tiles of each kernel fit the chip; nothing is said of products that torch computes."""
        proofs = [kernel.proof for kernel in self.kernels]
        if len(proofs) == 1:
            return proofs[0]
        said = ". ".join(f"kernel {k}: {proof.statement}" for k, proof in enumerate(proofs, 1) if proof.statement)
        return Proof(said, sum(proof.seconds for proof in proofs))

    @property
    def hardware(self) -> str:
        """The name of the chip."""
        return self.kernels[0].hardware

    @property
    def chip(self) -> Hardware | None:
        """The chip."""
        return self.kernels[0].chip

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes that it is for."""
        return {name: size for kernel in self.kernels for name, size in kernel.sizes.items()}

    @property
    def tiles(self) -> dict[str, int]:
        """The tiles and blocks of all kernels, by symbol."""
        return {name: size for kernel in self.kernels for name, size in kernel.tiles.items()}

    @property
    def time_s(self) -> float:
        """The predicted seconds of the kernels one after the other, with `gap_s` between two."""
        return sum(k.time_s for k in self.kernels) + self.gap_s * (len(self.kernels) - 1)

    @property
    def gap_s(self) -> float:
        """Seconds from the end of a kernel to the start of the next."""
        return LAUNCH_S if self.chip is None else self.chip.kernel_gap_s

    @property
    def dependent(self) -> tuple[int, ...]:
        """The numbers of the kernels that begin while those before them end: none without a module, or where the chip
        has no such launches."""
        has_them = self.module is not None and self.chip is not None and self.chip.dependent_launch_s > 0
        return tuple(place + 1 for place in self.written().dependent_places) if has_them else ()

    @property
    def flops(self) -> int:
        """FLOPs of products, of all kernels."""
        return sum(k.flops for k in self.kernels)

    @property
    def hbm_bytes(self) -> int:
        """Bytes that cross the edge to HBM, of all kernels."""
        return sum(k.hbm_bytes for k in self.kernels)

    @property
    def bytes_moved(self) -> int:
        """Bytes that cross the edge to shared memory, of all kernels."""
        return sum(k.bytes_moved for k in self.kernels)

    @property
    def buffer_bytes(self) -> int:
        """The bytes that a call allocates beside its results: one arena, in which arrays that pass from kernel to
        kernel share bytes where they are not live at the same time. Raises what `written` raises."""
        return self.written().buffer_bytes(self.sizes)

    @cached_property
    def lower_bound(self) -> ProgramBound | None:
        """The bytes and FLOPs that the best equal program known needs at least; None where it cannot be counted."""
        from catdiag.planner.program_bound import program_bound

        if self.chip is None:
            return None
        needed = given_sizes(self.source)
        sizes = {name: size for name, size in self.sizes.items() if name in needed}
        try:
            return program_bound(self.source, self.chip, sizes, self.dtypes, (self.hbm_bytes, self.flops))
        except CatdiagError:
            return None

    @property
    def backend(self) -> str:
        """Of what its kernels are: "triton" where they are those of the module that is written, else "ideal"."""
        return IDEAL if self.module is None else TRITON

    def __getattr__(self, name: str) -> Any:
        """What the kernel of a plan of one kernel has."""
        if name.startswith("_") or name not in _OF_A_KERNEL:
            raise AttributeError(f"a plan has no attribute {name!r}")
        return getattr(one_kernel(self, name), name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(_OF_A_KERNEL if len(self.kernels) == 1 else ())})

    def written(self) -> Module:
        """The Triton module of the plan, which says what it takes.

        Raises CatdiagError where the plan is of the ideal model, with the reason.

        >>> import catdiag as cd
        >>> total = cd.algorithm("q x -> q")(lambda a: cd.sum(a, "x")).stream("x").group("q")
        >>> total.plan("H100", {"q": 4096, "x": 4096}).written().text.count("@triton.jit") > 0
        True
        """
        if self.module is None:
            raise CatdiagError(
                f"the plan is of the ideal model, and no module of Triton is like it: {self.reason}; "
                "plan(…, backend='triton') makes one, where there is one"
            )
        return self.module

    def code(self, language: Literal["triton", "numpy", "pseudocode"] = "triton") -> str:
        """The kernels as text in a `language`: "triton", one self-contained module with the tiles, stages and warps;
        "numpy", a function of plain NumPy; "pseudocode", the loops as formulas.

        Neither torch nor triton is needed. Raises CatdiagError for a Triton module of a plan of the ideal model, with
        the reason.

        >>> import catdiag as cd
        >>> total = cd.algorithm("q x -> q")(lambda a: cd.sum(a, "x")).stream("x").group("q")
        >>> "@triton.jit" in total.plan("H100", {"q": 4096, "x": 4096}).code("triton")
        True
        """
        if language == "triton":
            return self.written().text
        if language == "numpy":
            from catdiag.codegen.numpy_source import source

            return source(self.diagram)
        require(language == "pseudocode", "the language", language, "'triton', 'numpy' or 'pseudocode'")
        from catdiag.codegen.pseudocode import pseudocode

        return pseudocode(self.diagram)

    def compile(
        self,
        *,
        graph: bool | None = None,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        strict: bool = False,
        dependent_launch: bool = True,
    ) -> CompiledKernel:
        """The kernels as one function of torch tensors, registered with torch (see `catdiag.runtime.compile`).

        It is that of `code("triton")`; `catdiag.measure.tune.tuned_plan` gives the plan of the quickest of a few. With
        `graph`, calls replay a CUDA graph of the launches (`catdiag.runtime.cuda_graph`); None, the default, means
        where `launches_dominate`. `functions` gives for uninterpreted boxes, by name, functions of tensors on the
        kernels' device; an imported program has its own. The same plan gives the same function. Autograd differentiates
        it by kernels too: where an input requires a gradient, the forward and the backward pass of the gradient are
        planned and compiled (`catdiag.planner.training_plans`), at the first such call. Sizes that no input shows, as
        heads of `(h d)`, are the plan's. A kernel that is planned with warp specialization runs in its plain form on
        tensors of which the copy engine cannot read blocks (by their strides and alignment), on other chips, and with
        another Triton than 3.6: a RuntimeWarning says so once. With `strict` that is a RuntimeError, and so is here a
        CatdiagError a kernel with a `plain_form_reason`. Without `dependent_launch` no kernel begins before the one
        before it has ended. Raises what `code` does, and CatdiagError where a function is missing, a graph is asked
        for of one, and where torch or triton is not installed.

            kernel = attention.plan("H100", sizes).compile()
            kernel(Q, K, V)
        """
        if strict:
            self._refuse_plain_forms()
        called = self.written().functions
        known = {**self.functions, **(functions or {})}
        for name in called:
            if name not in known:
                raise CatdiagError(
                    f"the box {name!r} has no function: expected one of tensors, as in "
                    f"plan.compile(functions={{{name!r}: torch.sin}})"
                )
        if graph and called:
            raise CatdiagError(f"a CUDA graph cannot call {called[0]!r}, a function of yours: expected graph=False")
        wanted = self.launches_dominate if graph is None else graph
        key = (wanted, strict, dependent_launch, *(id(known[name]) for name in called))
        if key not in self._compiled:
            from catdiag.runtime.compile import compiled

            given = {name: known[name] for name in called}
            gradient = None if self.gradient is None else partial(self.gradient, self)
            made = compiled(self.written(), self.diagram, self.source, graph=wanted, functions=given, gradient=gradient)
            changed = {"strict": True} if strict and self.written().specialized else {}
            changed |= {"dependent_launch": False} if not dependent_launch and self.written().dependents else {}
            made = replace(made, options={**made.options, **changed}) if changed else made
            self._compiled[key] = made.at(sizes=self.sizes)
        return self._compiled[key]

    def _refuse_plain_forms(self) -> None:
        """Raises CatdiagError for a kernel that has no warp-specialized form where one was expected."""
        for number, kernel in enumerate(self.kernels, 1):
            if kernel.plain_form_reason:
                raise CatdiagError(
                    f"kernel {number} ({arrays_of(kernel)}) is planned in its plain form, because "
                    f"{kernel.plain_form_reason}: expected warp specialization, by strict=True"
                )

    @property
    def launches_dominate(self) -> bool:
        """Whether to launch its several kernels is predicted to take the host half as long as they run, or more, and no
        function of the user's is called between them, which a graph cannot do."""
        count = 0 if self._calls_functions else len(self.kernels)
        return count > 1 and 2 * HOST_LAUNCH_S * count >= self.time_s

    @property
    def _calls_functions(self) -> bool:
        return any(kernel.backend == FUNCTION for kernel in self.kernels)

    def made_of(self, compiled: CompiledKernel) -> Plan:
        """This plan, whose `compile` gives `compiled`: one that was measured, or that a test put in its place.

        Nothing compares the two.

            plan = plan.made_of(tuned)
            plan.compile()(Q, K, V)
        """
        self._compiled.update(dict.fromkeys(product((False, True), repeat=3), compiled))
        return self

    @cached_property
    def _compiled(self) -> dict[tuple[int, ...], CompiledKernel]:
        """The functions, once they were asked for: by whether there is a CUDA graph, by `strict`, by
        `dependent_launch`, and by functions."""
        return {}

    def explanation(self) -> tuple[str, ...]:
        """Of each alternative what it would take, or why it does not fit.

        >>> import catdiag as cd
        >>> total = cd.algorithm("q x -> q")(lambda a: cd.sum(a, "x")).stream("x").group("q")
        >>> total.plan("H100", {"q": 4096, "x": 4096}).explanation()
        ()
        """
        return tuple(f"{r.name}: {r.against(self.time_s, self.flops, self.bytes_moved)}" for r in self.alternatives)

    def __str__(self) -> str:
        instead = [f"{'instead of' if not k else '':10} {words}" for k, words in enumerate(self.explanation())]
        if len(self.kernels) == 1:
            (kernel,) = self.kernels
            derived = [f"derived    {kernel.loops}: {arrays_of(kernel)}"] if kernel.loops else []
            rest = (*self._rounding(), *self._against_bound(), *self._assumed(), *instead)
            return "\n".join([str(kernel), *derived, *rest])
        lines = [
            f"{plural(len(self.kernels), 'kernel')} on {self.hardware}, {self.dtype}, "
            f"{', '.join(f'{n}={s}' for n, s in self.sizes.items())}: {1e6 * self.time_s:,.1f} µs predicted"
            + (", and what functions take beside reading and writing" if self._calls_functions else "")
        ]
        lines += [*kernel_table(self.kernels), *configurations(self.kernels)]
        if self.module is not None:
            lines.append(f"memory     {self.buffer_bytes:,} bytes for what passes from kernel to kernel, at its peak")
            lines += launch_lines(self.dependent, self.chip, self.launches_dominate)
        lines.append(
            f"traffic    {self.bytes_moved:,} bytes at the edge to shared memory, {self.hbm_bytes:,} at that to HBM; "
            f"{self.flops:,} FLOPs of products"
        )
        rest = (*self._rounding(), *self._against_bound(), *self._assumed(), *self._not_proved(), *instead)
        return "\n".join([*lines, *rest])

    def _rounding(self) -> list[str]:
        """The lines that say what the steps do to rounding."""
        return [f"{'rounding' if not k else '':10} {said}" for k, said in enumerate(self.rounding)]

    @property
    def rounding(self) -> tuple[str, ...]:
        """What the steps of the derivation change in floating point, since theorems are about real numbers."""
        return tuple(f"{step.name}: {step.note}" for step in self.derivation.steps if step.note)

    def _assumed(self) -> list[str]:
        """The lines that say what is assumed."""
        return [f"{'assumed' if not k else '':10} {said}" for k, said in enumerate(self.assumptions)]

    def _not_proved(self) -> list[str]:
        """The lines that say what is not proved."""
        if not self.unproved:
            return []
        return [*(f"not proved {said}" for said in self.unproved), "           there is no theorem about the whole"]

    def _against_bound(self) -> list[str]:
        """The line that says what the best equal program known needs at least."""
        least = self.lower_bound
        if least is None or not least.seconds:
            return []
        return [f"at least   {least}; the plan takes {self.time_s / least.seconds:,.1f} times that"]

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What is assumed of code that the theorem is not about: of each product that torch computes, which it is; of
        each uninterpreted box, that it is a function."""
        from catdiag.planner.function_calls import function_assumption
        from catdiag.planner.library_products import assumption

        words = {TORCH: assumption, FUNCTION: function_assumption}
        return tuple(words[k.backend](k, n) for n, k in enumerate(self.kernels, 1) if k.backend in CALLED)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON.

        >>> import catdiag as cd
        >>> total = cd.algorithm("q x -> q")(lambda a: cd.sum(a, "x")).stream("x").group("q")
        >>> total.plan("H100", {"q": 4096, "x": 4096}).as_dict()["backend"]
        'triton'
        """
        return {
            "time_s": self.time_s,
            "launch_s": self.gap_s,
            "dependent": list(self.dependent),
            "backend": self.backend,
            "reason": self.reason,
            "not_proved": list(self.unproved),
            "assumptions": list(self.assumptions),
            "rounding": list(self.rounding),
            "lower_bound": None if self.lower_bound is None else self.lower_bound.as_dict(),
            "tiles": self.tiles,
            "saved": [{"array": name, "bytes": size} for name, size in self.saved],
            "buffer_bytes": None if self.module is None else self.buffer_bytes,
            "kernels": [
                {
                    "schedule": k.loops,
                    "reads": list(k.reads),
                    "makes": [{"array": name, "bytes": size} for name, size in k.makes],
                    "plan": k.as_dict(),
                }
                for k in self.kernels
            ],
            "rivals": [
                {
                    "kernels": r.kernels,
                    "saved": list(r.saved),
                    "time_s": r.time_s,
                    "does_not_fit": r.misfit or None,
                }
                for r in self.alternatives
            ],
        }


_OF_A_KERNEL = frozenset({*(f.name for f in fields(KernelPlan)), "warps", "kernel", "registers", "table"})
"""What the plan of one kernel has of its kernel."""


def one_kernel(plan: Plan | KernelPlan, what: str = "what is asked for") -> KernelPlan:
    """The plan of the one kernel of a plan. Raises OfOneKernel, naming the kernels, for a plan of several.

    >>> import catdiag as cd
    >>> total = cd.algorithm("q x -> q", name="total")(lambda a: cd.sum(a, "x")).stream("x").group("q")
    >>> plan = total.plan("H100", {"q": 4096, "x": 4096})
    >>> one_kernel(plan) is plan.kernels[0]
    True
    """
    if isinstance(plan, KernelPlan):
        return plan
    if len(plan.kernels) == 1:
        return plan.kernels[0]
    listed = "; ".join(
        f"plan.kernels[{k}] ({kernel.loops}: {arrays_of(kernel)})" for k, kernel in enumerate(plan.kernels)
    )
    raise OfOneKernel(f"the plan is of {len(plan.kernels)} kernels, and {what} is of one: expected one of {listed}")


def continued(begun: Derivation, plan: Plan) -> Plan:
    """The plan of a derivation's diagram as one of what it was derived from: its steps first, and its theorem proved
    again.

    >>> import catdiag as cd
    >>> plain = cd.algorithm("a b, b c -> a c", name="plain")(lambda A, B: cd.sum(A * B, "b"))
    >>> found = plain.distribute("b").plan("H200", {"a": 512, "b": 512, "c": 512})
    >>> [step.name for step in found.derivation.steps], found.source.title
    (['distribute b', 'group a c'], 'plain')

    Raises NotFusable where that is not proved.
    """
    from catdiag.planner.kernel_drafts import proved

    if not begun.steps:
        return plan
    if plan.unproved:
        return replace(plan, written_source=begun.source)
    last = plan.derivation
    theorem = proved(begun.ask, begun.source, last.diagram, True)
    if theorem is None:
        raise NotFusable(f"the kernels were not proved to mean {begun.source.title or 'what they were derived from'}")
    steps = (*begun.steps, *last.steps[:-1], replace(last.steps[-1], theorem=theorem))
    return replace(plan, derivation=replace(last, source=begun.source, steps=steps))
