"""What the site has from the code itself: docstrings, commands, axioms, the certificate's form.

Docstrings are Markdown, as are the pages, so that backticks and formulas mean the same in both.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main
from docutils import nodes
from docutils.utils import new_document
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from catdiag.cli.app import app

ROOT = Path(__file__).resolve().parent.parent
API = "reference/api"


# -- docstrings ------------------------------------------------------------------------------------


def as_markdown(lines: list[str]) -> list[str]:
    """A docstring's lines with doctests as blocks of code, and with stars of products as stars.

    >>> as_markdown(["2*d is", "", ">>> 1 + 1", "2", "", "even."])
    ['2\\\\*d is', '', '```pycon', '>>> 1 + 1', '2', '```', '', 'even.']
    """
    found: list[str] = []
    inside = False
    for line in [*lines, ""]:
        if not inside and line.lstrip().startswith(">>> "):
            found.append("```pycon")
            inside = True
        if inside and not line.strip():
            found.append("```")
            inside = False
        if not inside:
            line = "".join(
                part if number % 2 else re.sub(r"(?<=[\w)\]])\*(?=[\w(\[])", r"\\*", part)
                for number, part in enumerate(re.split(r"(`+[^`]*`+)", line))
            )
        found.append(line)
    return found[:-1]


def put_in_directive(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """What autodoc would read as reStructuredText is given to `docstring`, which reads Markdown."""
    if any(line.strip() for line in lines):
        lines[:] = [".. docstring::", "", *(f"   {line}" for line in as_markdown(lines)), ""]


class Docstring(SphinxDirective):
    """Markdown inside of reStructuredText."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """The nodes of the text."""
        return markdown(self, "\n".join(self.content))


def markdown(directive: SphinxDirective, text: str) -> list[nodes.Node]:
    """The nodes of Markdown."""
    document = new_document(directive.env.doc2path(directive.env.docname), directive.state.document.settings)
    MystParser().parse(text, document)
    return list(document.children)


# -- pages of modules ------------------------------------------------------------------------------


def write_api(app: Sphinx) -> None:
    """A page for each package, with its modules in the order of their names, and one that lists the pages."""
    folder = Path(app.srcdir) / API
    folder.mkdir(parents=True, exist_ok=True)
    pages = {}
    for package in sorted((ROOT / "catdiag").rglob("__init__.py")):
        name = ".".join(package.parent.relative_to(ROOT).parts)
        modules = sorted(f"{name}.{m.stem}" for m in package.parent.glob("*.py") if not m.stem.startswith("__"))
        parts = [automodule(m, f"## {m.rsplit('.', 1)[1]}") for m in modules]
        # The names of the package itself have a page of their own.
        pages[name] = "".join([automodule(name, f"# {name}") if "." in name else f"# {name}\n\n", *parts])
    listed = "\n".join(pages)
    pages["index"] = (
        "# Modules\n\nEvery module, by package, from its docstrings. A user needs only [the names of the package]"
        f"(../names.md).\n\n```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n"
    )
    for name, text in pages.items():
        file = folder / f"{name}.md"
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
    for file in folder.glob("*.md"):
        if file.stem not in pages:
            file.unlink()


def automodule(name: str, heading: str) -> str:
    """A module's part of a page. What a package has from its modules is documented with them."""
    options = ":members:", ":ignore-module-all:"
    lines = ["```{eval-rst}", f".. automodule:: {name}", *(f"   {option}" for option in options), "```"]
    return "\n".join([heading, "", *lines, "", ""])


# -- commands --------------------------------------------------------------------------------------


def said_by(*arguments: str) -> nodes.literal_block:
    """What a command of catdiag prints, as it stands."""
    command = [sys.executable, "-m", "catdiag", *arguments]
    env = {**os.environ, "COLUMNS": "96"}
    text = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout.strip("\n")
    return nodes.literal_block(text, text, language="text")


class Output(SphinxDirective):
    """What a command of catdiag prints."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """The output, as it stands."""
        return [said_by(*self.arguments[0].split())]


class Commands(SphinxDirective):
    """All commands, with what each says of itself."""

    def run(self) -> list[nodes.Node]:
        """A section for each."""
        return [self.section(name) for name in typer.main.get_command(app).commands]

    def section(self, name: str) -> nodes.section:
        """A command's name and its help."""
        section = nodes.section(ids=[f"catdiag-{name}"], names=[f"catdiag {name}"])
        section += nodes.title("", f"catdiag {name}")
        section += said_by(name, "--help")
        self.state.document.note_explicit_target(section)
        return section


# -- the certificate -------------------------------------------------------------------------------


class Schema(SphinxDirective):
    """A JSON schema as tables: its fields, then its definitions."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The tables."""
        _, path = self.env.relfn2path(self.arguments[0])
        self.env.note_dependency(path)
        schema = json.loads(Path(path).read_text(encoding="utf-8"))
        found = markdown(self, schema["description"])
        for title, items in (("Fields", fields(schema)), ("Definitions", schema["$defs"].items())):
            section = nodes.section(ids=[title.lower()], names=[title.lower()])
            section += nodes.title("", title)
            rows = [f"| `{name}` | {form(it)} | {as_markdown([it.get('description', '')])[0]} |" for name, it in items]
            section += markdown(self, "\n".join(["| name | form | |", "|---|---|---|", *rows]))
            found.append(section)
        return found


def fields(schema: dict[str, Any], above: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """The fields of an object, and those of objects in it."""
    for name, it in schema.get("properties", {}).items():
        yield f"{above}{name}", it
        yield from fields(it, f"{above}{name}.")


def form(it: dict[str, Any]) -> str:
    """What a field holds, in few words."""
    if "$ref" in it:
        return f"`{it['$ref'].rsplit('/', 1)[-1]}`"
    if "const" in it:
        return f"`{json.dumps(it['const'])}`"
    if "enum" in it:
        return " or ".join(f"`{json.dumps(value)}`" for value in it["enum"])
    for many in ("oneOf", "anyOf"):
        if many in it:
            return " or ".join(dict.fromkeys(form(each) for each in it[many]))
    items = it.get("items")
    if it.get("type") == "array" and isinstance(items, dict):
        return f"list of {form(items)}"
    if it.get("type") == "array" and "prefixItems" in it:
        return "[" + ", ".join(form(each) for each in it["prefixItems"]) + "]"
    return str(it.get("type", "any"))


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls."""
    app.add_directive("docstring", Docstring)
    app.add_directive("catdiag", Output)
    app.add_directive("commands", Commands)
    app.add_directive("schema", Schema)
    app.connect("builder-inited", write_api)
    app.connect("autodoc-process-docstring", put_in_directive)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
