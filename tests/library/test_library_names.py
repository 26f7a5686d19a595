"""The library's diagrams against their mathematics in NumPy, and the register of their names."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import catdiag as cd
from catdiag import library, testing
from catdiag.errors import CatdiagError


def softmax(s: np.ndarray) -> np.ndarray:
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def heads(Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> np.ndarray:
    return softmax(Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1])) @ V


def windows(a: np.ndarray, sizes: tuple[int, ...], step: int = 1) -> np.ndarray:
    """Windows along the axes after the first, these last."""
    axes = tuple(range(1, 1 + len(sizes)))
    view = np.lib.stride_tricks.sliding_window_view(a, sizes, axes)
    return view[(slice(None), *[slice(None, None, step)] * len(sizes))]


def convolved(a: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.einsum("nyck,kco->nyo", windows(a, w.shape[:1]), w)


def rotated(a: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    one, two = np.split(a, 2, axis=1)
    return np.concatenate([one * cos - two * sin, two * cos + one * sin], axis=1)


MEANINGS = {
    "conv1d": convolved,
    "im2col": convolved,
    "conv2d": lambda a, f: np.einsum("nyxcij,ijco->nyxo", windows(a, f.shape[:2]), f),
    "max_pool": lambda a: windows(a, (2, 2), 2).max((-1, -2)),
    "average_pool": lambda a: windows(a, (2, 2), 2).mean((-1, -2)),
    "embedding": lambda table, tokens: table[tokens],
    "rotary_embedding": rotated,
    "attention": heads,
    "multi_head_attention": heads,
    "grouped_query_attention": lambda Q, K, V: heads(Q, K[:, :, None], V[:, :, None]),
    "matmul": lambda A, B: A @ B,
    "matvec": lambda A, v: A @ v,
    "dot": lambda a, b: a @ b,
    "softmax": softmax,
    "log_sum_exp": lambda a: np.log(np.exp(a).sum(-1)),
    "softmax_contraction": lambda a, v: softmax(a) @ v,
    "mean": lambda a: a.mean(-1),
    "variance": lambda a: a.var(-1),
    "sum_of_squares": lambda a: (a * a).sum(-1),
}


ROOM: dict[str, dict[str, str | int]] = {
    "conv1d": {"x": "k"},
    "im2col": {"x": "k"},
    "conv2d": {"h": "i", "w": "j"},
    "max_pool": {"h": 1, "w": 1},
    "average_pool": {"h": 1, "w": 1},
}


def test_every_diagram_is_tested() -> None:
    assert set(library.names()) == set(MEANINGS)


@pytest.mark.parametrize("name", sorted(MEANINGS))
@given(st.data())
def test_meaning(name: str, data: st.DataObject) -> None:
    f = library.get(name)
    sizes = data.draw(testing.sizes_for(f))
    for axis, window in ROOM.get(name, {}).items():
        sizes[axis] += window if isinstance(window, int) else sizes[window]
    arrays = data.draw(testing.arrays_for(f, sizes))
    if name == "embedding":
        arrays = arrays[0], arrays[1] % sizes["v"]
    np.testing.assert_allclose(f(*arrays), MEANINGS[name](*arrays), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", sorted(MEANINGS))
def test_titles_names_and_descriptions(name: str) -> None:
    f = library.get(name)
    assert f.title == name and len(f.names) == len(f.dom)
    assert library.describe(name) and "\n    " not in library.describe(name)


def test_types() -> None:
    types = {
        "multi_head_attention": "[b h q d] @ [b h x d] @ [b h x d] → [b h q d]",
        "grouped_query_attention": "[b k r q d] @ [b k x d] @ [b k x d] → [b k r q d]",
    }
    for name, ty in types.items():
        assert str(library.get(name)) == f"{name}: {ty}"
        assert library.get(name).names == ("Q", "K", "V")


def test_an_unknown_name_is_answered_with_the_near_and_the_known() -> None:
    with pytest.raises(CatdiagError, match=re.escape("did you mean 'attention'? it has attention, average_pool")):
        library.get("atention")
    with pytest.raises(CatdiagError, match="no diagram 'zzz': it has"):
        library.describe("zzz")


def test_opening_the_named_boxes_keeps_the_meaning() -> None:
    from catdiag.boxes import Call
    from catdiag.diagram import inline

    for name in library.names():
        f = library.get(name)
        if not any(isinstance(b.op, Call) for b in f.boxes):
            continue
        rng = np.random.default_rng(0)
        sizes = {a.name: k + 2 for k, a in enumerate(dict.fromkeys(a for ty in f.dom for a in ty.axes))}
        arrays = [rng.normal(size=[sizes[n] for n in ty.names]) for ty in f.dom]
        opened = inline(f)
        assert not any(b.name == "softmax" for b in opened.boxes)
        np.testing.assert_allclose(opened(*arrays), f(*arrays), rtol=1e-12)


def test_the_package_offers_the_library() -> None:
    assert cd.library.get("attention") is library.get("attention")
