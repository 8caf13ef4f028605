"""Which files a repository of models has, and what is in them: `templates/` with a few words filled in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Literal

from pydantic import Field

from .. import __version__, project
from ..config import Mode
from ..platforms import PYTHONS, WHEEL_PLATFORMS
from ..spec.schema import schema_text
from ..util.records import JsonRecord

Service = Literal["github", "gitlab"]
"""Whose pipelines check and release."""

_TEMPLATES = Path(__file__).with_name("templates")


_TEMPLATES_OF_GITHUB = {
    "PULL_REQUEST_TEMPLATE.md": "pull-request.md",
    "ISSUE_TEMPLATE/model.yml": "issue-model.yml",
}
"""What pull requests and issues begin with; this project has the same."""


class Answers(JsonRecord):
    """The answers that the files depend on, beside the version of modelwheel."""

    title: str
    """Of the repository, in its README."""
    services: tuple[Service, ...] = Field(min_length=1)
    mode: Mode = "github"
    slug: str = ""
    """`OWNER/REPOSITORY` on GitHub; empty if it is not known yet."""
    site: str = ""
    """The address of the static index; empty if it is not known yet."""
    branch: str = "main"
    """The default branch."""


@dataclass(frozen=True)
class File:
    """One file of a repository."""

    path: str
    """In the repository, with slashes."""
    text: str
    renewed: bool = False
    """Whether `modelwheel update` renews it; the others belong to the repository once they are written."""


class _Words(Template):
    delimiter = "%%"  # workflows are full of dollars and at signs


def files_of(answers: Answers) -> list[File]:
    """All files of a repository, in the order in which they are shown."""
    words = _words(answers)
    return [
        File("model_specs/example.yaml", _fill("example.yaml", words)),
        File("model_specs/schema.json", schema_text(), renewed=True),
        File("modelwheel.toml", _fill("modelwheel.toml", words)),
        File("README.md", _fill("README.md", words)),
        File("CITATION.cff", _fill("CITATION.cff", words)),
        File(".gitignore", _fill("gitignore", words)),
        File(".pre-commit-config.yaml", _fill("pre-commit-config.yaml", words), renewed=True),
        *_service_files(answers, words),
    ]


def workflows(mode: Mode, words: Mapping[str, str]) -> Iterator[File]:
    """The workflows for GitHub Actions: this project has the same for its own models.

    Args:
        mode: Where releases go.
        words: `workflows` and `actions`, the directories that they call, with `at` behind each name; `branch`.
    """
    for name in ("spec.yml", "answer.yml", "merge.yml", "release.yml", "site.yml"):
        text = _fill(f"github/{name}", words)
        if name == "release.yml":
            text += _fill(f"github/publish-{mode}.yml", words)
        yield File(f".github/workflows/{name}", text, renewed=True)


def _service_files(answers: Answers, words: Mapping[str, str]) -> Iterator[File]:
    if "github" in answers.services:
        yield File(".github/CODEOWNERS", _fill("CODEOWNERS", words))
        for path, template in _TEMPLATES_OF_GITHUB.items():
            yield File(f".github/{path}", _fill(f"github/{template}", words))
        yield from workflows(answers.mode, words)
    if "gitlab" in answers.services:
        yield File(".gitlab-ci.yml", _fill("gitlab-ci.yml", words), renewed=True)


def _words(answers: Answers) -> dict[str, str]:
    """Everything that templates may name."""
    source = project.url("Source")
    tool = source.removeprefix("https://github.com/")
    slug = answers.slug or "OWNER/REPOSITORY"
    owner, _, name = slug.partition("/")
    glibc = [platform for platform in WHEEL_PLATFORMS.values() if platform.libc != "musl"]
    words = {
        "actions": f"{tool}/.github/actions",
        "at": f"@v{__version__}",
        "branch": answers.branch,
        "code": f"{'' if answers.slug else '# '}repository-code: https://github.com/{slug}",
        "cross": " --cross ".join(platform.cross_tag for platform in glibc),
        "index": "\n".join(_addresses(answers)),
        "mode": answers.mode,
        "name": name,
        "owner": f"@{owner}",
        "platforms": "\n".join(f'  "{platform}",' for platform in WHEEL_PLATFORMS),
        "project": source,
        "pythons": ", ".join(f'"{python}"' for python in PYTHONS),
        "repository": f'{"" if answers.slug else "# "}repository = "{slug}"',
        "site": answers.site or f"https://{owner.lower()}.github.io/{name}/simple/",
        "slug": slug,
        "title": answers.title,
        "version": __version__,
        "workflows": f"{tool}/.github/workflows",
    }
    return words | _sentences(answers, words)


def _addresses(answers: Answers) -> Iterator[str]:
    """The lines of the section `index`: comments where nobody knows the address yet."""
    examples = {
        "url": "https://index.example.org/simple/",
        "upload": "https://index.example.org/upload/",
        "site": "https://OWNER.github.io/REPOSITORY/simple/",
    }
    for field, example in examples.items():
        address = answers.site if field == "site" else ""
        if field == "site" or answers.mode == "token":
            yield f'{"" if address else "# "}{field} = "{address or example}"'


def _sentences(answers: Answers, words: Mapping[str, str]) -> dict[str, str]:
    """The sentences of README about the services."""
    setups = [f"setup-{answers.mode}.md"] if "github" in answers.services else []
    setups += ["setup-gitlab.md"] if "gitlab" in answers.services else []
    if "github" in answers.services:
        answer = "The check builds the wheels, measures them, and answers with a comment."
        merged = "its version is tagged and released."
    else:
        answer = "The pipeline builds the wheels and measures them."
        merged = "a maintainer tags it: `modelwheel tag model_specs/my-model.yaml --push origin`."
    return {
        "answer": answer,
        "merged": merged,
        "install": _fill("install.md", words).strip(),
        "setup": "\n".join(_fill(name, words) for name in setups).strip(),
    }


def _fill(template: str, words: Mapping[str, str]) -> str:
    """A template with its words.

    Raises:
        KeyError: It names another word.
    """
    return _Words((_TEMPLATES / template).read_text(encoding="utf-8")).substitute(words)
