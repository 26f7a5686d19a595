"""What tests of regions in graphs of Dynamo share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest


@pytest.fixture
def fresh_dynamo() -> Iterator[None]:
    """Dynamo without compiled graphs, before a test and after it."""
    torch = pytest.importorskip("torch")
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What the backend has logged."""
    caplog.set_level(logging.INFO, logger="catdiag.integrations.torch_backend")
    return lambda: [r.getMessage() for r in caplog.records if r.name == "catdiag.integrations.torch_backend"]
