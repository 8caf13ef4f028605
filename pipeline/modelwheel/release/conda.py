"""A recipe for conda-forge: `recipe.yaml` of rattler-build's first version, from a model's source distribution.

The package is built by pip as anywhere else. What CMake and pkg-config look for is in the Python package; `build.py` puts
files that lead there where conda environments have theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement

from ..errors import UsageError
from ..packaging.readme import links
from ..util.files import digest_file, write_atomically
from ..versions import CMAKE_MINIMUM
from ..wheelfile.contents import Contents, open_contents

RECIPE, BUILD_SCRIPT = "recipe.yaml", "build.py"

_HEADER = """\
# yaml-language-server: $schema=https://raw.githubusercontent.com/prefix-dev/recipe-format/main/schema.json
# Written by `modelwheel recipe`, which writes the next version too.
"""

_SCRIPT = '''\
"""Installs the package, and puts what CMake and pkg-config look for where an environment of conda has such files."""

import os
import pathlib
import subprocess

MODULE = {module!r}
HAS_HEADERS = {headers!r}


def main():
    install = ["-m", "pip", "install", ".", "-vv", "--no-deps", "--no-build-isolation"]
    subprocess.run([os.environ["PYTHON"], *install], check=True)
    if not HAS_HEADERS:
        return
    # The prefix of libraries, which on Windows is a directory of its own.
    prefix = pathlib.Path(os.environ.get("LIBRARY_PREFIX") or os.environ["PREFIX"])
    package = pathlib.Path(os.environ["SP_DIR"], MODULE)
    cmake, pkg_config = prefix / "lib" / "cmake" / MODULE, prefix / "lib" / "pkgconfig"
    for directory in (cmake, pkg_config):
        directory.mkdir(parents=True, exist_ok=True)
    there = pathlib.PurePath(os.path.relpath(package / "lib" / "cmake" / MODULE, cmake)).as_posix()
    for name in (f"{{MODULE}}-config.cmake", f"{{MODULE}}-config-version.cmake"):
        (cmake / name).write_text('include("${{CMAKE_CURRENT_LIST_DIR}}/' + f'{{there}}/{{name}}")\\n')
    there = pathlib.PurePath(os.path.relpath(package, pkg_config)).as_posix()
    text = (package / "lib" / "pkgconfig" / f"{{MODULE}}.pc").read_text()
    (pkg_config / f"{{MODULE}}.pc").write_text(text.replace("${{pcfiledir}}/../..", "${{pcfiledir}}/" + there))


main()
'''


@dataclass(frozen=True)
class Recipe:
    """A recipe that was written."""

    path: Path
    is_local: bool
    """Whether it names a file of this machine, because no address was given."""


def write_recipe(sdist: Path, out: Path, *, url: str | None, maintainers: Sequence[str]) -> Recipe:
    """Writes the recipe of a model.

    Args:
        sdist: Its source distribution.
        out: A directory, which is made.
        url: Where others download the source distribution; None: the recipe names the file itself.
        maintainers: Names on GitHub.

    Raises:
        WheelError: The file is not a model's source distribution.
        UsageError: It is a wheel.
    """
    contents = open_contents(sdist)
    if contents.kind != "sdist":
        raise UsageError(f"{sdist} is a wheel; name the source distribution (.tar.gz) beside it")
    model = contents.manifests[0].model
    out.mkdir(parents=True, exist_ok=True)
    recipe = _recipe(contents, url or sdist.resolve().as_posix(), maintainers, is_local=url is None)
    text = yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True, width=100)
    write_atomically(out / RECIPE, f"{_HEADER}{text}".encode())
    script = _SCRIPT.format(module=model.module, headers="c" in model.interfaces)
    write_atomically(out / BUILD_SCRIPT, script.encode())
    return Recipe(out / RECIPE, url is None)


def _recipe(
    contents: Contents, address: str, maintainers: Sequence[str], *, is_local: bool
) -> Mapping[str, Any]:
    manifest = contents.manifests[0]
    model = manifest.model
    source = {"path" if is_local else "url": address, "sha256": digest_file(contents.path).sha256}
    return {
        "schema_version": 1,
        "context": {"version": model.version},
        "package": {"name": model.distribution, "version": "${{ version }}"},
        "source": source,
        "build": {"number": 0, "script": {"file": BUILD_SCRIPT}},
        "requirements": {
            "build": list(_build_requirements()),
            "host": [
                "python",
                "pip",
                "scikit-build-core >=1.1",
                *(["pybind11 >=3.1"] if model.bindings == "extension" else []),
            ],
            "run": ["python", *map(_conda_requirement, model.requirements)],
            # Of programs that are linked to the library: CMake's files accept the same major version.
            "run_exports": [f'${{{{ pin_subpackage("{model.distribution}", upper_bound="x") }}}}'],
        },
        "tests": list(_tests(model.module, has_headers="c" in model.interfaces)),
        "about": {
            "summary": model.summary,
            **({"description": model.description} if model.description != model.summary else {}),
            "license": model.whole_license,
            "license_file": ["LICENSE", *model.license_files],
            **_homepage(links(manifest)),
        },
        "extra": {"recipe-maintainers": list(maintainers)},
    }


def _build_requirements() -> Iterator[object]:
    yield from ('${{ stdlib("c") }}', '${{ compiler("c") }}', '${{ compiler("cxx") }}')
    yield from (f"cmake >={CMAKE_MINIMUM}", "ninja")
    yield {
        "if": "build_platform != target_platform",
        "then": ["python", "cross-python_${{ target_platform }}", "pybind11 >=3.1"],
    }


def _conda_requirement(text: str) -> str:
    requirement = Requirement(text)
    return f"{requirement.name} {requirement.specifier}".strip()


def _tests(module: str, *, has_headers: bool) -> Iterator[object]:
    yield {"python": {"imports": [module], "pip_check": True}}
    yield {"script": [f"python -m {module} selftest --quiet"]}
    if has_headers:
        yield {
            "script": [{"if": "unix", "then": [f"pkg-config --exists --print-errors {module}"]}],
            "requirements": {"run": ["pkg-config"]},
        }


def _homepage(urls: Mapping[str, str]) -> dict[str, str]:
    """The link that the spec calls so, or else its first one."""
    by_label = {label.lower(): url for label, url in urls.items() if url.startswith("https://")}
    first = by_label.get("homepage") or next(iter(by_label.values()), "")
    return {"homepage": first} if first else {}
