"""The README as a package index shows it: there a link to a file of the repository leads nowhere.

Where `[project.urls]` in pyproject.toml names a `Source`, links lead to the files under it. Where it names none, a link
becomes its words and the path of the file, which the sdist has.
"""

from __future__ import annotations

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

CODE_OR_LINK = re.compile(
    r"(?P<code>^```.*?^```|`[^`\n]*`)|(?P<image>!?)\[(?P<words>(?:`[^`\n]*`|[^\]`])*)\]\((?P<target>[^)\s]+)\)",
    re.MULTILINE | re.DOTALL,
)


def for_index(text: str, source: str | None) -> str:
    """Markdown without relative links.

    >>> for_index("[costs](docs/cost.md#h), [z3](https://z3.org), `a[i](j)`", None)
    'costs (`docs/cost.md`), [z3](https://z3.org), `a[i](j)`'
    >>> for_index("[costs](docs/cost.md#h), ![loop](loop.svg)", "https://host/catdiag/blob/main/")
    '[costs](https://host/catdiag/blob/main/docs/cost.md#h), ![loop](https://host/catdiag/blob/main/loop.svg?raw=true)'
    """

    def absolute(found: re.Match[str]) -> str:
        if found["code"] or re.match(r"[a-z]+:|#", found["target"]):
            return found[0]
        if source is not None:
            raw = "?raw=true" if found["image"] else ""
            return f"{found['image']}[{found['words']}]({source.rstrip('/')}/{found['target']}{raw})"
        path = found["target"].split("#")[0]
        return f"`{path}`" if found["words"].strip("`") == path else f"{found['words']} (`{path}`)"

    return CODE_OR_LINK.sub(absolute, text)


class Readme(MetadataHookInterface):
    """What hatchling asks for the field that pyproject.toml calls dynamic."""

    def update(self, metadata: dict[str, object]) -> None:
        """Adds the description."""
        urls = metadata.get("urls")
        source = urls.get("Source") if isinstance(urls, dict) else None
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_index(text, source)}
