"""What tests of kernels share: a cache of their own, and whether Triton compiles or interprets in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CATDIAG_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def compiling() -> None:
    """For tests that make machine code."""
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    if os.environ.get("TRITON_INTERPRET"):
        pytest.skip("nothing is compiled under TRITON_INTERPRET")


@pytest.fixture(scope="session")
def interpreting() -> None:
    """For tests that run kernels on the processor; `test_in_the_interpreter` runs them in a process of their own."""
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    if not os.environ.get("TRITON_INTERPRET"):
        pytest.skip("run by test_in_the_interpreter, with TRITON_INTERPRET set")
