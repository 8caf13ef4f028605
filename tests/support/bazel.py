"""Bazel as Debian packages it (bazel-bootstrap), without network: projects that use bundles and rules of modelwheel."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.commands import Done, run

COMMAND = "bazel-4"

_CC_RULES = ("binary", "import", "library", "test", "toolchain", "toolchain_suite")
_JAVA_RULES = ("import", "library", "runtime", "toolchain")


def _native(language: str, rules: tuple[str, ...]) -> dict[str, str]:
    """A repository of rules that are Bazel's own, as those that it would download are at its age."""
    defined = "".join(f"{language}_{rule} = native.{language}_{rule}\n" for rule in rules)
    return {f"{language}/BUILD": "", f"{language}/defs.bzl": defined}


_COVERAGE = """\
filegroup(name = "coverage_report_generator", visibility = ["//visibility:public"])
"""

_REPOSITORIES = {
    "rules_cc": _native("cc", _CC_RULES),
    "rules_java": _native("java", _JAVA_RULES),
    "remote_coverage_tools": {"BUILD": _COVERAGE},
}
"""What Bazel itself refers to and would download, with files by their paths."""

_BUILD = """\
load("@rules_cc//cc:defs.bzl", "cc_test")

cc_test(
    name = "program",
    srcs = ["program.c"],
    deps = ["@{bundle}"],
)
"""


def require_bazel() -> None:
    """Skips a test where there is no such Bazel."""
    if not shutil.which(COMMAND):
        pytest.skip("bazel-bootstrap is not installed")


@dataclass(frozen=True)
class BazelProject:
    """A workspace, in the directory `project` of one for Bazel's own files."""

    work: Path

    @property
    def directory(self) -> Path:
        """Where the workspace is."""
        return self.work / "project"

    @classmethod
    def write(
        cls,
        work: Path,
        files: Mapping[str, str | Path],
        repositories: Mapping[str, Path],
        more: str = "",
    ) -> BazelProject:
        """Writes a workspace.

        Args:
            work: An existing directory.
            files: Their texts by their paths, or files to copy.
            repositories: Directories of other repositories by their names.
            more: What WORKSPACE has in addition.
        """
        project = cls(work)
        all_repositories = dict(repositories)
        texts: dict[str, str | Path] = dict(files)
        for name, content in _REPOSITORIES.items():
            all_repositories[name] = work / name
            texts |= {f"../{name}/{path}": text for path, text in content.items()}
            texts[f"../{name}/WORKSPACE"] = ""
        lines = [
            f'local_repository(name = "{name}", path = "{path}")\n'
            for name, path in all_repositories.items()
        ]
        texts["WORKSPACE"] = "".join(lines) + more
        for path, text in texts.items():
            place = project.directory / path
            place.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(text, Path):
                shutil.copyfile(text, place)
            else:
                place.write_text(text, encoding="utf-8")
        return project

    def __call__(self, *arguments: str, code: int = 0) -> Done:
        """Runs one command of Bazel."""
        # A server would outlive the test.
        startup = ("--batch", "--nohome_rc", f"--output_user_root={self.work / 'root'}")
        return run("env", "-C", self.directory, COMMAND, *startup, *arguments, code=code)


def run_bazel(work: Path, bundle: Path, program: str) -> str:
    """Builds a program with the library of a bundle, and runs it and the bundle's test.

    Args:
        work: A directory for the project and Bazel's own files.
        bundle: Its module has the name of its header.
        program: In C.

    Returns:
        What both have printed.
    """
    (header,) = bundle.glob("include/*_memory.h")
    module = header.stem.removesuffix("_memory")
    files = {"program.c": program, "BUILD": _BUILD.format(bundle=module)}
    project = BazelProject.write(work, files, {module: bundle})
    targets = ("//:program", f"@{module}//:{module}_test", f"@{module}//:{module}_benchmark")
    return project("test", "--test_output=all", *targets).out
