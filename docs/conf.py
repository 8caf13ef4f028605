"""Sphinx's configuration: `make docs` builds the site, with the reference pages that `tests.docs` writes from the code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from modelwheel import __version__
from modelwheel.project import url
from tests.docs import links, reference

project = "modelwheel"
html_title = "modelwheel"
release = __version__
copyright = "The modelwheel developers"  # noqa: A001 - Sphinx's name

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 4
root_doc = "index"
exclude_patterns = ["examples", "site"]
suppress_warnings = ["misc.highlighting_failure"]  # of blocks that show a part of a program
nitpicky = True

html_theme = "furo"
html_theme_options = {
    "source_repository": url(),
    "source_branch": "main",
    "source_directory": "docs/",
}
html_copy_source = False
copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True
autodoc_member_order = "bysource"
autodoc_typehints = "signature"


def setup(app: Any) -> None:
    """Connects what this project adds."""
    app.connect("builder-inited", lambda _: reference.write(Path(__file__).parent / "reference"))
    app.connect("source-read", lambda _, page, source: links.lead_out(page, source))
