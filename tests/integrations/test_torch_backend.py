"""The backend of `torch.compile`: which regions of a graph it takes, and that the graph means what the model does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from catdiag.chip import hardware
from catdiag.errors import CatdiagError
from catdiag.integrations.graph_regions import Region, bytes_of, exported, imported, partitioned, replaced
from catdiag.integrations.inductor_model import flops_of, least_s, predicted_s
from catdiag.integrations.region_operator import RegionMismatch, RegionRunner, results_of
from catdiag.integrations.torch_backend import backend, plan_region, take_quicker

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),
    pytest.mark.usefixtures("fresh_dynamo"),
]
REFERENCE = {"reference": True, "check": True, "rest": "eager"}


class Block(nn.Module):
    """A block of a transformer whose norm calls an operation that is not imported, if `odd`."""

    def __init__(self, odd: bool = False) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(12), nn.Linear(12, 36), nn.Linear(12, 12)
        self.odd = odd

    def forward(self, x: Any) -> Any:
        h = self.norm(x)
        if self.odd:
            h = torch.special.bessel_j0(h)
        q, k, v = (a.unflatten(-1, (3, 4)).transpose(1, 2) for a in self.qkv(h).chunk(3, -1))
        return x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("odd", [False, True])
def test_regions_are_taken_and_mean_what_the_model_does(odd: bool, said: Callable[[], list[str]]) -> None:
    model, x = Block(odd).eval(), torch.randn(2, 5, 12)
    compiled = torch.compile(model, backend=backend, options=REFERENCE)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
        torch.testing.assert_close(compiled(2 * x), model(2 * x))
    assert len([line for line in said() if "; taken: run by its reference" in line]) == 1 + odd


def test_inductor_compiles_the_rest() -> None:
    model, x = Block(odd=True).eval(), torch.randn(2, 5, 12)
    compiled = torch.compile(model, backend=backend, options={"reference": True})
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))


def test_a_graph_break_makes_two_graphs(said: Callable[[], list[str]]) -> None:
    model = Block().eval()

    def twice(x: Any) -> Any:
        y = model(x)
        torch._dynamo.graph_break()
        return model(y)

    x = torch.randn(2, 5, 12)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(twice, backend=backend, options=REFERENCE)(x), twice(x))
    assert len([line for line in said() if "; taken" in line]) == 2


@pytest.mark.parametrize("dynamic", [None, True])
def test_lengths_that_change_have_the_regions_of_the_first_ones(
    dynamic: bool | None, said: Callable[[], list[str]]
) -> None:
    """Dynamo makes one graph for all lengths: from the second length on, or at once."""
    model = Block().eval()
    compiled = torch.compile(model, backend=backend, options={**REFERENCE, "rest": "aot_eager"}, dynamic=dynamic)
    with torch.no_grad():
        for length in (5, 6, 7, 6, 5):
            x = torch.randn(2, length, 12)
            torch.testing.assert_close(compiled(x), model(x))
    assert any("the regions are those of the first lengths" in line for line in said())


def test_a_region_of_lengths_that_change_is_differentiated() -> None:
    model = Block().eval()
    options = {**REFERENCE, "rest": "aot_eager", "training": True}
    compiled = torch.compile(model, backend=backend, options=options, dynamic=True)
    for length in (5, 6, 5):
        x, weights = torch.randn(2, length, 12, requires_grad=True), torch.randn(2, length, 12)
        found, wanted = (torch.autograd.grad((f(x) * weights).sum(), x)[0] for f in (compiled, model))
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)


def _untouched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """The graphs that the rest gets, and those that Dynamo made."""
    seen: list[tuple[Any, Any]] = []

    def rest(graph: Any, inputs: Any) -> Any:
        seen.append((graph, inputs))
        return graph

    monkeypatch.setattr(torch._dynamo, "lookup_backend", lambda name: rest)
    return seen


@pytest.mark.parametrize("case", ["training", "no GPU", "nothing known", "written"])
def test_where_nothing_is_taken_the_graph_is_handed_on_as_it_is(
    case: str, monkeypatch: pytest.MonkeyPatch, said: Callable[[], list[str]]
) -> None:
    if case == "no GPU" and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    seen = _untouched(monkeypatch)
    functions: dict[str, Any] = {
        "nothing known": torch.special.bessel_j0,
        "written": lambda a: a.add_(1),
    }
    function = functions.get(case, torch.exp)
    graph, inputs = torch.fx.GraphModule({}, _graph_of(function)), [torch.randn(3, requires_grad=case == "training")]
    with torch.set_grad_enabled(case == "training"):
        assert backend(graph, inputs, options={} if case == "no GPU" else REFERENCE) is graph
    assert seen[0][0] is graph and seen[0][1] is inputs
    assert "nothing is taken" in said()[-1]


def _graph_of(function: Any) -> Any:
    graph = torch.fx.Graph()
    a = graph.placeholder("a")
    graph.output((graph.call_function(function, (a,)),))
    return graph


def test_a_region_that_is_off_is_refused_when_it_is_checked() -> None:
    _, (region,) = partitioned(exported(Block().eval(), (torch.randn(2, 5, 12),)))
    runner = RegionRunner(imported(region), reference=True, check=True)
    right = runner._run
    runner._run = lambda *arrays: tuple(1.01 * result for result in right(*arrays))
    arrays = [torch.randn(a.shape) for a in region.example]
    with pytest.raises(RegionMismatch, match="is off by"):
        runner(*arrays)


def test_an_operator_gives_no_view_of_what_it_is_given() -> None:
    def both(x: Any) -> Any:
        return (x * 1.0).view(6), x.view(2, 3).T

    compiled = torch.compile(both, backend=backend, options=REFERENCE)
    x = torch.randn(6)
    with torch.no_grad():
        for one, other in zip(compiled(x), both(x), strict=True):
            torch.testing.assert_close(one, other)


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(CatdiagError, match="has no option 'chips': expected of chip, reference"):
        backend(None, [], options={"chips": "h200"})
    for option, value, said in (
        ("chip", "h900", "unknown hardware 'h900'"),
        ("limit", -1, "the option limit is -1: expected seconds"),
        ("check", 3, "the option check is 3: expected a bool"),
    ):
        with pytest.raises(CatdiagError, match=said):
            backend(None, [], options={option: value})


def region_of(function: Any, *example: Any) -> Region:
    _, (region,) = partitioned(exported(function, example))
    return imported(region)


@pytest.mark.parametrize("rest", ["eager", "aot_eager"])
def test_gradients_of_regions_are_those_of_the_model(rest: str, said: Callable[[], list[str]]) -> None:
    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.out = nn.LayerNorm(12), nn.Linear(12, 12)

        def forward(self, x: Any, mask: Any) -> Any:
            h = torch.lgamma(self.norm(x).abs() + 1)  # in no region
            return x + torch.where(mask, self.out(h), 0.0), h.sum(-1)

    model, mask = Gated().double(), torch.arange(12) < 7
    x = torch.randn(3, 12, dtype=torch.float64, requires_grad=True)
    compiled = torch.compile(model, backend=backend, options={**REFERENCE, "rest": rest, "training": True})
    found, wanted = (
        torch.autograd.grad(sum(a.square().sum() for a in f(x, mask)), [x, *model.parameters()])
        for f in (compiled, model)
    )
    assert len([line for line in said() if "; taken" in line]) >= 2
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)


def test_each_array_is_planned_in_its_own_type() -> None:
    def both(a: Any) -> Any:
        wide = a.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1)).to(a.dtype), wide.sum(-1)

    region = region_of(Function(both), torch.randn(4096, 1024).bfloat16())
    plan_region(region, "h200", 60)
    assert region.plan is not None and region.plan.module is not None, region.reason
    assert [out.dtype for out in region.plan.module.outputs] == ["bfloat16", "float32"]
    double = unread_region(lambda a: torch.softmax(a, -1), torch.randn(64, 64).double())
    assert not take_quicker(double, "h200", 60) and "computes in torch.float64: expected torch.bf" in double.reason


def test_what_export_asserts_is_no_result_of_a_region() -> None:
    def cast(a: Any) -> Any:
        return torch.lgamma((a.float() * 2).to(torch.bfloat16))

    _, regions = partitioned(exported(Function(cast), (torch.randn(4, 8).bfloat16(),)))
    assert [str(t.dtype) for region in regions for t in results_of(region)] == ["torch.bfloat16"]


class Function(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arrays: Any) -> Any:
        return self.function(*arrays)


def test_what_is_read_eagerly_and_what_a_plan_reads() -> None:
    x = torch.randn(4096, 1024)
    region = region_of(Function(lambda a: torch.softmax(a * 2 + 1, -1)), x)
    array = 4 * 4096 * 1024
    assert region.eager_bytes == 6 * array and region.operations == ("mul", "add", "softmax")
    plan_region(region, "h200", 60)
    assert region.plan is not None and region.plan.hbm_bytes == 2 * array
    assert region.others_s == pytest.approx(2 * array / (0.896 * 4.8e12), rel=1e-6)


def unread_region(function: Any, *example: Any) -> Region:
    _, (region,) = partitioned(exported(Function(function), example))
    return region


@pytest.mark.parametrize("rows", [64, 1 << 20])
def test_no_plan_is_made_where_a_bound_says_that_it_is_not_taken(rows: int) -> None:
    reason = "no plan is quicker by enough"
    region = unread_region(lambda a: torch.softmax(a, -1), torch.empty(rows, 1024, device="meta"))
    assert not take_quicker(region, "h200", 60) and region.reason == reason
    assert region.program is None and region.plan is None
    assert f"µs at least by any plan, PyTorch {1e6 * region.others_s:,.1f} µs; not taken: {reason}" in str(region)


def test_a_region_is_taken_only_where_its_plan_is_quicker(monkeypatch: pytest.MonkeyPatch) -> None:
    def shares(a: Any) -> Any:
        return F.softmax(a @ a.T, -1)

    small = unread_region(shares, torch.empty(256, 64, device="meta"))
    assert not take_quicker(small, "h200", 60) and small.reason == "a call takes the host 100 µs"
    monkeypatch.setattr("catdiag.integrations.torch_backend.HOST_CALL_S", 0.0)
    region = unread_region(shares, torch.empty(256, 64, device="meta"))
    taken = take_quicker(region, "h200", 60)
    assert region.plan is not None and region.others_s is not None
    assert taken == (1.15 * region.plan.time_s < region.others_s)
    assert region.least_s is not None and region.least_s <= region.plan.time_s


def test_a_bound_counts_what_must_move_and_be_multiplied() -> None:
    chip = hardware.get("h200")
    bandwidth, rate = chip.hbm_bytes_per_s * chip.sustained["hbm"], chip.tensor["bf16"] * chip.sustained["tensor"]

    def least(function: Any, *arrays: Any) -> float:
        return least_s(exported(Function(function), arrays), chip, "bf16")

    x, w = torch.empty(4096, 512, device="meta"), torch.empty(8192, 512, device="meta")
    assert least(torch.relu, x) == pytest.approx(2 * 4 * 4096 * 512 / bandwidth)
    assert least(F.linear, x, w[:128]) == pytest.approx(4 * (4096 * 512 + 128 * 512 + 4096 * 128) / bandwidth)
    wide = torch.empty(8192, 8192, device="meta", dtype=torch.bfloat16)
    assert least(F.linear, wide, wide) == pytest.approx(2 * 8192**3 / rate)
    rows = torch.zeros(10, dtype=torch.int64, device="meta")
    assert least(F.embedding, rows, w) == pytest.approx(4 * 10 * 512 / bandwidth)  # some of the table


def test_equal_layers_are_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[str] = []

    def decide(region: Region) -> bool:
        planned.append(region.name)
        region.taken, region.reason = False, "tried"
        return False

    graph = exported(nn.Sequential(*(Block() for _ in range(5))).eval(), (torch.randn(2, 5, 12),))
    _, regions = replaced(graph, decide, lambda region: None)
    assert len(regions) == 1 + 2 * 5 + 1  # the whole; norms and attention of five layers, and the last sum
    assert len(planned) == 1 + 1 + 1 + 1 + 1  # the whole, attention, the first norm, one after a sum, the last sum
    equal = [region for region in regions if region.name not in planned]
    assert all("tried (equal to region_0.region_" in region.reason for region in equal)


def test_signatures_are_of_what_is_computed_not_of_names() -> None:
    x = torch.randn(4, 6)

    def signature(function: Any, *arrays: Any) -> str:
        return unread_region(function, *arrays).signature

    one = signature(lambda a: torch.relu(a) * 2, x)
    assert one == signature(lambda other: torch.relu(other) * 2, x)
    assert one != signature(lambda a: torch.relu(a) * 3, x)
    assert one != signature(lambda a: torch.relu(a) * 2, x.double())
    assert one != signature(lambda a: torch.relu(a) * 2, torch.randn(6, 4).T)


def test_many_products_with_weights_are_looked_at_in_parts() -> None:
    model = nn.Sequential(*(nn.Linear(8192, 8192, device="meta") for _ in range(5))).bfloat16()
    x = torch.empty(1024, 8192, device="meta", dtype=torch.bfloat16)
    odd = Function(lambda a: model(a).relu())
    _, regions = partitioned(exported(odd, (x,)))
    (region,) = [r for r in regions if "linear" in r.operations]
    assert not take_quicker(region, "h200", 60) and region.program is None


def test_flops_of_products() -> None:
    q, k, w = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 7, 4), torch.randn(6, 4)
    graph = exported(
        Function(
            lambda q, k, w: (
                F.linear(q, w),
                q @ k.mT,
                F.scaled_dot_product_attention(q, k, k),
                torch.einsum("bhqd,bhkd->bqk", q, k),
            )
        ),
        (q, k, w),
    )
    found = {
        str(n.target._opname): flops_of(n)
        for n in graph.graph.nodes
        if n.op == "call_function" and n.target._opname != "transpose"
    }
    assert found == {
        "linear": 2 * 2 * 3 * 5 * 4 * 6,
        "matmul": 2 * 2 * 3 * 5 * 7 * 4,
        "scaled_dot_product_attention": 4 * 2 * 3 * 5 * 7 * 4,
        "einsum": 2 * 2 * 3 * 5 * 7 * 4,
    }
    linear = next(n for n in graph.graph.nodes if getattr(n.target, "_opname", "") == "linear")
    assert bytes_of(linear) == 4 * (2 * 3 * 5 * 4 + 6 * 4 + 2 * 3 * 5 * 6)
    assert predicted_s(graph, hardware.get("h200"), "bf16") > 3 * 2e-6


def test_gradients_stop_where_pytorch_stops_them() -> None:
    """Lowering a graph takes `torch.no_grad()` away: it is left as it is where that changes a gradient."""
    layer = nn.Linear(4, 4)

    def scaled(x: Any) -> Any:
        with torch.no_grad():
            size = layer(x).square().mean(-1, keepdim=True)
        return torch.softmax(layer(x) / (size + 1), -1)

    x = torch.randn(3, 4)
    wanted = torch.autograd.grad(scaled(x).square().sum(), layer.weight)
    compiled = torch.compile(scaled, backend=backend, options={**REFERENCE, "training": True})
    torch.testing.assert_close(torch.autograd.grad(compiled(x).square().sum(), layer.weight), wanted)
