"""The machine for Gluon kernels: a right one runs right in every interleaving, a planted mistake is reported."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from tests.codegen.gluon_layouts import GluonError  # noqa: E402
from tests.codegen.gluon_machine import load  # noqa: E402

pytestmark = [pytest.mark.triton, pytest.mark.usefixtures("one_thread")]


TEXT = (Path(__file__).parent / "gluon_attention.py").read_text()
MATMUL = (Path(__file__).parent / "gluon_matmul.py").read_text()
SHORT = {"n": 320, "BN": 64}


def error(text: str, seed: int = 0, n: int = 320, d: int = 64, heads: int = 1, **options: Any) -> float:
    """The largest error of the kernel of `text` against float64."""
    source = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(1, heads, n, d, generator=source).to(torch.bfloat16) for _ in range(3))
    out = load(text, seed=seed, name="attention.py")["attention"](q, k, v, **options)
    weights = (q.double() @ k.double().mT / math.sqrt(d)).softmax(-1)
    return float((out.double() - weights @ v.double()).abs().max())


GOOD: list[dict[str, Any]] = [
    {},
    {"W": 1, "ST": 3},
    {"W": 3, "heads": 2},
    {"HOLD": 1, "PING": 1},
    {"OVER": 0},
    {"OVER": 0, "PING": 1, "ST": 3, "W": 3},
    {"n": 128, "BN": 128, "d": 128},
    {"n": 256, "BN": 128, "d": 32, "ST": 3},
]


@pytest.mark.parametrize(("seed", "options"), list(enumerate(GOOD)), ids=str)
def test_it_is_right_however_its_parts_interleave(seed: int, options: dict[str, Any]) -> None:
    assert error(TEXT, seed, **{**SHORT, **options}) < 0.01


def test_a_seed_replays_its_run() -> None:
    early = TEXT.replace("mbarrier.wait(fullq, 0)", "pass")
    said = set()
    for _ in range(2):
        with pytest.raises(GluonError) as found:
            error(early, 3, **SHORT)
        said.add(str(found.value))
    assert len(said) == 1


WIDE = {"n": 256, "BN": 128}
PING = {"PING": 1}
ORDER = "race|deadlock|phase|arrivals|written|bytes"
"""What is reported first of a mistake that orders nothing, depends on the interleaving."""
SIMPLE = {"OVER": 0}
WAIT = "                acc = warpgroup_mma_wait(0, deps=[a_])\n"
FREE = "            mbarrier.arrive(emptyk.index(i), count=1)\n"
SYNC = TEXT[TEXT.index("            s = warpgroup_mma(q, sk.index(i)") : TEXT.rindex(FREE)] + FREE
MISTAKES: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "released before the wait": (
        WAIT + FREE.replace("k.index(i)", "v.index(i1)"),
        "    " + FREE.replace("k.index(i)", "v.index(i1)") + WAIT,
        r"race: the copy at line 37 .* does not wait for the product at line 73",
        {},
    ),
    "released before the product": (
        SYNC,
        "            mbarrier.arrive(emptyk.index(i), count=1)\n" + SYNC.replace(FREE, ""),
        "race: the",
        SIMPLE,
    ),
    "no wait for the values": (
        "mbarrier.wait(fullv.index(i1), ph1)\n            a_",
        "a_",
        "race: the product at line 72 .* the copy at line 37",
        {},
    ),
    "no wait for the rows": ("    mbarrier.wait(fullq, 0)\n", "", "race: the product .* the copy at line 28", {}),
    "no wait for a free buffer": (
        "        mbarrier.wait(emptyv.index(i), ph ^ 1)\n",
        "",
        r"phase 0 of fullv|fullv\[0\] \(phase 0",
        {},
    ),
    "wrong parity, reading": (
        "mbarrier.wait(fullk.index(i), ph)",
        "mbarrier.wait(fullk.index(i), ph ^ 1)",
        ORDER,
        {},
    ),
    "wrong parity, at the start": (
        "mbarrier.wait(fullk.index(0), 0)",
        "mbarrier.wait(fullk.index(0), 1)",
        ORDER,
        {},
    ),
    "wrong parity, writing": (
        "mbarrier.wait(emptyk.index(i), ph ^ 1)",
        "mbarrier.wait(emptyk.index(i), ph)",
        "deadlock",
        {},
    ),
    "parity of the block": ("ph = (j // ST) & 1\n        mbarrier", "ph = j & 1\n        mbarrier", "deadlock", {}),
    "one stage": ("gl.bfloat16, [ST, 1, 1,", "gl.bfloat16, [1, 1, 1,", "buffer 1 of sk, which has 1", {}),
    "one buffer": ("fullk.index(i), sk.index(i))", "fullk.index(i), sk.index(0))", "race: the copy at line 34", {}),
    "swapped buffers": (
        "fullv.index(i), sv.index(i))",
        "fullv.index(i), sk.index(i))",
        "race: the copy at line 37",
        {},
    ),
    "swapped barriers": ("fullv.index(i), sv.index(i))", "fullk.index(i), sv.index(i))", ORDER, {}),
    "another buffer": ("pb, sv.index(i1)", "pb, sv.index(i)", ORDER, {}),
    "too few bytes": (
        "(fullk.index(i), BN * D * 2)",
        "(fullk.index(i), BN * D)",
        "8192 bytes .* 4096 are expected",
        {},
    ),
    "too many bytes": ("BM * W * D * 2)", "BM * W * D * 4)", "deadlock(.|\n)*fullq .* 16384 bytes", {}),
    "no arrival": ("            mbarrier.arrive(emptyv.index(i1), count=1)\n", "", "deadlock", {}),
    "two arrivals": ("(emptyv.index(i1), count=1)", "(emptyv.index(i1), count=2)", ORDER, {}),
    "count too small": ("(emptyk.index(i), W)", "(emptyk.index(i), 1)", ORDER, {}),
    "count too large": ("(emptyk.index(i), W)", "(emptyk.index(i), W + 1)", "deadlock", {}),
    "no barrier": ("        mbarrier.init(emptyv.index(i), W)\n", "", r"barrier emptyv\[0\] is not initialised", {}),
    "layout of the other block": (
        "gl.convert_layout(al, RO), 1)",
        "al, 1)",
        "line 91 .*: acc = acc|layouts differ",
        WIDE,
    ),
    "layout of the wrong product": (
        "DotOperandLayout(0, LO, 2)",
        "DotOperandLayout(0, LS, 2)",
        "left factor is in",
        WIDE,
    ),
    "layout of a loop's variable": (
        "            m = mn\n",
        "            m = gl.convert_layout(mn, RO)\n",
        "m, carried",
        WIDE,
    ),
    "accumulator read": ("gl.max(s, 1))", "gl.max(s_, 1))", "read before warpgroup_mma_wait", {}),
    "accumulator waited for too little": (
        "wait(1, deps=[s_])",
        "wait(2, deps=[s_])",
        "read before warpgroup_mma_wait",
        {},
    ),
    "accumulator of the other": (
        "wait(1, deps=[s_])\n",
        "wait(1, deps=[s_])\n            acc = a_ * c\n",
        "read before",
        {},
    ),
    "turn not counted": (
        "(turn.index(me), (j - 1) & 1)",
        "(turn.index(me), 0)",
        r"phase -?\d of turn",
        PING,
    ),
    "turn counted otherwise": (
        "(turn.index(me), (j - 1) & 1)",
        "(turn.index(me), j & 1)",
        r"phase -?\d of turn",
        PING,
    ),
    "turn not begun": ("    mbarrier.arrive(turn.index(0), count=1)\n", "", "deadlock(.|\n)*compute .* line 70", PING),
    "product left": (
        "        acc = warpgroup_mma_wait(0, deps=[acc])\n",
        "        acc = gl.zeros([BM, D], gl.float32, LO)\n",
        "product at line 95 .* never waited",
        {},
    ),
    "copy left": ("range(n):\n        i", "range(n + 1):\n        i", "copy at line 34 .* never waited|deadlock", {}),
    "no mask": (", mask=rows < S)", ")", "leaves its tensor", {"W": 3}),
    "no mask, several heads": (", mask=rows < S)", ")", "programs 1 and 2 store the same", {"W": 3, "heads": 2}),
    "int32 overflows": ("rows.to(gl.int64) * so2", "rows * 100000000 * so2", "int32 overflows", {}),
    "too few warps": ("[4, 1], [240, 24]", "[2, 1], [240, 24]", "is for 4 warps; 2 run here", {}),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_reported(name: str) -> None:
    old, new, message, options = MISTAKES[name]
    assert old in TEXT
    with pytest.raises(GluonError, match=message) as found:
        error(TEXT.replace(old, new), len(name), **{**SHORT, **options})
    assert re.search(r"line \d+ \((load|compute|attn)\)", str(found.value))


def errors(
    text: str, seed: int = 0, kind: torch.dtype = torch.float16, n: int = 72, k: int = 160, **options: int
) -> list[float]:
    """The largest errors of what `gluon_matmul` gives, against float64."""
    source = torch.Generator().manual_seed(seed)
    a, b = (torch.randn(rows, k, generator=source).to(kind) for rows in (150, n))
    bias = torch.randn(n, generator=source)
    c, most = torch.full((150, n), math.nan, dtype=torch.float16), torch.full((-(-n // 32), 150), math.nan)
    load(text, seed=seed, name="matmul.py")["run"](a, b, bias, c, most, **options)
    right = torch.tanh(a.double() @ b.double().mT + bias.double())
    highest = torch.stack([part.amax(1) for part in right.split(32, 1)])
    return [float((x.double() - y).abs().max()) for x, y in ((c, right), (most, highest))]


BYTES = {"kind": torch.float8_e4m3fn, "BK": 32}


@pytest.mark.parametrize(
    ("seed", "options"), [(0, {}), (1, {**BYTES, "ST": 3, "programs": 3}), (2, {"k": 32, "ST": 1, "programs": 9})]
)
def test_tiles_one_after_the_other_are_right(seed: int, options: dict[str, Any]) -> None:
    c, most = errors(MATMUL, seed, **options)
    assert c < 1e-3 and most < 1e-6


TURN = "        turn = gl.to_tensor(0)\n"
LOADS = "        for at in range(0, k, BK):\n            slot = turn % stages\n            hopper.mbarrier.wait(free"
OTHERS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "no fence": (
        "        hopper.fence_async_shared()\n        hopper",
        "        hopper",
        "without a fence_async_shared",
        {},
    ),
    "no wait for a store": (
        "        hopper.tma.store_wait(0)\n        rc",
        "        rc",
        "race: the store at line 69 .* TMA store",
        {},
    ),
    "a store more may be under way": (
        "store_wait(0)\n        rc",
        "store_wait(1)\n        rc",
        "race: the store .* TMA store",
        {},
    ),
    "no wait at the end": (
        "    hopper.tma.store_wait(0)\n\n",
        "\n",
        "the TMA store at line 72 .* never waited for",
        {},
    ),
    "bytes along the other axis": (
        ".permute((1, 0))",
        "",
        "contiguous along the summed axis|shapes",
        {**BYTES, "BN": 32},
    ),
    "instructions of 16 bits": ("256 // bits", "16", "K of an instruction is 32 for float8e4nv", BYTES),
    "turns restart": (
        "gl.num_programs(0)):\n        total",
        f"gl.num_programs(0)):\n{TURN}        total",
        ORDER,
        {},
    ),
    "turns of loads restart": (LOADS, TURN + LOADS, ORDER, {}),
    "released before the last product": (
        "            total = hopper.warpgroup_mma_init(hopper.warpgroup_mma_wait(0, deps=[total]))\n",
        "",
        "race: the copy",
        {},
    ),
    "fewer turns than loads": (
        "k, BK):\n            slot = turn % stages\n            hopper.mbarrier.wait(full",
        "k - BK, BK):\n            slot = turn % stages\n            hopper.mbarrier.wait(full",
        "deadlock|never waited for",
        {},
    ),
    "one of two copies expected": ("a.block_type.nbytes + b", "b", "bytes are copied on full", {}),
    "loads outside": (", mask=inside, other=0.0", "", "a pointer leaves its tensor", {}),
    "stores outside": (", mask=at < m", "", "a pointer leaves its tensor", {}),
    "columns as rows": ("expand_dims(shift, 0)", "expand_dims(shift, 1)", "left out dimension 0; dimension 1", {}),
    "another type": ("found.to(rc.dtype)", "found", "float32 is stored into shared memory of float16", {}),
    "half in a register": ("[x], gl.float32", "[x.to(gl.float16)], gl.float32", "in a register", {}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_mistake_between_tiles_is_reported(name: str) -> None:
    old, new, message, options = OTHERS[name]
    assert old in MATMUL
    with pytest.raises(GluonError, match=message):
        errors(MATMUL.replace(old, new), len(name), **options)
