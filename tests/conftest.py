"""What the tests of all rooms share: certificates that fit the published schema, and no proof of one thing twice."""

from __future__ import annotations

import functools
import gc
import importlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parent
SCHEMA = TESTS.parent / "catdiag" / "certificate.schema.json"
# The rooms whose tests are not about proving: there, what has been proved in a process need not be proved again.
BUILT_ON_PROOFS = {"cost", "draw", "emit", "gpu", "library", "rewrite", "run", "test_documents.py"}

# What is collected stays to the end. The collector of garbage would go through it again and again, which takes a
# quarter of all computing.
gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(2000, 10, 50)
    gc.enable()


@pytest.fixture(scope="session")
def by_schema() -> Any:
    """The validator of certificates that says where one breaks the schema."""
    import jsonschema

    return jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


class Proved:
    """Theorems that were found in this process, by what `certify` was given, where `known` is set."""

    def __init__(self, certify: Callable[..., Any], fits: Callable[[Any], None]) -> None:
        self.known = False
        self._certify, self._fits = certify, fits
        self._solver = importlib.import_module("catdiag.solvers.z3").Z3
        self._found: dict[str, tuple[Any, str]] = {}

    def __call__(self, ask: Any, statement: Any, further: bool = True, earlier: Any = None) -> Any:
        known = self.known and type(ask) is self._solver
        place = json.dumps([ask.rlimit, statement, further, earlier]) if known else ""
        if place in self._found:
            theorem, certificate = self._found[place]
            return replace(theorem, certificate=json.loads(certificate))
        theorem = self._certify(ask, statement, further, earlier)
        self._fits(theorem.certificate)
        if place:
            self._found[place] = replace(theorem, certificate={}), json.dumps(theorem.certificate)
        return theorem


@pytest.fixture(scope="session")
def proved() -> Iterator[Proved]:
    """Every certificate that a test has found is one by the published schema too."""
    import jsonschema_rs

    api = importlib.import_module("catdiag.prove.api")
    schema = jsonschema_rs.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    certify = api.certify
    kept = Proved(certify, schema.validate)
    api.certify = functools.wraps(certify)(lambda *args, **options: kept(*args, **options))
    yield kept
    api.certify = certify


@pytest.fixture(autouse=True)
def proved_once(request: pytest.FixtureRequest) -> None:
    """What has been proved is known where proofs are not what is tested, and nothing is changed under them."""
    if request.node.get_closest_marker("gpu") is not None:
        return  # machines with a GPU have the package, and little of what its tests need
    proved: Proved = request.getfixturevalue("proved")
    path = request.path
    room = path.relative_to(TESTS).parts[0] if path.is_relative_to(TESTS) else ""
    proved.known = room in BUILT_ON_PROOFS and "monkeypatch" not in request.fixturenames
