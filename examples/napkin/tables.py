"""The tables and numbers of "FlashAttention on a Napkin", beside what comes out of diagrams.

Abbott and Zardini (TMLR 2025, arXiv 2412.03317) compute by hand, and in a spreadsheet, what moving data costs attention
and matrix products. Here the same comes from diagrams: derived, with the theorem that each derivation has, then
counted. What the paper states is typed in as the paper's column only, and what it takes from data sheets as such.

The last column says how the two compare: "=" where they agree within the paper's rounding, else the difference and
why; "new" where the paper has no figure; "not rederived" where we cannot tell how the paper came to its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

import sympy

import catdiag as cd
from catdiag.optimum.exhaustive import exhaustive_optimum
from examples import napkin

KIB = 1024
H100 = cd.hardware.H100
SIZES = {"q": 8192, "x": 8192, "d": 128}
# What the paper takes as given: bandwidths into SMEM, and those that Luo et al. (arXiv 2402.13499) measured on an H800.
INTO_SMEM = 12e12
H800, H800_CLUSTERS = 2.04, {2: 3.27, 4: 2.65}
# Its configuration (section 5.6): rows of a warpgroup, blocks, and pieces of keys (u_x), d' (u_d) and d'' (v_d).
CONFIGURATION = {"w_q": 128, "s_x": 64, "u_x": 64, "u_d": 32, "v_d": 8, "d": 128}
# The same without limits to memory.
ENDLESS: dict[str, Any] = {"smem_per_sm": 1 << 30, "smem_per_block": 1 << 29, "registers_per_sm": 1 << 28}
# Published of FlashAttention-3 (Shah et al. 2024), in TFLOP/s: reached and peak.
REACHED = {"fp16": (740, 989), "fp8": (1200, 1980)}


@dataclass(frozen=True)
class Row:
    """A figure: what it is, the paper's (as printed there), ours, and what to say of it."""

    what: str
    paper: str
    derived: Any
    note: str = ""

    @property
    def agrees(self) -> bool | None:
        """Whether ours rounds to the paper's; None where one of the two is missing."""
        if not self.paper or self.derived is None:
            return None
        if isinstance(self.derived, str):
            return self.paper == self.derived
        if isinstance(self.derived, sympy.Expr) and self.derived.free_symbols:
            names = {str(s): s for s in self.derived.free_symbols}
            return bool(sympy.simplify(sympy.sympify(self.paper, locals=names) - self.derived) == 0)
        digits = len(self.paper.partition(".")[2])
        return abs(float(self.derived) - float(self.paper)) <= 0.5 * float(f"1e-{digits}") + 1e-9

    @property
    def mark(self) -> str:
        """How the two compare, in a word."""
        if self.derived is None:
            return "not rederived"
        if not self.paper:
            return "new"
        if self.agrees:
            return "="
        if isinstance(self.derived, str) or sympy.sympify(self.derived).free_symbols:
            return "differs"
        return f"{100 * (float(self.derived) / float(self.paper) - 1):+.1f} %"

    @property
    def ours(self) -> str:
        """What was derived, as text."""
        if self.derived is None:
            return "-"
        if isinstance(self.derived, str) or sympy.sympify(self.derived).free_symbols:
            return str(self.derived)
        return f"{float(self.derived):.5g}"


def table(rows: list[Row]) -> str:
    """The rows under each other."""
    cells = [("", "paper", "derived", "", "")]
    cells += [(row.what, row.paper or "-", row.ours, row.mark, row.note) for row in rows]
    wide = [max(len(line[k]) for line in cells) for k in range(4)]
    return "\n".join(
        f"  {a:{wide[0]}}  {b:>{wide[1]}}  {c:>{wide[2]}}  {d:{wide[3]}}  {e}".rstrip() for a, b, c, d, e in cells
    )


# -- the diagrams -------------------------------------------------------------------------------------


@cd.algorithm("q d, x d, x d -> q d", name="hopper")
def hopper(Q: Any, K: Any, V: Any) -> Any:
    """Attention as the paper runs it on Hopper: scores are rounded to FP16; the types of inputs are given to io."""
    S = cd.cast(cd.einsum("q d, x d -> q x", Q, K) / cd.sqrt(cd.size("d")), "fp16")
    return cd.einsum("q x, x d -> q d", cd.softmax(S, "x"), V)


