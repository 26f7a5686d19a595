"""What makes programs: `algorithm` and the generators of the category, for users.

Each gives what the module of that name below gives as a bare diagram (`catdiag.frontend.builder`,
`catdiag.category.diagram`), as a `Program`.

>>> from catdiag.category.types import ArrayType, Axis
>>> X = ArrayType((Axis("x"),))
>>> box("f", X, X) >> id(X) == box("f", X, X)
True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from catdiag.category import diagram
from catdiag.category.types import ArrayType, Ty
from catdiag.frontend import builder
from catdiag.program import Program
from catdiag.util.errors import TypeMismatch

if TYPE_CHECKING:
    from catdiag.importers.example import Imported
    from catdiag.integrations.compiled_module import CompiledModule
    from catdiag.rewrite.differentiate.gradient import Inputs

# What reads other libraries' programs is imported when it is asked for: an algorithm does without.


def algorithm(signature: str, name: str | None = None) -> Callable[[Callable[..., Any]], Program]:
    """The program of a function over named-axis arrays, for use as a decorator or as a function.

    `signature` gives the axes of each parameter, and after `->` those of each result; `->` may be left out.

    >>> double = algorithm("x -> x", name="double")(lambda a: a + a)
    >>> double.title, double.names, len(double)
    ('double', ('a',), 1)

    Raises SignatureError for a signature that does not parse or does not fit the function, AxisError for axes
    of the result that are not the declared ones.
    """
    made = builder.algorithm(signature, name)
    return lambda function: Program(made(function))


def box(name: str, dom: Ty | ArrayType, cod: Ty | ArrayType) -> Program:
    """The uninterpreted generator `name`: `dom → cod`.

    >>> from catdiag.category.types import ArrayType, Axis
    >>> print(box("f", ArrayType((Axis("x"),)), ArrayType((Axis("y"),))))
    [x] → [y]
    """
    return Program(diagram.box(name, dom, cod))


def id(ty: Ty | ArrayType) -> Program:
    """The identity on the object `ty`.

    >>> from catdiag.category.types import ArrayType, Axis
    >>> X = ArrayType((Axis("x"),))
    >>> id(X) >> box("f", X, X) == box("f", X, X)
    True
    """
    return Program(diagram.id(ty))


def swap(left: Ty | ArrayType, right: Ty | ArrayType) -> Program:
    """The symmetry: `left @ right → right @ left`.

    >>> from catdiag.category.types import ArrayType, Axis
    >>> print(swap(ArrayType((Axis("x"),)), ArrayType((Axis("y"),))))
    [x] @ [y] → [y] @ [x]
    """
    return Program(diagram.swap(left, right))


def copy(ty: Ty | ArrayType, times: int = 2) -> Program:
    """`ty → ty @ … @ ty`, the comultiplication (`times` = 2) of the comonoid, or its iterate.

    Raises TypeMismatch for `times` that is no number of copies.

    >>> from catdiag.category.types import ArrayType, Axis
    >>> X = ArrayType((Axis("x"),))
    >>> copy(X, 3) == copy(X) >> copy(X) @ id(X)
    True
    """
    return Program(diagram.copy(ty, times))


def discard(ty: Ty | ArrayType) -> Program:
    """`ty → 1`, the counit.

    >>> from catdiag.category.types import ArrayType, Axis
    >>> X = ArrayType((Axis("x"),))
    >>> copy(X) >> id(X) @ discard(X) == id(X)
    True
    """
    return Program(diagram.discard(ty))


def value_and_grad(program: Program | diagram.Diagram, wrt: Inputs = None) -> Program:
    """The program that gives a result, which is one number, and its derivatives by the inputs in `wrt` (all that hold
    real numbers): `program.value_and_grad(wrt)`.

    >>> loss = algorithm("x, x ->", name="loss")(lambda A, B: builder.sum((A - B) ** 2, "x"))
    >>> value, by_A = value_and_grad(loss, "A").run([1, 2], [2, 4])
    >>> float(value), by_A.tolist()
    (5.0, [-2.0, -4.0])

    Raises NotDifferentiable for a result that is an array, and for inputs of integers or truth values; SignatureError
    for names that no input has.
    """
    return (program if isinstance(program, Program) else Program(program)).value_and_grad(wrt)


def from_torch(
    module: Any,
    *example: Any,
    kwargs: Mapping[str, Any] | None = None,
    names: Mapping[str, str] | None = None,
    dynamic: Any = None,
    allow_opaque: bool = False,
    **others: Any,
) -> Program:
    """The program of a PyTorch module, a function of tensors, or an exported program, with named axes.

    The module is exported on the example (`torch.export`, without decomposition). Dimensions become products of axes:
    view, transpose, expand and the like make no box. The sizes of axes are symbols, so that what is proved holds for
    all lengths, but those that the module fixes. The inputs are those of the module, then the parameters and buffers
    that it reads, in the shapes of the tensors. `.example` of the program has the arrays and sizes of the example, and
    notes on constants that are read as functions of sizes.

    `names` gives axes names: `{"x": "b t m", "q_proj.weight": "(h d) m"}`; `kwargs` are keyword arguments of the
    module; `dynamic` is `torch.export`'s `dynamic_shapes`, or True for a symbol for each dimension: then what is
    computed from lengths is a function of the sizes. An index out of range and a division by zero have no value here;
    everything else means what it means in PyTorch over the real numbers: dtypes are kept as casts, for costs.

        attention = cd.from_torch(torch.nn.functional.scaled_dot_product_attention, Q, K, V)
        attention.plan("H100", attention.example.sizes)

    With `allow_opaque`, an operation that is not known is an uninterpreted box: proofs and plans go around it, and
    `run` calls PyTorch. Its result, if it is of the shape of an argument, has the argument's axes.

    `others` are no arguments: an unknown keyword is an error that says what to write.

    Raises NotImported for operations that are not known, naming all of them with the module and the line that calls
    them; TypeMismatch for other keywords; ImportError without PyTorch (`pip install torch`).
    """
    _require_no_others("cd.from_torch", others)
    reader = import_module("catdiag.importers.torch_export")
    return _imported(reader.from_torch(module, example, kwargs or {}, names or {}, dynamic, allow_opaque))


def _require_no_others(name: str, others: Mapping[str, Any]) -> None:
    """Raises TypeMismatch for keywords that an importer does not have."""
    if others:
        keyword = next(iter(others))
        raise TypeMismatch(
            f"{name} has no option {keyword!r}: expected keyword arguments of what is imported in kwargs="
            f"{{{keyword!r}: …}}"
        )


def from_jax(
    function: Callable[..., Any],
    *example: Any,
    kwargs: Mapping[str, Any] | None = None,
    names: Mapping[str, str] | None = None,
    dynamic: bool | None = None,
    allow_opaque: bool = False,
    **others: Any,
) -> Program:
    """The program of a JAX function of arrays, or of trees of arrays, with named axes.

    The function is traced on the example (`jax.make_jaxpr`); `jit`, `custom_jvp`, `checkpoint` and the like are opened,
    scans of a fixed number of steps are written out. The inputs are the leaves of the arguments, those in `kwargs`
    included: each is called after its parameter and the keys in its tree, `params.mlp.w` as `params_mlp_w`. Axes, sizes
    and `names` are as in `from_torch`.

    The function is traced again with symbols for sizes (`jax.export.symbolic_shape`), so that a number that it computes
    from lengths, as a mean does, is a function of the sizes. `dynamic=True` requires that JAX can, `dynamic=False`
    leaves it out; by default the first trace is the program where JAX cannot, and `.example.notes` says why.

        attention = cd.from_jax(jax.nn.dot_product_attention, Q, K, V)

    `allow_opaque` is that of `from_torch`; `run` calls JAX.

    `others` are no arguments: an unknown keyword is an error that says what to write.

    Raises NotImported for primitives that are not known, naming all of them with the line that calls them; TypeMismatch
    for other keywords; ImportError without JAX (`pip install 'catdiag[jax]'`).
    """
    _require_no_others("cd.from_jax", others)
    reader = import_module("catdiag.importers.jax_trace")
    return _imported(reader.from_jax(function, example, kwargs or {}, names or {}, dynamic, allow_opaque))


def compile(
    module: Any,
    *example: Any,
    on: str | None = None,
    dtype: str | None = None,
    kwargs: Mapping[str, Any] | None = None,
    allow_opaque: bool = False,
    **options: Any,
) -> CompiledModule:
    """A PyTorch module or function, planned for a chip with the sizes of an example: it has `.program`, `.plan` and
    `.theorem`, and it is called as the module is.

    `on` is the chip, by default that of this machine's GPU; `dtype` the type of inputs and results, by default that of
    the first floating-point tensor; `kwargs` are keyword arguments of the module, `options` those of `Program.plan`.
    With `allow_opaque`, operations that are not known are called between kernels. A call runs the plan's kernels where
    it can, and the module where it cannot (see `catdiag.integrations.compiled_module.CompiledModule`).

        block = cd.compile(model.layers[0], x, on="h200")
        print(block.plan, block.theorem)
        y = block(x)

    Raises NotImported for operations that are not known, and ImportError without PyTorch.
    """
    made = import_module("catdiag.integrations.compiled_module")
    return made.compile_module(module, example, kwargs or {}, on, dtype, allow_opaque, **options)  # type: ignore[no-any-return]


def from_onnx(
    model: Any,
    *example: Any,
    sizes: Mapping[str, int] | None = None,
    names: Mapping[str, str] | None = None,
    allow_opaque: bool = False,
) -> Program:
    """The program of an ONNX model (opset 13 or later), of the path of one, or of what `torch.onnx.export` gives.

    The inputs are those of the model, then the initializers that it reads, with their names. Symbolic dimensions are
    axes of that name, whose lengths in the example are those of the example's arrays, those in `sizes`, or chosen.
    Axes, sizes and `names` are as in `from_torch`. `.example` has arrays: without an example, random numbers, and 0
    for integers.

        model = cd.from_onnx("model.onnx", sizes={"batch": 2, "sequence": 7})

    `allow_opaque` is that of `from_torch`; `run` calls ONNX's reference evaluator.

    Raises NotImported for operators that are not known, naming all of them with where they are from; ImportError
    without ONNX (`pip install 'catdiag[onnx]'`).
    """
    reader = import_module("catdiag.importers.onnx_graph")
    return _imported(reader.from_onnx(model, example, sizes or {}, names or {}, allow_opaque))


def _imported(found: Imported) -> Program:
    return Program(found.diagram, example=found.example)
