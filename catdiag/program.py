"""Programs: what users write, rewrite, cost, plan and run. Each method is one call into a room below.

A program is a derivation: the diagram that was written (`source`), the diagram that it is now (`diagram`), the steps
between them and the theorem that both mean the same. One that was just written has no steps.

>>> import catdiag as cd
>>> total = cd.algorithm("q x -> q", name="total")(lambda a: cd.sum(a, "x"))
>>> half = cd.algorithm("q -> q", name="half")(lambda a: a / 2)
>>> fast = total.stream("x").group("q") >> half
>>> print(fast.source)
[q x] → [q]
>>> [step.name for step in fast.steps], fast.theorem.conditional
(['total: stream x', 'total: group q', 'compose'], False)
>>> fast.diagram == (total.stream("x").group("q") >> half).diagram, fast == total >> half
(True, False)

Rooms below know diagrams and derivations, and never this class.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Literal, overload

from catdiag.category.diagram import Diagram, Graph, diagram_of
from catdiag.category.ops import Box
from catdiag.category.types import Axis, Ty
from catdiag.util.display import AsProgram
from catdiag.util.errors import NotDifferentiable, TypeMismatch, require

if TYPE_CHECKING:
    from catdiag.bounds.lower_bound import LowerBound
    from catdiag.chip.hardware import Hardware
    from catdiag.chip.hierarchy import Hierarchy
    from catdiag.cost.level_formulas import LevelsIO
    from catdiag.cost.sharding import Sharding
    from catdiag.cost.traffic import IO
    from catdiag.importers.example import Example
    from catdiag.planner.multi_kernel_plan import Plan
    from catdiag.prover.api import Theorem
    from catdiag.rewrite.claims import Verdict
    from catdiag.rewrite.derivation import Derivation, Step
    from catdiag.rewrite.differentiate.corners_of_programs import Differentiability
    from catdiag.rewrite.differentiate.forward_and_backward import ForwardAndBackward
    from catdiag.rewrite.differentiate.gradient import Derivative, Inputs, Outputs
    from catdiag.rewrite.matching.rule import Rule
    from catdiag.rewrite.skip import Guide
    from catdiag.rewrite.stability import Stability
    from catdiag.rewrite.stream.user_fold import Fold
    from catdiag.solvers.z3 import Z3


class Program(AsProgram):
    """An array program: what was written, what it is now, and the theorem that both mean the same.

    Made by `@cd.algorithm`, `cd.box`, `cd.id`, `cd.swap`, `cd.copy`, `cd.discard` and `cd.library`, or of a diagram or
    a derivation. `f >> g` is g after f, `f @ g` both beside each other; `==` compares the diagrams as they are now, up
    to the laws of the category (equality of meaning is `cd.prove`). With `ask`, a solver that many programs share.
    `example` is the example that a program was imported with (`cd.from_torch`), None for others.

    >>> import catdiag as cd
    >>> total = cd.algorithm("q x -> q", name="total")(lambda a: cd.sum(a, "x"))
    >>> total.stream("x").run([[1, 2, 3]], tiles={"s_x": 2})
    array([6.])
    """

    def __init__(
        self, subject: Diagram | Derivation | Program, ask: Z3 | None = None, example: Example | None = None
    ) -> None:
        found = getattr(subject, "derivation", subject) if isinstance(subject, Program) else subject
        self._diagram = diagram_of(found, "what a program is made of")
        if not isinstance(found, Diagram):
            self.__dict__["derivation"] = found
        self._ask = ask
        self.example = example

    # -- what it is ------------------------------------------------------------------------------

    @cached_property
    def derivation(self) -> Derivation:
        """The record of source, diagram and steps."""
        from catdiag.rewrite.derivation import Derivation

        return Derivation.start(self._diagram, self._ask)

    @property
    def diagram(self) -> Diagram:
        """The diagram as it is now."""
        return self._diagram

    @property
    def source(self) -> Program:
        """The program that was written, of no steps. `code("algorithm")` is its text as an `@cd.algorithm`."""
        return Program(self._source, self.derivation.ask) if self.steps else self

    @property
    def _source(self) -> Diagram:
        return self.derivation.source if "derivation" in self.__dict__ else self._diagram

    @property
    def dom(self) -> Ty:
        """The object that it takes."""
        return self._diagram.dom

    @property
    def cod(self) -> Ty:
        """The object that it gives."""
        return self._diagram.cod

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return self._source.input_names

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of the inputs, as a diagram calls them."""
        return self._diagram.input_names

    @property
    def graph(self) -> Graph:
        """The flat form of the diagram as it is now: boxes and wires."""
        return self._diagram.graph

    @property
    def boxes(self) -> tuple[Box, ...]:
        """The boxes of the diagram as it is now, in stored order."""
        return self._diagram.boxes

    @property
    def title(self) -> str:
        """What it is called: what was written, and what was done with it."""
        return self._diagram.title

    @property
    def steps(self) -> tuple[Step, ...]:
        """The rewrites from the source to the diagram."""
        return self.derivation.steps if "derivation" in self.__dict__ else ()

    @property
    def theorem(self) -> Theorem:
        """The theorem that the source and the diagram mean the same, for all sizes, blocks and tiles."""
        return self.derivation.theorem

    def __len__(self) -> int:
        """How many boxes there are."""
        return len(self._diagram)

    def __bool__(self) -> bool:
        """True: a program without boxes is one too."""
        return True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Program, Diagram)):
            return NotImplemented
        return self._diagram == (other._diagram if isinstance(other, Program) else other)

    def __hash__(self) -> int:
        return hash(self._diagram)

    def __reduce__(self) -> tuple[Any, ...]:
        """What travels of a program is its record; certificates are checked again where they arrive."""
        return Program, (self.derivation if self.steps else self._diagram,)

    def __repr__(self) -> str:
        return f"<program {self._diagram}>" if self.steps else f"Program({self._diagram!r})"

    def __str__(self) -> str:
        if not self.steps:
            return str(self._diagram)
        return "\n".join([str(self.derivation), *("  " + line for line in self.code("formulas").splitlines())])

    # -- composition -----------------------------------------------------------------------------

    def __rshift__(self, other: Program | Diagram) -> Program:
        """First this, then the other. Raises TypeMismatch, naming both types and the wire; Undecided where parts were
        derived and it is not proved that what was derived composes."""
        if not isinstance(other, (Program, Diagram)):
            return NotImplemented
        if not self.steps and not _steps(other):
            return Program(self._diagram >> _diagram(other), self._ask)
        from catdiag.rewrite.compose import then

        return Program(then(self.derivation, Program(other).derivation))

    def __rrshift__(self, other: Diagram) -> Program:
        return Program(other) >> self if isinstance(other, Diagram) else NotImplemented

    def __matmul__(self, other: Program | Diagram) -> Program:
        """This beside the other. Raises Undecided as `>>` does."""
        if not isinstance(other, (Program, Diagram)):
            return NotImplemented
        if not self.steps and not _steps(other):
            return Program(self._diagram @ _diagram(other), self._ask)
        from catdiag.rewrite.compose import beside

        return Program(beside(self.derivation, Program(other).derivation))

    def __rmatmul__(self, other: Diagram) -> Program:
        return Program(other) @ self if isinstance(other, Diagram) else NotImplemented

    def weave(self, axis: Axis | str, inputs: Sequence[int | str] | str | None = None) -> Program:
        """The program mapped over one more axis, put in front on all outputs and the given inputs (all, if None).

        Raises AxisError if a wire has an axis of that name already, or no input of that name or position exists.

        >>> import catdiag as cd
        >>> dot = cd.algorithm("x, x ->")(lambda A, B: cd.sum(A * B, "x"))
        >>> print(dot.weave("q", "A"))
        lambda: [q x] @ [x] → [q]
        """
        from catdiag.rewrite.compose import weave

        return self._with(weave(self.derivation, Axis(axis) if isinstance(axis, str) else axis, inputs))

    def _with(self, derivation: Derivation) -> Program:
        return self if derivation is self.derivation else Program(derivation, example=self.example)

    # -- rewrites --------------------------------------------------------------------------------

    def stream(self, axis: str, by: Fold | None = None, passes: int = 1) -> Program:
        """With `axis` run through a loop over blocks of any size, keeping a state that is found here, or given.

        Where one loop does not do, up to `passes` of them follow each other, as few as will do, each with the results
        of those before it; results that keep the axis are then made by the last pass, tile by tile (`g_x`).

        `by` is a `cd.Fold(unit, element, merge, finish, state=…)`, which is proved or refuted. Raises NotStreamable,
        naming the reduction and the reason, where no state is found or proved; AxisError for an unknown axis; and for
        a fold that is given Refuted, with a list and its split into blocks, or Undecided, with the goal.

        >>> import catdiag as cd
        >>> dot = cd.algorithm("x, x ->")(lambda A, B: cd.sum(A * B, "x"))
        >>> print(dot.stream("x").steps[0].formula.components[0].name)
        sum1
        """
        from catdiag.rewrite.stream.streaming import stream

        return self._with(stream(self.derivation, axis, by, passes))

    def split(self, axis: str, parts: str | None = None) -> Program:
        """With the loop over `axis` in several parts at once, each with a state of its own, which are merged in order.

        `parts` is the symbol for how many there are (`p_` and the axis, if left out), for `run(…, tiles={"p_x": 4})`.
        Streams the axis first if it is not. Raises NotStreamable as `stream` does, SignatureError for a symbol that is
        no name, AxisError for one that is a size already.

        >>> import catdiag as cd
        >>> dot = cd.algorithm("x, x ->")(lambda A, B: cd.sum(A * B, "x"))
        >>> dot.stream("x").split("x").run([1, 2, 3], [4, 5, 6], tiles={"p_x": 2})
        array(32.)
        """
        from catdiag.rewrite.stream.streaming import split

        return self._with(split(self.derivation, axis, parts))

    def group(self, axes: str | Sequence[str], scatter: bool = False) -> Program:
        """With the named axes run in groups: tiles of any size, each on its own; several axes make one group.

        With `scatter`, groups add rows to a result where an array of integers says, by atomic additions.

        Raises NotGroupable, naming the box, where the diagram is not weaved over an axis; AxisError for an unknown one.

        >>> import catdiag as cd
        >>> double = cd.algorithm("q x")(lambda A: A + A)
        >>> double.group("q x").theorem.conditional
        False
        """
        from catdiag.rewrite.group import group

        return self._with(group(self.derivation, axes, scatter))

    def skip(
        self, axis: str, bounds: Guide | None = None, live: Guide | None = None, *, tested: bool = True
    ) -> Program:
        """With the blocks of a streamed axis that a mask empties left out of its loop, for all block sizes.

        The loop runs from the first to the last block that some row needs, as the mask's comparisons of positions
        along the axis say; where they do not say all, a block is also passed over where its mask is false everywhere
        (a loop that tests blocks loads none ahead), unless `tested=False`.
        `bounds` and `live` say it instead, and are proved or refuted: see `catdiag.rewrite.skip.skip`.

        Raises NotStreamable where a state takes elements of every block, naming it, or where leaving them out was not
        proved; AxisError where no loop runs over the axis; Refuted; SignatureError and TypeMismatch for functions that
        do not fit the loop.

        >>> import catdiag as cd
        >>> total = cd.algorithm("q, x -> q")(
        ...     lambda n, a: cd.sum(cd.where(cd.index("x") <= cd.index("q"), a, 0), "x") + n)
        >>> total.stream("x").skip("x").theorem.conditional
        False
        >>> total.stream("x").skip("x", bounds=lambda: (0, cd.index("q")))
        Traceback (most recent call last):
        ...
        catdiag.prover.outcomes.Refuted: skipping blocks of 'x' changes lambda
        ...
        """
        from catdiag.rewrite.skip import skip

        return self._with(skip(self.derivation, axis, bounds, live, tested=tested))

    def distribute(self, axes: str | Sequence[str] | None = None) -> Program:
        """With products distributed over sums along the named axes: `Σ (a - b)²` as `Σ a² + Σ b² - 2·Σ a·b`, whose
        terms are sums over one array, and products of matrices. With no axes, all sums that are smaller so.

        In floating point the terms cancel: see `catdiag.rewrite.distribute.distribute`. Before `stream` and `group`.
        Raises NotDistributable, naming axis and box, where nothing is distributed or it is not proved; AxisError for an
        unknown axis.

        >>> import catdiag as cd
        >>> squares = cd.algorithm("q d, x d -> q x")(lambda a, b: cd.sum((a - b) ** 2, "d"))
        >>> near = squares.distribute("d")
        >>> [box.name for box in near.diagram.boxes if box.name in ("sum[d]", "einsum")], near.theorem.conditional
        (['sum[d]', 'sum[d]', 'einsum'], False)
        """
        from catdiag.rewrite.distribute import distribute

        return self._with(distribute(self.derivation, axes))

    def reassociate(self, sizes: Mapping[str, int]) -> Program:
        """With products of several arrays in the order that multiplies least at these sizes: (QKᵀ)V as Q(KᵀV) where
        there are more keys than features. Itself where no order saves a tenth. The theorem holds for all sizes.

        `plan` does it by itself where that is predicted to be quicker. Before `stream` and `group`. Raises SizeError
        for a size that is missing, CatdiagError where the equation is not proved: see
        `catdiag.rewrite.contraction_order`.

        >>> import catdiag as cd
        >>> two = cd.algorithm("a b, b c, c d -> a d")(
        ...     lambda A, B, C: cd.einsum("a c, c d -> a d", cd.einsum("a b, b c -> a c", A, B), C))
        >>> [str(box.cod) for box in two.reassociate({"a": 99, "b": 9, "c": 99, "d": 9}).diagram.boxes]
        ['[d b]', '[a d]']
        """
        from catdiag.rewrite.contraction_order import reassociate

        return self._with(reassociate(self.derivation, sizes))

    def fuse(self, on_chip: str | Sequence[str] | None = None, *, saved: str | Sequence[str] = ()) -> Program:
        """With the boxes put into kernels so that intermediate arrays stay on chip: all that can, or just those named.

        Those in `saved` go through slow memory, as do those that are not named in `on_chip` where it is given. Arrays
        are called as `io()` calls them, "exp [q x]", or by the variable that a line of the source gives the value to;
        several names are a list, or a text with commas. To be called last. Raises NotFusable for a name that is none,
        and where what was asked for cannot be.

        >>> import catdiag as cd
        >>> f = cd.algorithm("q x", name="f")(lambda A: cd.exp(A) * A)
        >>> f.io().transfers, f.fuse(saved="exp [q x]").io().transfers
        (2*q*x, 5*q*x)
        """
        from catdiag.rewrite.fuse import fuse

        return self._with(fuse(self.derivation, on_chip, saved=saved))

    def stabilize(self, limit: float | None = None) -> Program:
        """With a maximum subtracted in the exponentials that the source runs without one, streamed and grouped as it
        was; itself where the argument of every exponential is proved to be at most 0. `limit` is the time in seconds
        for each exponential. Raises NotStabilizable with the reason, where the maximum does not cancel, or it was not
        proved that it does.

        >>> import catdiag as cd
        >>> E = lambda S: cd.exp(S) / cd.sum(cd.exp(S), "x")
        >>> plain = cd.algorithm("x, x ->")(lambda S, V: cd.sum(E(S) * V, "x"))
        >>> [c.name for c in plain.stream("x").steps[-1].formula.components]
        ['sum1', 'sum2']
        >>> [c.name for c in plain.stabilize().stream("x").steps[-1].formula.components]
        ['max1', 'sum2', 'sum3']
        """
        from catdiag.rewrite.stabilize import stabilize

        return self._with(stabilize(self.derivation, limit))

    def apply(self, rule: Rule, **options: Any) -> Program:
        """With a rule's right side in the place of one match, or of all: the options are those of `Rule.apply`.

        >>> import catdiag as cd
        >>> twice = cd.rule(cd.algorithm("")(lambda a: a + a), cd.algorithm("")(lambda a: 2 * a), name="twice")
        >>> f = cd.algorithm("q x")(lambda A: cd.exp(A + A)).apply(twice)
        >>> [box.name for box in f.diagram.boxes], f.steps[0].name
        (['2', 'mul', 'exp'], 'rule twice')
        """
        return self._with(rule.apply(self.derivation, **options))

    # -- derivatives -----------------------------------------------------------------------------

    def _to_differentiate(self) -> Diagram:
        """What was written. Raises NotDifferentiable where gradients stop in PyTorch, which a program does not say."""
        if self.example is not None and self.example.gradient_stops:
            stops = ", ".join(self.example.gradient_stops)
            raise NotDifferentiable(
                f"gradients stop at {stops} in {self.title or 'the module'}, and a program has no such operation: "
                "expected the parts before and after it, each imported by itself"
            )
        return self._source

    def grad(self, of: Outputs = None, wrt: Inputs = None) -> Program:
        """The reverse derivative of what was written: from the inputs, and a cotangent `dO` for each result O, the
        cotangents of the inputs in `wrt`, in that order.

        With `L` a scalar function of the results and `dO` its derivative by O, the results are its derivatives by the
        inputs. `wrt` are names or numbers of inputs, `"Q K"` or `[0, 1]`; all that hold real numbers, by default. `of`
        names the results, `"O"`, or picks some by number, `0` or `{"O": 0}`; without it, the cotangents are called
        `dout`, or `dout0`, `dout1`, … Shapes are those of inputs and results. It is a program like any other: it is
        proved, streamed, grouped, planned and differentiated again.

        A maximum on which the results provably do not depend, such as that of a softmax, has no cotangent (see
        `catdiag.rewrite.differentiate.redundant_maxima`). Of another one, the elements that attain it share evenly;
        `catdiag.rewrite.differentiate.scalar_derivatives` states what holds at corners and jumps of functions.

        Raises NotDifferentiable for inputs and results of integers or truth values, naming the box and its line;
        SignatureError for names and numbers that are none.

        >>> import catdiag as cd
        >>> mse = cd.algorithm("x, x ->")(lambda A, B: cd.mean((A - B) ** 2, "x"))
        >>> back = mse.grad(of="L", wrt="A")
        >>> back.names, back.run([1, 2], [3, 6], 1).tolist()
        (('A', 'B', 'dL'), [-2.0, -4.0])
        """
        from catdiag.rewrite.differentiate.gradient import gradient

        return self._derivative(gradient(self._to_differentiate(), self.derivation.ask, of, wrt))

    def value_and_grad(self, wrt: Inputs = None) -> Program:
        """The result, which is one number, and its derivatives by the inputs in `wrt` (all that hold real numbers).

        Raises NotDifferentiable for a result that is an array; and as `grad` does.

        >>> import catdiag as cd
        >>> loss = cd.algorithm("x ->")(lambda A: cd.sum(A * A, "x"))
        >>> value, gradient = loss.value_and_grad().run([1, 2])
        >>> float(value), gradient.tolist()
        (5.0, [2.0, 4.0])
        """
        from catdiag.rewrite.differentiate.gradient import value_and_gradient

        return self._derivative(value_and_gradient(self._to_differentiate(), self.derivation.ask, wrt))

    def forward_and_backward(self, of: Outputs = None, wrt: Inputs = None) -> ForwardAndBackward:
        """The forward pass of what was written, which saves statistics, and the backward pass of `grad(of, wrt)`, which
        reads them: two bare diagrams, with the theorem that they are the program and its gradient together.

        What is saved is found (`catdiag.rewrite.differentiate.forward_and_backward`). Raises as `grad` does, and
        NotProved where the two are not proved.

        >>> import catdiag as cd
        >>> both = cd.library.attention.forward_and_backward()
        >>> [str(ty) for ty in both.forward.cod], both.backward.names
        (['[q d]', '[q]'], ('Q', 'K', 'V', 'saved0', 'saved1', 'dout'))
        """
        from catdiag.rewrite.differentiate.forward_and_backward import forward_and_backward

        return forward_and_backward(self._to_differentiate(), self.derivation.ask, of, wrt)

    def jvp(self, wrt: Inputs = None) -> Program:
        """The forward derivative (Jacobian-vector product): from the inputs, and a tangent `dA` for each input A in
        `wrt`, the tangents of the results.

        Raises NotDifferentiable and SignatureError as `grad` does.

        >>> import catdiag as cd
        >>> f = cd.algorithm("x, x ->")(lambda A, B: cd.sum(A * B, "x"))
        >>> f.jvp("A").names, float(f.jvp("A").run([1, 2], [3, 4], [1, 10]))
        (('A', 'B', 'dA'), 43.0)
        """
        from catdiag.rewrite.differentiate.gradient import forward_derivative

        return self._derivative(forward_derivative(self._to_differentiate(), self.derivation.ask, wrt))

    def differentiability(self, of: Outputs = None, wrt: Inputs = None) -> Differentiability:
        """Where `grad(of, wrt)` is the derivative: the conditions at corners, jumps and ties, which the kernel computes
        as it computes where a program has a value, and the maxima of which is proved that they do not matter.

        >>> import catdiag as cd
        >>> print(cd.algorithm("x", name="f")(lambda a: cd.softmax(cd.maximum(a, 0), "x")).differentiability())
        the gradient of f is its derivative wherever f has a value and
          a[i] ≠ 0 for all i < x
        proved: no result depends on which number max[x] is
        """
        from catdiag.rewrite.differentiate.corners_of_programs import differentiability

        return differentiability(self._to_differentiate(), self.derivation.ask, of, wrt)

    def _derivative(self, found: Derivative) -> Program:
        # Of the example only sizes and functions are known: it has no tangents.
        example = None if self.example is None else replace(self.example, arrays=(), sources=(), notes=())
        return Program(found.diagram, self.derivation.ask, example)

    # -- answers ---------------------------------------------------------------------------------

    @overload
    def io(self, *, levels: None = None, **options: Any) -> IO: ...

    @overload
    def io(self, *, levels: Sequence[str] | Hierarchy, **options: Any) -> LevelsIO: ...

    def io(self, *, levels: Sequence[str] | Hierarchy | None = None, **options: Any) -> IO | LevelsIO:
        """Transfers and memory at two levels: values, or bytes with `dtype=`; `stages` buffers of streamed blocks.

        With `levels`, at every edge and level of a chain, slowest first. The options are those of
        `catdiag.cost.traffic.io`, and of `catdiag.cost.traffic_by_level.levels_io`; axes that `within` cuts at some
        level and that are not grouped are grouped first, with proof. Raises NotGroupable where they cannot be.

        >>> import catdiag as cd
        >>> row = cd.algorithm("q x")(lambda A: cd.sum(A, "x")).stream("x").group("q")
        >>> row.io(levels=("HBM", "SMEM", "registers")).memory["registers"]
        g2_q*s2_x + g2_q
        """
        if levels is None:
            from catdiag.cost.traffic import io

            return io(self._diagram, **options)
        from catdiag.cost.traffic_by_level import levels_io
        from catdiag.rewrite.group_by_level import group_levels

        within = options.pop("within", None)
        diagram, within = group_levels(self.derivation, levels, within) if within else (self._diagram, within)
        return levels_io(diagram, levels, within=within, **options)

    def lower_bound(self, capacity: Any = None, **options: Any) -> LowerBound:
        """What any schedule of the program's scalar operations moves at least, in values, between slow memory and one
        of `capacity` values, by default the symbol `M`; the options are those of `catdiag.bounds.lower_bound`.

        Groups and kernels do the operations of the diagram that was put in groups, which is what the bound is read off.

        >>> import catdiag as cd
        >>> product = cd.algorithm("i k, k j -> i j")(lambda A, B: cd.einsum("i k, k j -> i j", A, B))
        >>> product.lower_bound(100).at({"i": 1000, "j": 1000, "k": 1000}) >= 2 * 1000**3 / 10
        True
        """
        from catdiag.bounds.lower_bound import lower_bound

        return lower_bound(self.derivation.operations, capacity, **options)

    def stability(self, limit: float | None = None) -> Stability:
        """What is proved of each exponential that the program runs: that its argument is at most 0, on every state that
        is reached and every block. `limit` is the time in seconds for each of them.

        >>> import catdiag as cd
        >>> f = cd.algorithm("q x")(lambda S: cd.sum(cd.exp(S - cd.max(S, "x")), "x"))
        >>> print(f.stream("x").stability())
        step: exp(max1 - max1′) ≤ 1: proved
        step: exp(S - max1′) ≤ 1: proved
        merge: exp(max1 - max1″) ≤ 1: proved
        merge: exp(max1′ - max1″) ≤ 1: proved
        no exponential overflows: every argument is at most 0
        """
        from catdiag.prover.api import check_limit
        from catdiag.rewrite.advice import stability_of

        check_limit(limit)
        if limit not in self._stability:
            self._stability[limit] = stability_of(self.derivation, limit)
        return self._stability[limit]

    @cached_property
    def _stability(self) -> dict[float | None, Stability]:
        """What was found of exponentials, by the time that each was given."""
        return {}

    def claims(self, limit: float | None = None) -> dict[str, Verdict]:
        """All that is claimed of the loops beside the theorem, by name, with how each claim ended.

        Of each loop that its merge is associative, and commutative, on states that are reached; that empty lists,
        blocks of one and a shorter last block are like others; that divisors are positive; that exponentials do not
        overflow. `limit` is the time in seconds for each claim.

        >>> import catdiag as cd
        >>> for name, verdict in cd.algorithm("x ->")(lambda A: cd.sum(A, "x")).stream("x").claims().items():
        ...     print(f"{name}: {verdict.verdict}")
        merge gives the state of the whole: proved
        merge is associative: proved
        merge is commutative: proved
        an empty list changes nothing: proved
        blocks of one: proved
        a shorter last block: proved
        """
        from catdiag.rewrite.loop_laws import verdicts

        return verdicts(self._diagram, self.derivation.claims(limit))

    def advice(self) -> tuple[str, ...]:
        """What to do about exponentials that are not bounded, a line for each that the user wrote, the maxima and the
        casts that are in no derived loop, and what steps do in floating point.

        >>> import catdiag as cd
        >>> f = cd.algorithm("x ->")(lambda S: cd.log(cd.sum(cd.exp(S), "x"))).stream("x")
        >>> f.advice()[0].startswith("exp(S) is not bounded"), f.stabilize().advice()
        (True, ())
        """
        from catdiag.rewrite.advice import advice

        return advice(self.derivation, self.stability())

    def sharding(self, over: Mapping[str, int | str], **options: Any) -> Sharding:
        """The program on several devices: what each receives, holds and computes (`catdiag.cost.sharding`).

        `over` gives the number of devices, or its symbol, for each axis: one that is grouped, or one that is streamed.
        The options are `stored` and `dtype`.

        >>> import catdiag as cd
        >>> rows = cd.algorithm("a b, b -> a", name="rows")(lambda A, v: cd.sum(A * v, "b")).stream("b").group("a")
        >>> rows.sharding({"a": "P"}).received
        b*(P - 1)/P
        """
        from catdiag.cost.sharding import sharding

        return sharding(self._diagram, over, **options)

    def plan(self, hardware: Hardware | str, sizes: Mapping[str, int], **options: Any) -> Plan:
        """How it runs on `hardware` at these `sizes` in the least predicted time, with z3's proof that the tiles fit.

        A program in loops or groups is one kernel: its tiles, with the options of `catdiag.planner.fit.fit` (`dtype`,
        `stages`, fixed `tiles`, the `objective`, …). Any other is cut into kernels, each with its loops, groups and
        tiles, with the options of `catdiag.planner.partition.searching` (`dtype`, `stages`, `cuts` at most, `several`,
        `deterministic`); with `distribute=False` no squared distance becomes a matrix product, as it else does where
        rounding allows it, which the plan says. Raises DoesNotFit, with what each array takes, SizeError, and as these
        do.

        >>> import catdiag as cd
        >>> total = cd.algorithm("q x -> q", name="total")(lambda a: cd.sum(a, "x")).stream("x").group("q")
        >>> total.plan("H100", {"q": 4096, "x": 4096}).bytes_moved
        33562624
        """
        from catdiag.planner.partition import plan
        from catdiag.planner.training_plans import training_kernels

        found = plan(self.derivation, hardware, sizes, **options)
        known = self.example.functions if self.example is not None else {}
        stops = self.example is not None and self.example.gradient_stops
        return replace(found, functions=known, gradient=None if stops else training_kernels)

    # -- outputs ---------------------------------------------------------------------------------

    def run(
        self,
        *arrays: Any,
        tiles: Mapping[str, int] | None = None,
        sizes: Mapping[str, int] | None = None,
        tree: str | int | Random | None = None,
        functions: Mapping[str, Callable[..., Any]] | None = None,
    ) -> Any:
        """Runs the program on NumPy arrays, in the order of its inputs, really in blocks and tiles; one output comes
        back bare, several as a tuple.

        `tiles` gives their sizes by symbol, `{"s_x": 64, "g_q": 128}`, and the number of parts of a split loop,
        `{"p_x": 4}`; those left out are whole axes, and one part. `sizes` gives those that no input shows: an input
        over `(b g)` shows the product of two, and `sizes={"b": 2}` says which; of an imported program they are those of
        the example where the product is as there. With `tree`, the states of blocks are
        merged in a tree, `"balanced"` or random (a seed, or a `random.Random`): of any tree the theorem holds.
        `functions` are those that `cd.apply` and `cd.box` name, on NumPy arrays; an imported program has its own in
        `.example.functions`. Raises SizeError where shapes disagree with the types or with each other, and for unknown
        symbols or sizes below 1, TypeMismatch for a function that is not given, CatdiagError for another tree.

        >>> import catdiag as cd
        >>> f = cd.algorithm("x")(lambda a: cd.apply("double", a) + 1)
        >>> f.run([1, 2], functions={"double": lambda a: 2 * a}).tolist()
        [3.0, 5.0]
        """
        from catdiag.execute.interpreter import run
        from catdiag.execute.size_inference import sizes_as_in

        known = {**(self.example.functions if self.example is not None else {}), **(functions or {})}
        if self.example is not None and len(arrays) == len(self.dom) and all(hasattr(a, "shape") for a in arrays):
            shapes = [tuple(a.shape) for a in arrays]
            sizes = {**sizes_as_in(self.example.sizes, tuple(self.dom), shapes, sizes or {}), **(sizes or {})}
        return run(self._diagram, arrays, tiles, sizes=sizes, tree=tree, functions=known)

    def __call__(self, *arrays: Any) -> Any:
        """`run` with whole axes; inside an algorithm, one named box."""
        if self.names and not arrays:
            expected = f"expected {len(self.names)} ({', '.join(self.names)})"
            raise TypeMismatch(f"no arrays were given: {expected}. The text of the program is code('algorithm')")
        return self.run(*arrays)

    def code(
        self, language: Literal["algorithm", "numpy", "pseudocode", "formulas", "triton"] = "pseudocode", **options: Any
    ) -> str:
        """The program as text in a `language`, with its options: "pseudocode", its loops with what they load and save;
        "formulas", what the loops carry (of each state the unit, element, repair, step and merge, and the finish: see
        `catdiag.rewrite.loop_state.formulas`); "numpy", the source of a function of plain NumPy; "algorithm", the
        `@cd.algorithm` that it could have been written as (of what a derived program was derived from; see
        `catdiag.codegen.algorithm_source`); "triton", a module for GPUs, which needs `tiles`, and takes `dtype`,
        `stages` and `warps` (see `catdiag.codegen.triton.triton_module`), or what a plan writes: `program.plan(chip,
        sizes).code("triton")`.

        Raises SizeError for a tile that is missing, TypeMismatch for what has no form in a kernel.

        >>> import catdiag as cd
        >>> total = cd.algorithm("q x", name="total")(lambda A: cd.sum(A, "x"))
        >>> print(total.stream("x").group("q").code("pseudocode"))
        total.stream('x').group('q'): A[q x] → out[q]
        for each tile of q (g_q at a time), in parallel:
            start: sum1[q] = 0
            for each block of x (s_x at a time):
                load A[q x]
                sum1[q] = sum1 + Σ_x A
            save out[q] = sum1
        >>> "step     sum1 + Σ_x A" in total.stream("x").code("formulas")
        True
        """
        if language == "triton":
            from catdiag.codegen.triton.triton_module import module

            return module(self._diagram, **options).text
        if language == "numpy":
            from catdiag.codegen.numpy_source import source

            return source(self._diagram, **options)
        if language == "algorithm":
            from catdiag.codegen.algorithm_source import algorithm_source

            return algorithm_source(self._source)
        if language == "formulas":
            from catdiag.rewrite.loop_state import formulas

            return str(formulas(self._diagram, **options))
        expected = "'algorithm', 'numpy', 'pseudocode', 'formulas' or 'triton'"
        require(language == "pseudocode", "the language", language, expected)
        from catdiag.codegen.pseudocode import pseudocode

        return pseudocode(self._diagram, **options)

    def draw(
        self, format: Literal["svg", "tikz", "html"] = "svg", path: str | Path | None = None, **options: Any
    ) -> str:
        """The picture of the diagram in a `format`, SVG or LaTeX, or the derivation as one HTML page that needs nothing
        else; written to `path` too, where one is given.

        Of pictures, the options are `open`, which named diagrams are drawn as their insides; `levels` of memory,
        slowest first; `items`; `most`, how many boxes are drawn before they are put in named parts; `color`; `theme`,
        "auto", "light" or "dark"; `legend`; of LaTeX `standalone`, a document or only a picture (see
        `catdiag.draw.render`). The page has the steps, the theorem with its certificate to download, the state, the
        loops, H and M, the optimum and the lower bound; with a chip `on` and `sizes` the plan for `dtype` too, with
        `theorems` all that is claimed of the loops. The same program gives the same bytes, but for `times`, which says
        how long proofs took.

        Raises CatdiagError for a page of what nothing was derived of, SizeError for a chip without sizes, or sizes that
        are missing; OSError where the file cannot be written: it is written whole or not at all.

        >>> import catdiag as cd
        >>> total = cd.algorithm("q x", name="total")(lambda A: cd.sum(A, "x"))
        >>> total.draw("svg", theme="dark").count("<text")
        5
        >>> total.group("q").draw("html").startswith("<!DOCTYPE html>")
        True
        """
        from catdiag.util.files import write_whole

        named = path is None or (isinstance(path, (str, os.PathLike)) and str(path) != "")
        require(named, "path", path, f"the name of a file to write, such as 'program.{format}'")
        require(format in ("svg", "tikz", "html"), "the format", format, "'svg', 'tikz' or 'html'")
        if format == "html":
            from catdiag.draw.report.html_page import page_of

            written = page_of(self.derivation, **options)
        else:
            from catdiag.draw.render import svg_of, tikz_of

            written = (svg_of if format == "svg" else tikz_of)(self._diagram, **options)
        if path is not None:
            write_whole(path, written)
        return written

    def check(self) -> Theorem:
        """The theorem, checked again by the kernel from its certificate alone. Raises NotAProof where it is refused.

        >>> import catdiag as cd
        >>> cd.algorithm("x ->")(lambda A: cd.sum(A, "x")).stream("x").check().conditional
        False
        """
        from catdiag.prover.outcomes import checked_again

        theorem = self.theorem
        return checked_again(theorem.certificate, theorem.seconds, theorem.taken)

    def _repr_html_(self) -> str | None:
        """For notebooks: what was derived; where nothing was, they show the picture."""
        return self.derivation._repr_html_() if self.steps else None


def _diagram(subject: Program | Diagram) -> Diagram:
    return subject._diagram if isinstance(subject, Program) else subject


def _steps(subject: Program | Diagram) -> tuple[Step, ...]:
    return subject.steps if isinstance(subject, Program) else ()