@cd.algorithm("q d, q, x d, x, x d, x -> q d", name="scaled")
def scaled(Q: Any, q_scale: Any, K: Any, k_scale: Any, V: Any, v_scale: Any) -> Any:
    """Attention on quantised inputs, each row of which has a scale of its own."""
    S = cd.einsum("q d, x d -> q x", Q, K) * q_scale * k_scale / cd.sqrt(cd.size("d"))
    return cd.einsum("q x, x d -> q d", cd.softmax(S, "x"), V * v_scale)


@cache
def matmul() -> cd.Program:
    """Rows and columns of the result in groups, the summed axis streamed."""
    product: cd.Program = cd.library.get("matmul").stream("b").group("a c")
    return product


@cache
def flash() -> cd.Program:
    """Queries in groups, keys and values streamed."""
    attention: cd.Program = cd.library.get("attention").stream("x").group("q")
    return attention


@cache
def derived() -> cd.Program:
    """The loop that is to run on Hopper."""
    return hopper.stream("x").group("q")


@cache
def on_hopper(kind: str = "mixed", keys: int = CONFIGURATION["s_x"]) -> Any:
    """The configuration of section 5.6 on an H100, or that of all in FP16 or FP8; or as if it held so many keys."""
    inputs = {"Q": "fp8", "K": "fp8", "V": "fp16", "out": "fp16"} if kind == "mixed" else kind
    # In FP8 the weights are rounded too, so that both products run in it, as in FlashAttention-3's.
    types = {"exp [q x]": "fp8"} if kind == "fp8" else {}
    chip = H100 if keys == CONFIGURATION["s_x"] else replace(H100, **ENDLESS)
    values = {**CONFIGURATION, "s_x": keys}
    return napkin.configure(derived(), chip, values, inputs, arithmetic="fp16", types=types)


# -- sections 2 and 3: tiles ----------------------------------------------------------------------------


@cd.algorithm("a x, b x -> a b y", name="two_axes")
def two_axes(A: Any, B: Any) -> Any:
    """Figure 12's form: two inputs with slices of x, an output with slices of y, weaved over a and b."""
    return cd.einsum("a x, b x -> a b", A, B) + cd.index("y")


@cache
def many_heads() -> tuple[cd.Program, cd.Program]:
    """Attention of several heads, and of queries that share keys, in groups of all but the streamed axis."""
    many = cd.library.get("multi_head_attention").stream("x").group("b h q")
    return many, cd.library.get("grouped_query_attention").stream("x").group("b k r q")


def tiled() -> list[Row]:
    """Transfers and memory of tiles, read off each diagram."""
    many, grouped = many_heads()
    rows = []
    for what, given, paper, put in (
        ("two inputs, one output", two_axes.stream("x").group("a b"), "a*b*x*(1/g_b + 1/g_a) + a*b*y", {}),
        ("matrix product", matmul(), "a*b*c*(1/g_c + 1/g_a) + a*c", {}),
        ("attention", flash(), "2*q*d + 2*x*q*d/g_q", {}),
        ("multi-head attention", many, "2*h*q*d + 2*h*x*q*d/g_q", {"b": 1}),
        ("grouped queries", grouped, "2*k*r*q*d + 2*x*k*r*q*d/(g_q*g_r)", {"b": 1}),
    ):
        form = given.io().relaxed
        rows.append(Row(f"H of {what}", paper, form.subs({s: put[str(s)] for s in form.free_symbols if str(s) in put})))
    return [
        *rows,
        Row("M of matrix product", "g_a*g_c + g_a*s_b + s_b*g_c", matmul().io().memory),
        Row("M of attention", "2*g_q*d + 2*s_x*d", flash().io().memory, "ours has the scores and three numbers a row"),
        Row("FLOPs of a matrix product", "2*a*b*c", matmul().io().work["tensor"]),
    ]


# -- sections 3 and 4.1: transfers at a memory M --------------------------------------------------------


