"""The pass of Inductor: `torch.compile(model)` takes regions without naming a backend, or leaves the graph as it is."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest

from catdiag.errors import CatdiagError
from catdiag.integrations.inductor_pass import RegionPass

torch = pytest.importorskip("torch")
if shutil.which("g++") is None:
    pytest.skip("Inductor compiles for the CPU with g++", allow_module_level=True)
nn, F = torch.nn, torch.nn.functional
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),
    pytest.mark.usefixtures("fresh_dynamo"),
]


class Block(nn.Module):
    """A block of a transformer; `lgamma` is in no region."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(12), nn.Linear(12, 36), nn.Linear(12, 12)

    def forward(self, x: Any) -> Any:
        h = torch.lgamma(self.norm(x).abs() + 1)
        q, k, v = (a.unflatten(-1, (3, 4)).transpose(1, 2) for a in self.qkv(h).chunk(3, -1))
        return x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


def compiled(model: Any, **options: Any) -> Any:
    return torch.compile(model, options={"pre_grad_custom_pass": RegionPass(**options)})


def test_regions_are_taken_and_mean_what_the_model_does(said: Callable[[], list[str]]) -> None:
    model, x = Block().eval(), torch.randn(2, 5, 12)
    function = compiled(model, reference=True, check=True)
    with torch.no_grad():
        torch.testing.assert_close(function(x), model(x))
        torch.testing.assert_close(function(2 * x), model(2 * x))
    assert len([line for line in said() if "; taken: run by its reference" in line]) == 2


def test_gradients_are_those_of_the_model(said: Callable[[], list[str]]) -> None:
    model, x = Block().double(), torch.randn(2, 5, 12, dtype=torch.float64, requires_grad=True)
    function, weights = compiled(model, reference=True, training=True), torch.randn(2, 5, 12, dtype=torch.float64)
    found, wanted = (torch.autograd.grad((f(x) * weights).sum(), [x, *model.parameters()]) for f in (function, model))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)
    assert len([line for line in said() if "; taken" in line]) == 2


@pytest.mark.parametrize("case", ["training", "no GPU", "lengths"])
def test_a_graph_of_which_nothing_is_taken_is_left_as_it_is(case: str, said: Callable[[], list[str]]) -> None:
    if case == "no GPU" and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    graphs: list[Any] = []

    def passed(graph: Any) -> None:
        before = str(graph)
        RegionPass(reference=case != "no GPU")(graph)
        graphs.append((before, str(graph)))

    function = torch.compile(
        lambda a: torch.softmax(a, -1), dynamic=case == "lengths", options={"pre_grad_custom_pass": passed}
    )
    with torch.set_grad_enabled(case == "training"):
        function(torch.randn(3, 4, requires_grad=case == "training"))
    ((before, after),) = graphs
    assert before == after
    reasons = {"training": "a gradient is required", "no GPU": "no GPU", "lengths": "lengths do not change"}
    assert "nothing is taken" in said()[-1] and reasons[case] in said()[-1]


def test_options_that_a_pass_does_not_have_are_named() -> None:
    with pytest.raises(CatdiagError, match="has no option 'chips'"):
        RegionPass(chips="h200")
    with pytest.raises(CatdiagError, match="the option rest of a pass is 'eager': expected none: Inductor"):
        RegionPass(rest="eager")
