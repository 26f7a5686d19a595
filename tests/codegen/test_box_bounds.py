"""What the copy engine reads: windows are boxes; past the end of a slice nothing counts (pytest -m triton)."""

from __future__ import annotations

from typing import Any

import pytest

import catdiag as cd
from catdiag.category.substitution import inline
from catdiag.codegen.triton.triton_module import Module, module
from catdiag.rewrite.group import find
from catdiag.rewrite.stream.multi_pass import first_form
from catdiag.runtime.module_cache import imported
from tests.forms import unproved


@cd.algorithm("a x, x c -> a c", name="sliced")
def sliced(A: Any, B: Any) -> Any:
    return cd.einsum("a y, y c -> a c", *(cd.slice(f, "x", 8, -3, into="y") for f in (A, B)))


def written() -> Module:
    return module(unproved(sliced.diagram, "y", "a c"), {"g_a": 32, "g_c": 32, "s_y": 32}, "fp16")


def test_blocks_at_the_end_of_a_slice_are_masked() -> None:
    assert written().text.count("_blocks.load(") == written().text.count("tl.where(") == 2
    product = unproved(cd.library.get("matmul").diagram, "b", "a c")
    whole = module(product, {"g_a": 32, "g_c": 32, "s_b": 32}, "fp16").text
    assert whole.count("_blocks.load(") == 2 and "tl.where(" not in whole


@cd.algorithm("n h w c, i j c o -> n y x o", name="padded")
def padded(a: Any, f: Any) -> Any:
    patches = cd.window(cd.window(a, "h", "y i", pad=(1, 1)), "w", "x j", pad=(1, 1))
    return cd.einsum("n y i x j c, i j c o -> n y x o", patches, f)


def convolution(taps: int) -> Module:
    tiles = {"g_n": 1, "g_y": 4, "g_x": 8, "g_o": 16, "s_i": 1, "s_j": taps}
    loops = first_form(first_form(inline(padded.diagram), "j", 1), "i", 1)
    return module(find(loops, ["n", "y", "x", "o"]), tiles, "fp32")


def test_windows_are_boxes_where_one_tap_is_read_at_a_time() -> None:
    text = convolution(1).text
    assert "a_blocks = _copied(a, [1, g_y, g_x, c_block])" in text
    assert "s_i" not in text and "s_j" not in text
    assert "a_tile = a_blocks.load([n_at, " in text
    assert "a_blocks" not in convolution(2).text
    strided = cd.algorithm("x c, k c o -> y o", name="strided")(
        lambda a, w: cd.einsum("y k c, k c o -> y o", cd.window(a, "x", "y k", stride=2), w)
    )
    made = module(unproved(strided.diagram, "k", "y o"), {"g_y": 16, "g_o": 16, "s_k": 1}, "fp16")
    assert "a_blocks" not in made.text and "w_blocks" in made.text


def test_blocks_that_are_filled_with_zeros_need_no_mask() -> None:
    product = module(unproved(cd.library.get("matmul").diagram, "b", "a c"), {"g_a": 32, "g_c": 32, "s_b": 32}, "fp16")
    assert "even_b=b % s_b == 0 < b or None not in (A_blocks, B_blocks)" in product.text
    assert "b_to = b if even_b else " in product.text
    powers = cd.algorithm("m k, k n -> m n", name="powers")(
        lambda A, B: cd.einsum("m k, k n -> m n", cd.exp(A), cd.exp(B))
    )
    masked = module(unproved(powers.diagram, "k", "m n"), {"g_m": 32, "g_n": 32, "s_k": 32}, "fp16")
    assert "even_k=k % s_k == 0 < k," in masked.text


def heads(block: int) -> Module:
    """A product that sums over heads, some at a time, and over the entries of each."""
    product = cd.algorithm("h t k, o h k -> t o", name="joined")(lambda X, W: cd.einsum("h t k, o h k -> t o", X, W))
    return module(unproved(product.diagram, "h", "t o"), {"g_t": 32, "g_o": 16, "s_h": block}, "fp16")


def test_a_loop_over_single_entries_has_no_dimension_for_them() -> None:
    text, several = heads(1).text, heads(2).text
    assert "W_blocks.load([h0, o0, 0]).reshape((g_o, k_block))" in text
    assert "for h0 in tl.range(h_from, h_to, 1)" in text and "s_h" not in text and "tl.permute" not in text
    assert "s_h=2" in several and "tl.permute" in several


