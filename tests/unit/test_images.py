"""The Dockerfile and the devcontainer: pinned, of one version, and consistent with the package."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

from modelwheel import __version__, extras
from modelwheel.versions import TENSORFLOW_PYTHONS

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
DEVCONTAINER = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text("utf-8"))


def instructions() -> list[tuple[str, str]]:
    """The name and the rest of every instruction, continued lines in one."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE).replace("\\\n", " ")
    split = [line.partition(" ") for line in text.splitlines() if line.strip()]
    return [(name, " ".join(rest.split())) for name, _, rest in split]


def test_every_instruction_is_known() -> None:
    known = {"FROM", "RUN", "WORKDIR", "ARG", "USER", "ENTRYPOINT", "CMD"}
    assert {name for name, _ in instructions()} <= known
    for name, rest in instructions():
        if name in ("ENTRYPOINT", "CMD"):  # not through a shell, which would take the signals
            assert all(isinstance(word, str) for word in json.loads(rest))


def test_images_are_pinned() -> None:
    first, *later = [rest for name, rest in instructions() if name == "FROM"]
    highest = ".".join(map(str, TENSORFLOW_PYTHONS[1]))
    assert re.fullmatch(rf"python:{highest}-slim-\w+@sha256:[0-9a-f]{{64}} AS base", first)
    assert later == ["base AS modelwheel"]
    updates = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text("utf-8"))["updates"]
    assert "docker" in {update["package-ecosystem"] for update in updates}


def test_it_installs_this_version_and_leaves_nothing_behind() -> None:
    rests = dict(instructions())
    assert rests["ARG"] == f"VERSION={__version__}"
    runs = [rest for name, rest in instructions() if name == "RUN"]
    assert "rm -rf /var/lib/apt/lists/*" in runs[0]
    assert "--no-install-recommends" in runs[0]
    installed = re.search(r'--no-cache-dir "modelwheel\[([\w,]+)\]==\$\{VERSION\}"', runs[1])
    assert installed
    for extra in installed[1].split(","):
        assert "tensorflow" in extras.distributions(extra)


def test_nobody_is_root() -> None:
    assert dict(instructions())["USER"] == DEVCONTAINER["remoteUser"] == "author"


def test_the_devcontainer_is_the_same_image() -> None:
    build = DEVCONTAINER["build"]
    assert (ROOT / ".devcontainer" / build["dockerfile"]).resolve() == ROOT / "Dockerfile"
    assert f" AS {build['target']}\n" in DOCKERFILE
    groups = re.findall(r"--group (\w+)", DEVCONTAINER["postCreateCommand"])
    assert groups
    for group in groups:
        assert f"\n{group} = [" in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
