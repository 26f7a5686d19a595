"""The processes that this one has started."""

from __future__ import annotations

import os


def children() -> set[int]:
    """The processes that this one has started and that still run."""
    while True:
        found = set()
        try:
            for task in os.listdir("/proc/self/task"):
                with open(f"/proc/self/task/{task}/children") as file:
                    found |= set(map(int, file.read().split()))
        except (FileNotFoundError, ProcessLookupError):
            continue  # a thread ended meanwhile, and its children are another's
        return found
