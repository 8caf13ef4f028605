"""Blocks of YAML and TOML in the documents are read without a mistake, and every block of code is run by a test."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from modelwheel.config import load_config
from modelwheel.provenance.policy import load_policy
from modelwheel.spec import load_spec
from tests.support.pages import DOCUMENTS, ROOT, Block, blocks

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_LEAST = {
    "model": {"name": "least", "version": "1.0.0"},
    "source": {"directory": "model"},
    "inputs": {},
}
"""The fields that a spec needs in addition to those that a document shows."""
_PUBLIC_KEY = "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE="

RUN_BY = {
    ("api.md", "python"): "integration/test_api.py",
    ("fusions.md", "python"): "integration/test_documents.py",
    ("bundles.md", "c"): "integration/test_documents.py",
    ("bundles.md", "starlark"): "integration/test_documents.py",
    ("c-and-cpp.md", "c"): "integration/test_documents.py",
    ("c-and-cpp.md", "cpp"): "integration/test_documents.py",
    ("calls.md", "c"): "integration/test_documents.py",
    ("calls.md", "python"): "integration/test_documents.py",
    ("consumers.md", "python"): "integration/test_documents.py",
    **{
        (f"formats/{page}.md", "python"): "models/documented_exports.py"
        for page in ("jax", "keras", "pytorch", "saved-model")
    },
    **{
        (f"remedies/{page}.md", "python"): "integration/test_remedies.py"
        for page in ("code", "data", "shapes")
    },
    ("serving.md", "dockerfile"): "integration/test_tutorial.py",
    ("serving.md", "python"): "integration/test_tutorial.py",
    ("serving.md", "sh"): "integration/test_tutorial.py",
    ("tutorial.md", "python"): "integration/test_tutorial.py",
    ("tutorial.md", "sh"): "integration/test_tutorial.py",
    ("README.md", "python"): "integration/test_documents.py",
}
"""Which file below `tests` runs the blocks of a document in a language; it names the document or its folder."""


def _all(language: str) -> list[Any]:
    found = [block for document in DOCUMENTS for block in blocks(document, language)]
    return [pytest.param(block, id=str(block)) for block in found]


@pytest.mark.parametrize("block", _all("yaml"))
def test_a_part_of_a_spec_is_sound(block: Block, tmp_path: Path) -> None:
    whole = {**_LEAST, **yaml.safe_load(block.text)}
    for name in whole.get("package", {}).get("license_files", ()):
        (tmp_path / name).touch()
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(whole), encoding="utf-8")
    assert load_spec(tmp_path / "spec.yaml").model.version


@pytest.mark.parametrize("block", _all("toml"))
def test_a_part_of_a_toml_file_is_sound(block: Block, tmp_path: Path) -> None:
    content = tomllib.loads(block.text)
    if "project" in content:  # of a package of fusions
        assert "modelwheel.fusions" in content["project"]["entry-points"]
    elif "builders" in content:
        key = f"-----BEGIN PUBLIC KEY-----\n{_PUBLIC_KEY}\n-----END PUBLIC KEY-----\n"
        for name in [builder["key"] for builder in content["builders"] if "key" in builder]:
            (tmp_path / name).write_text(key)
        (tmp_path / "trust.toml").write_text(block.text)
        policy = load_policy(tmp_path / "trust.toml")
        assert len(policy.builders) + len(policy.identities) == len(content["builders"])
    else:
        whole = block.text.replace("MCowBQYDK2VwAyEA...", _PUBLIC_KEY)
        (tmp_path / "modelwheel.toml").write_text(whole)
        (section,) = content
        assert getattr(load_config(tmp_path), section) is not None


def test_every_block_of_code_is_run() -> None:
    """Those without a language are commands, whose options `test_readme.py` reads, or what they print."""
    known = {"", "yaml", "toml"}
    found = {
        (block.name, block.language)
        for document in DOCUMENTS
        for block in blocks(document)
        if block.language not in known
    }
    assert found == set(RUN_BY)
    for (document, _), path in RUN_BY.items():
        folder, _, _ = document.rpartition("/")
        named = f"docs/{folder}/" if folder else document
        assert named in (ROOT / "tests" / path).read_text(encoding="utf-8"), path