@pytest.mark.triton
@pytest.mark.usefixtures("interpreting")
class TestRun:
    @pytest.mark.parametrize("k", [31, 40, 64, 0])
    @pytest.mark.parametrize("copies", [False, True])
    def test_products_over_parts_of_blocks(self, copies: bool, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
        import torch

        product = unproved(cd.library.get("matmul").diagram, "b", "a c")
        kernels = imported(module(product, {"g_a": 32, "g_c": 32, "s_b": 32}, "fp16").text, "product")
        monkeypatch.setattr(kernels, "_copies", lambda device: copies)
        draw = torch.Generator().manual_seed(0)
        A, B = torch.randn(40, k, generator=draw).half(), torch.randn(k, 48, generator=draw).half()
        assert (kernels.matmul(A, B).double() - A.double() @ B.double()).abs().max() < 0.02

    @pytest.mark.parametrize("block", [1, 2])
    @pytest.mark.parametrize("copies", [False, True])
    def test_sums_over_heads(self, copies: bool, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
        import torch

        kernels = imported(heads(block).text, "joined")
        monkeypatch.setattr(kernels, "_copies", lambda device: copies)
        draw = torch.Generator().manual_seed(0)
        X, W = torch.randn(3, 40, 16, generator=draw).half(), torch.randn(24, 3, 16, generator=draw).half()
        wanted = torch.einsum("htk,ohk->to", X.double(), W.double())
        assert (kernels.joined(X, W).double() - wanted).abs().max() < 0.02

    @pytest.mark.parametrize("copies", [False, True])
    def test_sums_over_a_slice(self, copies: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        import torch

        kernels = imported(written().text, "sliced")
        monkeypatch.setattr(kernels, "_copies", lambda device: copies)
        draw = torch.Generator().manual_seed(0)
        A, B = torch.randn(32, 48, generator=draw).half(), torch.randn(48, 32, generator=draw).half()
        wanted = A[:, 8:-3].double() @ B[8:-3].double()
        assert (kernels.sliced(A, B, y=37).double() - wanted).abs().max() < 0.02

    @pytest.mark.parametrize("taps", [1, 2])
    @pytest.mark.parametrize("copies", [False, True])
    def test_windows(self, copies: bool, taps: int, monkeypatch: pytest.MonkeyPatch) -> None:
        import torch

        kernels = imported(convolution(1).text, "padded")
        monkeypatch.setattr(kernels, "_copies", lambda device: copies)
        draw = torch.Generator().manual_seed(0)
        a, f = (torch.randn(*shape, generator=draw) for shape in ((2, 5, 9, 12), (3, 3, 12, 20)))
        found = kernels.padded(a, f, y=5, x=9, s_j=taps)
        wanted = torch.nn.functional.conv2d(a.permute(0, 3, 1, 2), f.permute(3, 2, 0, 1), padding=1)
        assert (found.permute(0, 3, 1, 2) - wanted).abs().max() < 1e-4


def test_axes_of_one_entry_come_first_in_boxes() -> None:
    experts = cd.algorithm("t n m, n m d -> t n d", name="experts")(
        lambda H, W: cd.einsum("t n m, n m d -> t n d", H, W)
    )
    text = module(experts.stream("m").group("t n d"), {"g_t": 128, "g_n": 1, "g_d": 256, "s_m": 64}, "bf16").text
    assert "_copied(H.permute((1, 0, 2)), [1, g_t, s_m])" in text and "_copied(W, [1, s_m, g_d])" in text
    assert "H_blocks.load([n_at, t0, m0]).reshape((g_t, s_m))" in text


def product_of(start: int, dtype: str = "bf16") -> str:
    """A product whose first factor begins that far in the rows of its array."""

    @cd.algorithm("a x, y c -> a c", name="shifted")
    def shifted(A: Any, B: Any) -> Any:
        return cd.einsum("a y, y c -> a c", cd.slice(A, "x", start, into="y"), B)

    return module(unproved(shifted.diagram, "y", "a c"), {"g_a": 64, "g_c": 64, "s_y": 64}, dtype).text


@pytest.mark.parametrize(("start", "dtype"), [(8, "bf16"), (32, "bf16"), (16, "fp8"), (4, "fp32")])
def test_boxes_begin_at_whole_pieces_of_the_copy_engine(start: int, dtype: str) -> None:
    assert "A_blocks = _copied(" in product_of(start, dtype)


@pytest.mark.parametrize(("start", "dtype"), [(1, "bf16"), (4, "bf16"), (12, "bf16"), (8, "fp8"), (2, "fp32")])
def test_rows_that_begin_within_a_piece_are_no_boxes(start: int, dtype: str) -> None:
    text = product_of(start, dtype)
    assert "A_blocks" not in text and "B_blocks = _copied(" in text


def test_taps_along_rows_are_no_boxes_and_others_are() -> None:
    @cd.algorithm("n c x, k o c -> n o y", name="convolved")
    def convolved(a: Any, f: Any) -> Any:
        return cd.einsum("n c y k, k o c -> n o y", cd.window(a, "x", "y k"), f)

    text = module(unproved(convolved.diagram, "k", "n o y"), {"g_n": 1, "g_o": 64, "g_y": 64, "s_k": 1}, "bf16").text
    assert "a_blocks" not in text and "f_blocks = _copied(" in text
    assert "a_blocks = _copied(" in convolution(1).text


def test_a_size_by_which_rows_begin_is_tested_at_the_launch() -> None:
    @cd.algorithm("a x, d c -> a c", name="later")
    def later(A: Any, B: Any) -> Any:
        return cd.einsum("a d, d c -> a c", cd.slice(A, "x", "d", into="d"), B)

    text = module(unproved(later.diagram, "d", "a c"), {"g_a": 64, "g_c": 64, "s_d": 64}, "bf16").text
    assert "A_blocks = _copied(A, [g_a, s_d]) if d * A.element_size() % 16 == 0 else None" in text
