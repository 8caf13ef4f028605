"""`make lock`: writes the lock files of the workflows, from which pip installs with `--require-hashes`.

uv resolves the extras of pyproject.toml for every system at once. Of each package, only the wheels that the
machines of the workflows can install are kept, so that the files stay short and nothing is built from source.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement
from packaging.tags import Tag
from packaging.utils import parse_wheel_filename

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
LOCKS = ROOT / ".github" / "locks"
PYTHON = "3.13"
"""Of `python-version` in the workflows that use the files."""

EXTRAS = {"compile": ("jax", "keras", "onnx", "publish"), "release": ("release",)}
"""The extras that each file is for; also what builds modelwheel itself."""

GROUPS = {"docs": ("docs",)}
"""The groups of dependencies that other files are for."""

FILES = (*EXTRAS, *GROUPS)

_OLDER = ("cryptography<49; sys_platform == 'darwin' and platform_machine == 'x86_64'",)
"""Where the newest version has no wheel for one of the machines."""

_SYSTEMS = {
    "manylinux": ("x86_64", "aarch64"),
    "macosx": ("x86_64", "arm64", "universal2"),
    "win": ("amd64",),
}
"""What platform tags of GitHub's machines begin and end with."""


def main() -> None:
    """Writes all files."""
    LOCKS.mkdir(exist_ok=True)
    for name in FILES:
        (LOCKS / f"{name}.txt").write_text(_lock(name), encoding="utf-8")


def roots(name: str) -> list[str]:
    """The requirements that a file is resolved from."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    optional = project["project"]["optional-dependencies"]
    found = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    for extra in EXTRAS.get(name, ()):
        found += _expand(optional, extra)
    for group in GROUPS.get(name, ()):
        found += project["dependency-groups"][group]
    return list(dict.fromkeys(found))


def _expand(optional: dict[str, list[str]], extra: str) -> Iterator[str]:
    """The requirements of an extra and of those that it includes."""
    for text in optional[extra]:
        requirement = Requirement(text)
        if requirement.name == "modelwheel":
            for other in sorted(requirement.extras):
                yield from _expand(optional, other)
        else:
            yield text


def _lock(name: str) -> str:
    with tempfile.TemporaryDirectory() as directory:
        wanted, found = Path(directory) / "requirements.in", Path(directory) / "pylock.toml"
        wanted.write_text("\n".join([*roots(name), *(_OLDER if name in EXTRAS else ())]))
        uv = Path(sys.executable).with_name("uv")
        options = ("--universal", "--python-version", PYTHON, "--only-binary", ":all:", "--quiet")
        subprocess.run([uv, "pip", "compile", *options, wanted, "-o", found], check=True)
        packages = tomllib.loads(found.read_text(encoding="utf-8"))["packages"]
    entries = "".join(_entry(package) for package in packages)
    head = f"# Written by `make lock` from pyproject.toml: {', '.join((EXTRAS | GROUPS)[name])}."
    return f"{head}\n--only-binary :all:\n{entries}"


def _entry(package: dict[str, Any]) -> str:
    """One package with the hashes of its wheels, as pip reads it."""
    hashes = sorted(
        wheel["hashes"]["sha256"]
        for wheel in package["wheels"]
        if _is_installable(PurePosixPath(unquote(urlsplit(wheel["url"]).path)).name)
    )
    if not hashes:
        raise SystemExit(f"{package['name']} {package['version']} has no wheel for {PYTHON}")
    marker = f" ; {package['marker']}" if "marker" in package else ""
    lines = "".join(f" \\\n    --hash=sha256:{sha256}" for sha256 in hashes)
    return f"{package['name']}=={package['version']}{marker}{lines}\n"


def _is_installable(wheel: str) -> bool:
    return any(_fits(tag) for tag in parse_wheel_filename(wheel)[3])


def _fits(tag: Tag) -> bool:
    python = f"cp{PYTHON.replace('.', '')}"
    interpreter = tag.interpreter in (python, "py3", f"py{PYTHON[0]}{PYTHON[2:]}") or (
        # The stable ABI of an older Python.
        tag.abi == "abi3" and tag.interpreter.startswith("cp3")
    )
    if not interpreter or tag.abi not in ("none", "abi3", python):
        return False
    return tag.platform == "any" or any(
        tag.platform.startswith(system) and tag.platform.endswith(f"_{machine}")
        for system, machines in _SYSTEMS.items()
        for machine in machines
    )


if __name__ == "__main__":
    main()
