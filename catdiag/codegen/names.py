"""Names in generated code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Names:
    """The names in use in a module or a function."""

    taken: set[str]

    def fresh(self, base: str) -> str:
        """An unused name: `base`, or `base` with a number. It is in use from now on."""
        name, k = base, 1
        while name in self.taken:
            k += 1
            name = f"{base}_{k}"
        self.taken.add(name)
        return name
