"""How Sphinx builds the site: `sphinx-build -W docs build/site`, after `pip install '.[docs]'`."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
# These sources are documented, not an installed copy.
sys.path[:0] = [str(HERE), str(HERE.parent)]

project = "catdiag"
author = "the catdiag authors"
copyright = author
release = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "extension"]
# What needs a GPU's libraries is documented without them.
autodoc_mock_imports = ["torch", "triton"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
# Names in signatures: `Diagram` is that of the package and that of its module, which are one.
suppress_warnings = ["ref.python"]
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
# A page of a package names its modules beside the text; all their objects would be too many.
toc_object_entries = False

myst_heading_anchors = 4
source_suffix = {".md": "markdown"}

html_theme = "furo"
html_title = f"catdiag {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_search_scorer = str(HERE / "static" / "scorer.js")
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
