"""What the tests of emitted kernels share.

The stand-ins for Gluon need torch: no test collects them, `test_gluon_machine` imports them where torch is.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

collect_ignore_glob = ["gluon_*.py"]


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """torch in one thread. Blocks are small: threads that wait for work would take most of the time."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
