"""Builds the site: `python -m tests.docs DIRECTORY`. Anything that Sphinx warns of is an error."""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.cmd.build import build_main

DOCS = Path(__file__).parents[2] / "docs"


def main(out: str) -> int:
    """Sphinx's exit code."""
    return int(build_main(["-W", "--keep-going", "-q", "-j", "auto", str(DOCS), out]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
