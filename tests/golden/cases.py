"""The table of outputs: which there are, which are made with the suite, which are stored as whole texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.golden import commands, outputs
from tests.golden.normalize import ROOT, normalized
from tests.golden.store import Place, Store

STORE = Store(Path(__file__).resolve().parent)

READABLE = ("attention", "matmul", "layer_norm")
_LARGE = {"html": (), "repr": ("dot",), "certificate": ("dot",), "svg-dark": (), "svg-source": ("matmul",),
          "svg": ("matmul",), "svg-lines": ("dot",), "tikz": ("matmul",), "report-json": ("matmul",),
          "plan-json": ("matmul",)}  # fmt: skip

# Of what takes little time, some of each sort: attention, products, norms, masks, windows, gathers, further forms.
SUITE = ("attention", "matmul", "layer_norm", "dot", "softmax", "variance", "matvec", "embedding", "causal_attention",
         "rotary_embedding", "rms_norm_linear", "cross_entropy", "im2col", "mlp", "attention-saved",
         "moments-by-fold", "matmul-as-written", "softmax-passes")  # fmt: skip


@dataclass(frozen=True)
class Unit:
    """What is made at once: outputs that share their work, by kind and name."""

    name: str
    places: frozenset[Place]
    quick: bool
    needs: tuple[str, ...] = ()

    @property
    def missing(self) -> str:
        """A package that it needs and that is not installed."""
        return next((name for name in self.needs if find_spec(name) is None), "")

    def texts(self, places: set[Place] | None = None) -> dict[Place, str]:
        """Its outputs, or those of `places`, as they are compared."""
        wanted = self.places if places is None else self.places & places
        kinds = {kind for kind, _ in wanted}
        return {place: normalized(text) for place, text in _MAKERS[self.name.partition("/")[0]](self, kinds).items()}


def _operator(unit: Unit, kinds: set[str]) -> dict[Place, str]:
    return outputs.made(unit.name.partition("/")[2], kinds)


def _command(unit: Unit, _: set[str]) -> dict[Place, str]:
    ((kind, name),) = unit.places
    return {(kind, name): commands.text_of((commands.HELP if kind == "help" else commands.COMMANDS)[name])}


def _proofs(unit: Unit, _: set[str]) -> dict[Place, str]:
    return {(kind, name): (_PROOFS / f"{name}.json").read_text(encoding="utf-8") for kind, name in unit.places}


_PROOFS = Path(ROOT, "proofs")
_MAKERS: dict[str, Callable[[Unit, set[str]], dict[Place, str]]] = {
    "operator": _operator,
    "command": _command,
    "help": _command,
    "proofs": _proofs,
}


def units() -> list[Unit]:
    """All that is made."""
    found = [
        Unit(f"operator/{name}", frozenset((kind, name) for kind in outputs.kinds_of(name)), name in SUITE)
        for name in outputs.names()
    ]
    for kind, table in (("help", commands.HELP), ("command", commands.COMMANDS)):
        found += [Unit(f"{kind}/{n}", frozenset({(kind, n)}), c.quick, c.needs) for n, c in table.items()]
    stored = frozenset(("proofs", file.stem) for file in _PROOFS.glob("*.json"))
    return [*found, Unit("proofs/all", stored, True)]


def is_whole(place: Place) -> bool:
    """Whether an output is stored as it is."""
    kind, name = place
    if kind in ("help", "command"):
        return kind == "command" and name in _WHOLE_COMMANDS
    return kind != "proofs" and name in _LARGE.get(kind, READABLE)


_WHOLE_COMMANDS = {
    "derive-list", "derive-of-file", "derive-unknown", "derive-error-in-file", "derive-does-not-fit",
    "derive-not-streamed", "prove-proved", "prove-refuted", "check-one", "io-attention", "fusions", "shard",
    "hardware-H100", "axioms",
}  # fmt: skip
