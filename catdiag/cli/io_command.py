"""`catdiag io`: the costs of an operator as it is, or streamed, grouped and cut into kernels as the options say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catdiag.cli.exit_status import UsageError
from catdiag.cli.operator_loading import operator
from catdiag.cli.option_values import check_stages, count_of, known_dtype
from catdiag.cli.standard_streams import working

if TYPE_CHECKING:
    from catdiag.category.diagram import Diagram
    from catdiag.cli.command_options import IoOptions
    from catdiag.cost.level_formulas import LevelsIO
    from catdiag.cost.traffic import IO
    from catdiag.rewrite.derivation import Derivation
    from catdiag.solvers.z3 import Z3


def run_io(options: IoOptions) -> None:
    """Runs `catdiag io`. With levels, or those of a chip, the operator is streamed and grouped as is best unless the
    options say how. Raises CatdiagError for what cannot be derived or counted.
    """
    from catdiag.cli.io_report import Costs, chain_of, placement_of
    from catdiag.cost.traffic import io
    from catdiag.cost.traffic_by_level import levels_io

    _check(options)
    chain = chain_of(options.levels, options.on)
    if chain is None and (options.place or options.wave is not None):
        given = "--place" if options.place else "--wave"
        raise UsageError(f"{given} is for several levels: give them, as in --levels HBM,SMEM,registers, or --on h100")
    element = "bf16" if options.dtype is None and options.on is not None else options.dtype
    if element is not None:
        known_dtype(element)
    diagram = operator(options.op)
    subject, bounded, steps = diagram, diagram, tuple[str, ...]()
    if _derived(options) or (chain is not None and not options.unfused):
        from catdiag.solvers.z3 import borrowed

        with borrowed() as ask, working("deriving"):
            derivation = _derivation(options, diagram, ask)
        subject, bounded = derivation.diagram, derivation.operations
        steps = tuple(step.name for step in derivation.steps)
    counted: IO | LevelsIO
    fused = not options.unfused
    if chain is None:
        counted = io(subject, dtype=element, stages=options.stages, fused=fused, density=options.density)
    else:
        places = placement_of(options.place)
        counted = levels_io(
            subject, chain, dtype=element, stages=options.stages, fused=fused, placement=places, wave=options.wave
        )
    print(Costs(diagram, bounded, steps, counted, element).text(options.latex, options.json))


def _check(options: IoOptions) -> None:
    """Raises UsageError for values that are out of range, and for options that do not go together."""
    check_stages(options.stages)
    if options.density is not None and not 0 <= options.density <= 1:
        raise UsageError(f"density is {options.density}: expected the share of blocks that are run, 0 to 1")
    count_of("wave", options.wave)
    if options.skip and options.stream is None:
        raise UsageError(f"--skip skips blocks of a loop: give its axis, as in --stream {options.skip[0]}")
    if options.unfused and _derived(options):
        raise UsageError("--unfused counts the operator as it is: leave out the other options")
    if options.latex and options.json:
        raise UsageError("--latex and --json are two formats: give one of them")


def _chosen(options: IoOptions) -> bool:
    """Whether the arrays that stay on chip are given."""
    return options.on_chip is not None or options.saved is not None


def _derived(options: IoOptions) -> bool:
    """Whether the options say how it is derived."""
    return options.stream is not None or options.group is not None or _chosen(options)


def _derivation(options: IoOptions, diagram: Diagram, ask: Z3) -> Derivation:
    """The operator, derived as the options say, or as is best."""
    if not _derived(options):
        from catdiag.cli.io_report import best_of

        return best_of(diagram, ask)
    from catdiag.rewrite.derivation import Derivation
    from catdiag.rewrite.fuse import fuse
    from catdiag.rewrite.group import group
    from catdiag.rewrite.skip import skip
    from catdiag.rewrite.stream.streaming import stream

    derivation = Derivation.start(diagram, ask)
    if options.stream is not None:
        derivation = stream(derivation, options.stream)
    if options.group is not None:
        derivation = group(derivation, options.group)
    for axis in options.skip:
        derivation = skip(derivation, axis)
    return fuse(derivation, options.on_chip, saved=options.saved or ()) if _chosen(options) else derivation
