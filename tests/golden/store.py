"""The outputs that were accepted: few as whole texts, so that a difference can be read, the others as digests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

Place = tuple[str, str]
"""Of an output: its kind, and its name."""


def digest(text: str) -> str:
    """What stands for a text."""
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Difference:
    """An output that is not the one that was accepted: `how` is "changed", "new" or "gone"."""

    place: Place
    how: str
    text: str = ""
    accepted: str | None = None
    """The whole text that was accepted, where it is stored."""

    def __str__(self) -> str:
        return f"{self.place[1]}: {self.how}"

    def lines(self, most: int = 40) -> list[str]:
        """Where the two texts differ; no line where only the digest is known."""
        if self.accepted is None or self.how != "changed":
            return []
        found = list(unified_diff(self.accepted.splitlines(), self.text.splitlines(), "accepted", "now", "", "", 2, ""))
        more = [f"… {len(found) - most} lines more"] if len(found) > most else []
        return [*found[:most], *more]


class Store:
    """A folder of accepted outputs: `texts/KIND/NAME.txt`, and `digests/KIND.sha256` with a line "digest name" each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def places(self) -> set[Place]:
        """All that is stored."""
        found = {(file.parent.name, file.stem) for file in (self.folder / "texts").glob("*/*.txt")}
        for file in (self.folder / "digests").glob("*.sha256"):
            found |= {(file.stem, name) for name in self._digests(file.stem)}
        return found

    def difference(self, place: Place, text: str) -> Difference | None:
        """How a text differs from the accepted one; None where it does not."""
        file = self._file(place)
        if file.exists():
            accepted = file.read_text(encoding="utf-8")
            return None if text == accepted else Difference(place, "changed", text, accepted)
        known = self._digests(place[0]).get(place[1])
        if known is None:
            return Difference(place, "new", text)
        return None if known == digest(text) else Difference(place, "changed", text)

    def accept(self, texts: Mapping[Place, str], whole: Iterable[Place], gone: Iterable[Place] = ()) -> None:
        """Stores texts, those of `whole` as they are, and forgets those that are gone."""
        kept, gone = set(whole), set(gone)
        for place in gone | texts.keys():
            self._file(place).unlink(missing_ok=True)
        for kind in sorted({kind for kind, _ in gone | texts.keys()}):
            digests = {name: d for name, d in self._digests(kind).items() if (kind, name) not in gone}
            for place, text in texts.items():
                if place[0] != kind:
                    continue
                digests.pop(place[1], None)
                if place in kept:
                    self._write(self._file(place), text)
                else:
                    digests[place[1]] = digest(text)
            file = self.folder / "digests" / f"{kind}.sha256"
            if digests:
                self._write(file, "".join(f"{digests[name]} {name}\n" for name in sorted(digests)))
            else:
                file.unlink(missing_ok=True)

    def _digests(self, kind: str) -> dict[str, str]:
        file = self.folder / "digests" / f"{kind}.sha256"
        if not file.exists():
            return {}
        lines = (line.partition(" ") for line in file.read_text(encoding="utf-8").splitlines())
        return {name: known for known, _, name in lines}

    def _file(self, place: Place) -> Path:
        return self.folder / "texts" / place[0] / f"{place[1]}.txt"

    @staticmethod
    def _write(file: Path, text: str) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def told(differences: Iterable[Difference]) -> Iterator[str]:
    """Differences in words, by kind, with the lines of those whose whole text is stored."""
    by_kind: dict[str, list[Difference]] = {}
    for difference in differences:
        by_kind.setdefault(difference.place[0], []).append(difference)
    for kind, found in sorted(by_kind.items()):
        yield f"{kind}: {len(found)}"
        for difference in sorted(found, key=lambda d: d.place):
            yield f"  {difference}"
            yield from (f"    {line}" for line in difference.lines())