def power_forms() -> list[Row]:
    """Equation 1: H*(M) = sum_t alpha_t M^(-beta_t), read off the optimum of each diagram."""
    many, grouped = many_heads()
    rows = []
    for what, given, paper, put in (
        ("matrix product", matmul(), "2*a*b*c*M**(-1/2) + a*c", {}),
        ("attention", flash(), "4*x*q*d**2/M + 2*q*d", {}),
        ("multi-head attention, h heads", many, "4*h*x*q*d**2/M + 2*h*q*d", {"b": 1}),
        ("grouped queries, k x r heads", grouped, "4*k*r*x*q*d**2/M + 2*k*r*q*d", {"b": 1}),
    ):
        form = given.io().optimum().power_form.expr
        rows.append(Row(what, paper, form.subs({s: put[str(s)] for s in form.free_symbols if str(s) in put})))
    return rows


# -- appendix B.1: transfers against work ---------------------------------------------------------------


def intensity() -> list[Row]:
    """When a product, or attention, is bound by computing on an H100: memory and sizes that it takes."""
    form = napkin.per_operation(matmul().io())
    rate, long = H100.tensor["fp16"], {"b": math.inf}
    hbm, smem = (napkin.machine_ratio(b, rate, width=2) for b in (H100.hbm_bytes_per_s, INTO_SMEM))
    wide = napkin.per_operation(matmul().io(dtype="fp16"))
    attention = flash().io(dtype="fp16")
    ours = napkin.per_operation(attention)
    bytes_each = napkin.machine_ratio(H100.hbm_bytes_per_s, rate)
    whole = napkin.min_memory_integer(attention, SIZES, bytes_each, {"s_x": 64})
    tile = {"g_q": 128, "s_x": 64}
    return [
        Row("H/K of a product, values for a FLOP", "M**(-1/2) + 1/(2*b)", form.expr),
        Row("HBM: least memory, b without end, KiB", "681", float(napkin.min_memory(form, hbm, long)) * 2 / KIB),
        Row("HBM: least b, M without end", "295", float(napkin.size_range(form, "b", hbm).lower)),
        Row("SMEM at 12 TB/s: least b, M without end", "82", float(napkin.size_range(form, "b", smem).lower)),
        Row(
            "SMEM: least b with 256 KiB", "151", float(napkin.size_range(form, "b", smem, memory=128 * KIB).lower),
            "L1 and SMEM of an SM together: our guess at the memory that the paper takes",
        ),
        Row(
            "SMEM: least b with the 227 KiB of a block", "",
            float(napkin.size_range(form, "b", smem, memory=H100.smem_per_block // 2).lower),
        ),
        Row(
            "HBM: least memory, FP32 accumulators, KiB", "", float(napkin.min_memory(wide, bytes_each, long)) / KIB,
            "the paper's 681 KiB keeps accumulators in FP16",
        ),
        Row("H/K of attention, bytes for a FLOP", "", ours.expr),
        Row(
            "HBM: least memory of attention, d = 128, KiB", "",
            float(napkin.min_memory(ours, bytes_each, {"x": SIZES["x"], "d": SIZES["d"]})) / KIB,
        ),
        Row(
            f"the same of whole tiles, blocks of 64: g_q = {whole.tiles['g_q']}, KiB", "", whole.memory / KIB,
            "exact: scores, statistics and blocks included",
        ),
        Row(
            "bandwidth that g_q = 128 needs, TB/s", "",
            float(napkin.bandwidth_needed(attention, SIZES, tile, rate)) / 1e12,
            f"HBM has {H100.hbm_bytes_per_s / 1e12:g}: K and V have to come from L2",
        ),
    ]  # fmt: skip


# -- section 4.3: quantisation --------------------------------------------------------------------------


def quantisation() -> list[Row]:
    """Equation 3, and what FP8 buys when accumulators stay FP32 and rows have scales."""
    rows = []
    for what, given, paper in (("attention", flash(), "4"), ("a large product", matmul(), "2.83")):
        form = given.io().optimum().power_form
        beta = max(b for _, b in form.terms)
        naive = napkin.quantization_gain(form.quantized(2), form.quantized(1))[beta]
        rows.append(Row(f"{what}: half the bytes of everything, times fewer", paper, naive, f"2^(1 + {beta})"))
    types = {"Q": "fp8", "K": "fp8", "V": "fp8", "out": "fp16"}
    half = flash().io(dtype="fp16")
    eighth = flash().io(dtype=types)
    with_scales = scaled.stream("x").group("q").io(dtype=types)
    product = [matmul().io(dtype=d).optimum().power_form for d in ("fp16", {"A": "fp8", "B": "fp8", "out": "fp16"})]

    def gain(wide: Any, narrow: Any, beta: Any = 1) -> Any:
        return napkin.quantization_gain(wide, narrow)[Fraction(beta)]

    honest = gain(half.optimum().power_form, eighth.optimum().power_form)
    scales = gain(half.optimum().power_form, with_scales.optimum().power_form)
    (d,) = scales.free_symbols
    found = [exhaustive_optimum(io.account, SIZES, H100.smem_per_block) for io in (half, with_scales)]
    moved = [f.transfers for f in found if f is not None]
    return [
        *rows,
        Row("attention FP16 to FP8, FP32 accumulators", "", honest, "(2+2)(2+4) / (1+1)(1+4) bytes: not 4"),
        Row("the same with a scale of 4 bytes for each row", "", scales),
        Row("the same at d = 128", "", scales.subs(d, 128)),
        Row(f"the same, exact, whole tiles in {H100.smem_per_block // KIB} KiB, q = x = 8192", "", moved[0] / moved[1]),
        Row(
            "a large product FP16 to FP8, FP32 accumulators",
            "",
            gain(product[0], product[1], Fraction(1, 2)),
            "not 2.83",
        ),
    ]


# -- sections 4.4 and 4.5: a level that keeps its results below, and clusters ------------------------------


def caching() -> list[Row]:
    """Theorem 2: a level that keeps its results in N children counts as large as they all are."""
    optimum = flash().io().optimum()
    M, N, small = sympy.symbols("M_1 N M_2", positive=True)
    model = napkin.Model.of(optimum, [napkin.Tier("L2", M, 1), napkin.Tier("SMEM", small, 0)])
    found = model.caching(small, N)
    nested = flash().io(levels=("HBM", "L2", "SMEM"), placement={"state": "SMEM"})
    edge = nested.edges[("HBM", "L2")].relaxed
    tile, child = (next(iter(nested.tiles[level].values())) for level in ("L2", "SMEM"))
    d = next(s for s in edge.free_symbols if str(s) == "d")
    counted = edge.subs(sympy.Symbol(str(tile), positive=True, integer=True), N * small / (2 * d))
    rows = [
        Row("attention: H of the upper edge", "4*x*q*d**2/(N*M_2) + 2*q*d", model.form.at(found.memory)),
        Row("the same counted with tiles in tiles, g_q = N M_2/2d", "4*x*q*d**2/(N*M_2) + 2*q*d", counted),
        Row("children that a group needs", "N", found.needed, f"counted: {nested.children['SMEM']} ({child})"),
    ]
    # What that is worth on an H100, at a length at which 132 tiles are not yet the whole axis.
    long = {"q": 131072, "x": 131072, "d": 128}
    tiers = napkin.tiers(H100, "HBM", "L2", "SMEM")
    plain = napkin.Model.of(flash().io(dtype="fp16").optimum(), tiers)
    cached = plain.cached("L2", H100.sms)

    def at(formula: Any) -> float:
        return float(formula.subs({s: long[str(s)] for s in formula.free_symbols}))

    alone = plain.without("L2")
    return [
        *rows,
        Row("H100, one head of 131,072: HBM for each SM apart, ms", "", 1e3 * at(alone.total)),
        Row(
            "with an L2 and results in 132 SMEMs: HBM, ms", "", 1e3 * at(cached.parts["L2"]),
            f"as large as {float(cached.tier('L2').memory) / 2**20:.1f} MiB",
        ),
        Row("the same: L2 to SMEM, ms", "", 1e3 * at(cached.parts["SMEM"])),
        Row("what the second level buys, times less", "", at(alone.total) / at(cached.total)),
    ]  # fmt: skip


def clusters() -> list[Row]:
    """Theorem 3 with the H800's bandwidths: what N SMEMs that pass blocks on to each other save."""
    M, N, h, x = sympy.symbols("M N h x", positive=True)
    rows = []
    for what, given, paper in (
        ("attention", flash(), "(h - x)*4*k*q*d**2*(1 - 1/N)/M"),
        ("matrix product", matmul(), "(h - x)*2*a*b*c*(1 - N**(-1/2))/M**(1/2)"),
    ):
        model = napkin.Model.of(given.io().optimum(), [napkin.Tier("SMEM", M, h + x)])
        gain = model.gain(model.clustered("SMEM", N, x))
        # Costs are h + x and x, so that their difference is positive; keys are called k beside the cost x.
        keys = {s: sympy.Symbol("k", positive=True) for s in gain.free_symbols if str(s) == "x" and s != x}
        rows.append(Row(f"{what}: gain", paper.replace("(h - x)", "h"), sympy.factor(gain.subs(keys))))
    for what, beta in (("attention", 1), ("matrix product", Fraction(1, 2))):
        saved = {
            n: float(napkin.cross_transfer_gain(beta, n, 1 / H800, 1 / passed)) for n, passed in H800_CLUSTERS.items()
        }
        best = max(saved, key=lambda n: saved[n])
        for n, seconds in saved.items():
            note = "the best" if n == best else ""
            rows.append(Row(f"H800, {what}, N = {n}: s saved a TB", "", seconds, note))
            rows.append(Row("   as a part of the leading term, %", "", 100 * seconds * H800))
    return rows


# -- section 5: the eight steps -------------------------------------------------------------------------


def arrays() -> list[Row]:
    """Steps 3 to 5: levels, types and divisors of the arrays of the derived diagram."""
    columns = on_hopper().columns
    by_name = {p.name: p for p in columns.arrays if not p.pipe}
    marks = columns.divisors

    def told(name: str) -> str:
        place = by_name[name]
        return f"{place.shape_text} {place.dtype} {place.level}"

    rows = [
        Row("Q", "w_q x d fp8 SMEM", told("Q")),
        Row("K", "s_x x d fp8 SMEM", told("K")),
        Row("V", "s_x x d fp16 SMEM", told("V")),
        Row("S", "w_q x s_x fp16 registers", told("einsum [q x]")),
    ]
    why = {
        "s_x": "keys are the depth of P V: 16 in FP16; 32 would be FP8's",
        "u_d": "columns come in eights; the paper's 16 is of unknown origin",
    }
    for size, name, paper in (
        ("w_q", "w_q", "128"), ("s_x", "s_x", "32"), ("u_x", "u_x", "8"), ("d", "d", "128"), ("u_d", "d'", "16"),
    ):  # fmt: skip
        rows.append(Row(f"{name} is a multiple of", paper, marks[size], why.get(size, "")))
    return rows


def configuration() -> list[Row]:
    """Steps 6 and 7: memory, warpgroups, clocks, throughput and the bandwidth test."""
    found = on_hopper()
    rooms = {r.level: r for r in found.rooms}
    clocks = {c.name: c for c in found.clocks}
    rules = "by our rules for pipes and places; the paper's list of variables is not known to us"
    rows = [
        Row("SMEM of a thread block, KiB", "48", rooms["SMEM"].block / KIB, "K and V, two buffers"),
        Row("SMEM of a warpgroup, KiB", "48", rooms["SMEM"].group / KIB, rules),
        Row("registers of a warpgroup, KiB", "74.75", rooms["registers"].group / KIB, rules),
        Row("warpgroups that SMEM holds", "3.7", rooms["SMEM"].max_warpgroups),
        Row("warpgroups that registers hold", "3.4", rooms["registers"].max_warpgroups),
        Row("warpgroups", "3", found.warpgroups),
        Row("g_q", "384", found.rows),
    ]
    for name, label, operations, rate, paper in (
        ("einsum [q x]", "Q K in FP8", "16384", "8192", "2"),
        ("special functions", "exponentials", "65", "16", "4.06"),
        ("einsum [q d]", "P V in FP16", "16384", "4096", "4"),
        ("arithmetic on [q d]", "accumulating in FP16", "256", "512", "0.5"),
    ):
        made = clocks[name]
        rows.append(Row(f"{label}: operations a thread", operations, made.operations))
        rows.append(Row(f"{label}: a clock", rate, made.per_clock))
        rows.append(Row(f"{label}: clocks a thread", paper, made.clocks))
    scores = sum(c.clocks for name, c in clocks.items() if name in ("arithmetic on [q x]", "arithmetic on [q]"))
    return [
        *rows,
        Row("arithmetic on scores and statistics: clocks", "", scores, "the paper leaves it out"),
        Row("clocks of the matrix units", "6", found.pipeline("tensor")),
        Row("PFLOP/s if nothing waits", "1.32", found.flops_per_s / 1e15),
        Row("bandwidth test: g_q above", "295.35", found.minimum_rows),
        Row("computing a block for 384 rows, us", "1.26", 1e6 * found.compute_s),
        Row("moving a block to each SM, us", "0.97", 1e6 * found.transfer_s),
        Row("slack of the exponentials, %", "50", 100 * found.slack, "the paper says about 50"),
    ]


def overlapping() -> list[Row]:
    """Section 6: FlashAttention-3, if the softmax takes two thirds more than its operations."""
    half, eighth, more = on_hopper("fp16"), on_hopper("fp8"), Fraction(2, 3)
    long = {kind: on_hopper(kind, 4096) for kind in ("fp16", "fp8")}
    reached = {kind: 100 * got / peak for kind, (got, peak) in REACHED.items()}
    note = "ours has one exponential more for 64 scores, that of the repair"
    free = "as if they fitted: what the paper's 4 clocks for exponentials come to"
    alone = eighth.time("intra")
    return [
        Row("FlashAttention-3, FP16: reached, % of the peak", "75", reached["fp16"]),
        Row("FlashAttention-3, FP8: reached, % of the peak", "60", reached["fp8"], "1.2 of 1.98 PFLOP/s is 60.6"),
        Row("FP16, within warpgroups, two thirds more: %", "75", 100 * half.utilization("intra", more), note),
        Row("FP8, between warpgroups, two thirds more: %", "60", 100 * eighth.utilization("inter", more), note),
        Row("the first with blocks of 4,096 keys: %", "75", 100 * long["fp16"].utilization("intra", more), free),
        Row("the second with blocks of 4,096 keys: %", "60", 100 * long["fp8"].utilization("inter", more), free),
        Row("FP16, between warpgroups: slack of the softmax, %", "100", 100 * half.slack, note),
        Row("FP8, within: special functions idle, %", "33", 100 * (1 - eighth.pipeline("exp") / alone)),
    ]


def unknown() -> list[Row]:
    """Figures of the paper that we have not rederived, and why."""
    return [
        Row(
            "first version: 13 warps an SM on Ampere (not 8)",
            "13",
            None,
            "the sizes of that sketch are not known to us",
        ),
        Row("transfers' part of a GPU's energy, %", "46", None, "quoted from a measurement, not computed"),
    ]


SECTIONS: tuple[Callable[[], list[Row]], ...] = (
    tiled, power_forms, intensity, quantisation, caching, clusters, arrays, configuration, overlapping, unknown,
)  # fmt: skip


def energy() -> str:
    """Joules of attention's transfers over the H100's edges: nobody published what a byte costs there."""
    formula = flash().io(dtype="fp16").transfers
    moved = int(formula.subs({s: {**SIZES, "g_q": 128}[str(s)] for s in formula.free_symbols}))
    return str(napkin.energy({("HBM", "L2"): moved, ("L2", "SMEM"): moved}, H100.hierarchy))


def main() -> None:
    """Prints all of it."""
    for section in SECTIONS:
        print((section.__doc__ or "").strip())
        print(table(section()))
        print()
    print("Step 1: the derived loop.")
    print(derived().code("pseudocode"))
    print()
    print("Step 2: what of an iteration may run in pieces.")
    found = on_hopper()
    for name in dict.fromkeys(s.name for s in found.columns.subloops):
        mine = ", ".join(f"{s.axis} ({s.subtile_count})" for s in found.columns.subloops if s.name == name)
        print(f"  {name:16} {mine}")
    print()
    print("Steps 3 to 5: the arrays, read off the derived diagram.")
    print(found.columns)
    print()
    print("Step 8: three warpgroups; Q the scores of a block, s the softmax, P the values mixed, a the sums.")
    made = napkin.timeline(found, iterations=5)
    print(made.draw())
    print(
        f"  {float(made.period):g} clocks an iteration; at work: "
        + ", ".join(f"{p} {b:.0%}" for p, b in made.busy.items())
    )
    print()
    print("Energy of attention's transfers on an H100.")
    print(energy())
