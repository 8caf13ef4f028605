"""Bazel as Debian packages it (bazel-bootstrap), without network: a bundle in a project that uses it."""

from __future__ import annotations

from pathlib import Path

from tests.support.commands import run

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


def run_bazel(work: Path, bundle: Path, program: str) -> str:
    """Builds a program with the library of a bundle, and runs it and the bundle's test.

    Args:
        work: A directory for the project and Bazel's own files.
        bundle: Its module has the name of its header.
        program: In C.

    Returns:
        What both have printed.
    """
    project = work / "project"
    files = {"program.c": program}
    repositories = {}
    for name, content in _REPOSITORIES.items():
        repositories[name] = work / name
        files |= {f"../{name}/{path}": text for path, text in content.items()}
        files[f"../{name}/WORKSPACE"] = ""
    (header,) = bundle.glob("include/*_memory.h")
    module = header.stem.removesuffix("_memory")
    repositories[module] = bundle
    files["WORKSPACE"] = "".join(
        f'local_repository(name = "{name}", path = "{path}")\n'
        for name, path in repositories.items()
    )
    files["BUILD"] = _BUILD.format(bundle=module)
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    # A server would outlive the test.
    startup = ("--batch", "--nohome_rc", f"--output_user_root={work / 'root'}")
    return run(
        *("env", "-C", project, "bazel-4", *startup, "test", "--test_output=all"),
        *("//:program", f"@{module}//:{module}_test", f"@{module}//:{module}_benchmark"),
    ).out
