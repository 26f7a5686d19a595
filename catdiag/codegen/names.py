"""Names in generated code."""

from __future__ import annotations

from dataclasses import dataclass


def identifier(text: str) -> str:
    """The name of an axis as part of an identifier.

    >>> identifier("q"), identifier("(b g)")
    ('q', 'i_b_g_')
    """
    return text if text.isidentifier() else "i" + "".join(c if c.isalnum() else "_" for c in text)


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
