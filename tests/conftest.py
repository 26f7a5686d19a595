"""Every certificate that a test has found is one by the published schema too."""

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

SCHEMA = Path(__file__).resolve().parent.parent / "catdiag" / "certificate.schema.json"
# The validator takes a tenth of a second for this many letters.
_LARGEST = 20_000


@pytest.fixture(scope="session")
def by_schema() -> Any:
    """The validator of certificates."""
    import jsonschema

    return jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


@pytest.fixture(scope="session", autouse=True)
def certificates_fit_the_schema(by_schema: Any) -> Iterator[None]:
    api = importlib.import_module("catdiag.prove.api")
    certify: Callable[..., Any] = api.certify

    @functools.wraps(certify)
    def validated(*args: Any, **options: Any) -> Any:
        theorem = certify(*args, **options)
        if len(json.dumps(theorem.certificate)) <= _LARGEST:
            by_schema.validate(theorem.certificate)
        return theorem

    api.certify = validated
    yield
    api.certify = certify
