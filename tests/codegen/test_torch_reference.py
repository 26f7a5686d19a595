"""The meaning of diagrams as PyTorch, against NumPy; no GPU is needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.diagram import diagram_of
from catdiag.category.types import size_value
from catdiag.codegen.torch_reference import TorchReference, torch_reference


def test_loops_and_groups_are_opened() -> None:
    diagram = cd.library.get("matmul")
    text = torch_reference(diagram.stream("b").group("a").diagram).text
    assert "s_b" not in text and "g_a" not in text and text.count("torch.einsum") == 1


def test_a_product_of_axes_that_is_streamed_is_opened() -> None:
    form = cd.library.get("im2col").stream("(k c)").group("n y o")
    assert torch_reference(form).text.count("torch.einsum") == 1


def test_slices_are_refused_where_a_size_or_another_axis_depends_on_them() -> None:
    assert torch_reference(cd.algorithm("q x")(lambda a: a / cd.size("q"))).slices == ("x",)
    assert torch_reference(cd.algorithm("q")(lambda a: cd.reverse(a, "q"))).slices == ()
    gram = cd.algorithm("q d -> q p")(lambda a: cd.einsum("q d, p d -> q p", a, a.rename(q="p")))
    assert torch_reference(gram).slices == ()


def test_positions_begin_where_a_slice_does() -> None:
    book = torch_reference(cd.library.get("causal_attention"))
    assert book.slices == ("q",) and "from_q" in book.text and book.starts == {"q": "from_q"}


def sizes_for(diagram: cd.category.Diagram) -> dict[str, int]:
    from catdiag.cli.option_values import sizes_of

    found = {s: 3 + k for k, s in enumerate(sizes_of(diagram_of(diagram)))}
    # Windows have to stay inside: what they read is long.
    return {s: 40 if any(s in ty.names for ty in diagram.dom) and s in ("h", "w", "x") else n for s, n in found.items()}


def arrays_for(diagram: cd.category.Diagram, sizes: dict[str, int], seed: int = 0) -> list[Any]:
    rng, found = np.random.default_rng(seed), []
    for ty in diagram.dom:
        shape = [size_value(a.size, sizes) for a in ty.axes]
        if ty.element == "int":
            found.append(rng.integers(0, 3, shape) if shape else 2)
        elif ty.element == "bool":
            found.append(rng.random(shape) < 0.7)
        else:
            found.append(rng.standard_normal(shape) if shape else 0.7)
    return found


def outputs(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def on_torch(book: TorchReference, arrays: list[Any], sizes: dict[str, int], **more: Any) -> tuple[Any, ...]:
    import torch

    tensors = [torch.as_tensor(a) if np.ndim(a) else a for a in arrays]
    return outputs(book.function()(*tensors, **{s: sizes[s] for s in book.sizes}, **more))


@pytest.mark.triton
@pytest.mark.parametrize("name", cd.library.names())
def test_the_library_is_what_numpy_makes_of_it(name: str) -> None:
    torch = pytest.importorskip("torch")
    diagram = cd.library.get(name)
    sizes = sizes_for(diagram)
    arrays = arrays_for(diagram, sizes)
    book = torch_reference(diagram)
    expected = outputs(diagram.run(*arrays, sizes={s: sizes[s] for s in book.sizes}))
    for ours, theirs in zip(on_torch(book, arrays, sizes), expected, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-9, atol=1e-12)
    for axis in book.slices:
        cut, length = 2, next(a.shape[ty.names.index(axis)] for a, ty in zip(expected, diagram.cod, strict=True))
        pieces = []
        for lo, hi in ((0, cut), (cut, length)):
            parts = [
                a[(slice(None),) * ty.names.index(axis) + (slice(lo, hi),)] if axis in ty.names else a
                for a, ty in zip(arrays, diagram.dom, strict=True)
            ]
            pieces.append(on_torch(book, parts, sizes, **({book.starts[axis]: lo} if axis in book.starts else {})))
        for k, ty in enumerate(diagram.cod):
            whole = torch.cat([p[k] for p in pieces], ty.names.index(axis)).numpy()
            np.testing.assert_allclose(whole, expected[k], rtol=1e-9, atol=1e-12)


@pytest.mark.triton
@given(st.data())
@settings(max_examples=60, deadline=None)
def test_random_programs_are_what_they_mean(data: st.DataObject) -> None:
    pytest.importorskip("torch")
    program = data.draw(cd.testing.diagrams())
    book = torch_reference(program)
    # Without a tensor of floating point there is no type to compute in but float32.
    assume(not book.functions and any(ty.axes and ty.element in ("real", "extended") for ty in program.dom))
    sizes = data.draw(cd.testing.sizes_for(program))
    arrays = data.draw(cd.testing.arrays_for(program, sizes))
    numbers = [a if np.ndim(a) else np.asarray(a).item() for a in arrays]
    expected = outputs(cd.Program(program).run(*arrays, sizes=sizes))
    for ours, theirs in zip(on_torch(book, numbers, sizes), expected, strict=True):
        assert np.shape(ours) == np.shape(theirs), book.text
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-9, atol=1e-9, err_msg=book.text)


@pytest.mark.triton
@pytest.mark.parametrize("name", ["attention", "causal_attention", "rms_norm_linear", "layer_norm_linear", "gated_mlp"])
def test_narrow_tensors_are_worked_on_in_float32(name: str) -> None:
    torch = pytest.importorskip("torch")
    diagram = cd.library.get(name)
    sizes = dict.fromkeys(sizes_for(diagram), 32)
    arrays = [torch.tensor(a).bfloat16() if np.ndim(a) else a for a in arrays_for(diagram, sizes)]
    book = torch_reference(diagram)
    out = book.function()(*arrays)
    ref = book.function()(*(a.double() if torch.is_tensor(a) else a for a in arrays))
    assert out.dtype == torch.bfloat16
    assert float((out.double() - ref).norm() / ref.norm()) < 1e-2


@pytest.mark.triton
def test_structure_of_axes() -> None:
    pytest.importorskip("torch")

    @cd.algorithm("x+y d, (b g) -> x d, x+y d, b g, d")
    def shapes(A: Any, B: Any) -> Any:
        x, y = cd.split(A, "x+y")
        B = cd.rearrange(B, "(b g) -> b g")
        return x, cd.concat([x, y], "x+y"), B * cd.index("g"), cd.max(A, "x+y") + cd.sum(cd.sum(B, "b"), "g")

    sizes = {"x": 2, "y": 3, "d": 4, "b": 2, "g": 5}
    arrays = arrays_for(shapes, sizes)
    book = torch_reference(shapes)
    expected = shapes.run(*arrays, sizes={s: sizes[s] for s in book.sizes})
    for ours, theirs in zip(on_torch(book, arrays, sizes), expected, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs)


@pytest.mark.triton
def test_the_users_functions_are_keywords() -> None:
    torch = pytest.importorskip("torch")
    diagram = cd.algorithm("q x -> q")(lambda a: cd.sum(cd.apply("f", a), "x"))
    book = torch_reference(diagram)
    assert book.functions == ("f",)
    found = book.function()(torch.ones(2, 3), f=lambda a: 2 * a)
    assert found.tolist() == [6.0, 6.0]
