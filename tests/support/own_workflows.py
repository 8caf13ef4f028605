"""This project's models have the workflows that `modelwheel init` writes: `python -m tests.support.own_workflows` writes them.

They call the reusable workflows beside them in place of those of a released version. site.yml also builds the documentation
of this project, which `init` does not write: it becomes the directory `docs/` of the site.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from modelwheel.repository.files import File, workflows
from tests.support.workflows import ROOT

_WORDS = {
    "workflows": "./.github/workflows",
    "actions": "./.github/actions",
    "at": "",
    "branch": "main",
}

_ON_A_CHANGE = """  push:
    branches: [main]
    paths: [docs/**, pipeline/**, tests/docs/**, wheel_template/**]
  workflow_dispatch:
"""

_DOCUMENTATION = """jobs:
  documentation:
    name: documentation
    runs-on: ubuntu-24.04
    timeout-minutes: 15
    permissions:
      contents: read
    outputs:
      artifact: ${{ steps.upload.outputs.artifact-id }}
    steps:
      - uses: %(checkout)s
        with:
          ref: ${{ github.event.repository.default_branch }} # what starts this may have run on a tag
          persist-credentials: false
      - uses: ./.github/actions/setup-modelwheel
        with:
          extra: docs
          sandbox: "false"
      - run: python -m tests.docs documentation
      - id: upload
        uses: %(upload-artifact)s
        with:
          name: documentation
          path: documentation

"""

_CALL = "    uses: ./.github/workflows/pages.yml\n"
_WITH = """    with:
      documentation: ${{ needs.documentation.outputs.artifact }}
"""


def own_workflows() -> Iterator[File]:
    """The files, as they should be."""
    for file in workflows("github", _WORDS):
        yield replace(file, text=_document(file.text)) if _CALL in file.text else file


def _document(site: str) -> str:
    """The workflow of the site with a job that builds the documentation."""
    pins = {name: _pin(f"actions/{name}") for name in ("checkout", "upload-artifact")}
    text = site.replace(
        "after each release, or by hand.",
        "after each release, or by hand. The documentation too, after each change.",
    )
    text = text.replace("  workflow_dispatch:\n", _ON_A_CHANGE)
    text = text.replace("jobs:\n", _DOCUMENTATION % pins)
    text = text.replace("    name: pages\n", "    name: pages\n    needs: documentation\n")
    return text.replace(_CALL, _CALL + _WITH)


def _pin(action: str) -> str:
    """An action at the commit that the other workflows use, with its version."""
    text = (ROOT / ".github/workflows/build.yml").read_text(encoding="utf-8")
    (pin,) = set(re.findall(rf"uses: ({action}@.+)", text))
    return str(pin)


def main() -> None:
    """Writes all files."""
    for file in own_workflows():
        (ROOT / file.path).write_text(file.text, encoding="utf-8")


if __name__ == "__main__":
    main()
