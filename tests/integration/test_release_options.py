"""Options of the release commands that contradict each other, or would have no effect: all are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from modelwheel.cli import app
from modelwheel.config import FILE_NAME
from modelwheel.errors import UsageError
from modelwheel.release.listing import list_runtime
from tests.support.index_wheels import make_wheel
from tests.support.pasted_texts import pasted_texts

WHEEL = "model_a-1-py3-none-any.whl"
SDIST = "model_a-1.tar.gz"


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in (WHEEL, SDIST, "model_b-1-py3-none-any.whl"):
        (tmp_path / name).touch()
    (tmp_path / ".git").mkdir()  # no configuration is looked for above it
    listed = list_runtime().model_copy(update={"tag": "a-1.0"})
    (tmp_path / "list.json").write_bytes(listed.to_json())
    (tmp_path / "a.yaml").write_text(
        "model: {name: a, version: '1.0'}\nsource: {directory: model}\n"
    )
    return tmp_path


def refusal(*arguments: str) -> str:
    error = CliRunner().invoke(app, [*arguments]).exception
    assert isinstance(error, UsageError), error
    assert "\n" not in str(error)
    return str(error)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (f"wheel {SDIST} --cross musllinux_1_2_x86_64 --system linux", "--cross cannot be combined with --system"),
        (f"wheel {SDIST} --cross musllinux_1_2_x86_64 --only cp312-x", "--cross cannot be combined with --only"),
        (f"wheel {SDIST} --cross musllinux_1_2_x86_64 --github-job {{}}", "--cross cannot be combined with --github-job"),
        (f"wheel {SDIST} --python 3.12", "--python has an effect only with --cross"),
        (f"wheel {SDIST} --github-job {{}} --only cp312-x", "--github-job cannot be combined with --only"),
        (f"wheel {SDIST} --github-job {{}} --system linux", "--github-job cannot be combined with --system"),
        (f"wheel {WHEEL}", "not a .tar.gz file"),
        (f"inspect {WHEEL} --spec a.yaml", "--spec has an effect only with --replay"),
        (f"inspect {WHEEL} --recompile", "--recompile has an effect only with --replay"),
        (f"inspect {WHEEL} --spec a.yaml --recompile --json", "--spec, --recompile have an effect only with --replay"),
        (f"inspect {WHEEL} --sbom --json", "--sbom cannot be combined with --json"),
        (f"inspect {WHEEL} --sbom --replay", "--sbom cannot be combined with --replay"),
        (f"inspect {WHEEL} --sbom --spec a.yaml", "--sbom cannot be combined with --spec"),
        (f"inspect {WHEEL} --sbom --recompile", "--sbom cannot be combined with --recompile"),
        (f"inspect {WHEEL} --program --sbom", "--program cannot be combined with --sbom"),
        (f"inspect {WHEEL} --program --replay", "--program cannot be combined with --replay"),
        (f"inspect {WHEEL} --program --json", "--program cannot be combined with --json"),
        (f"inspect {WHEEL} --program --recompile", "--recompile has an effect only with --replay"),
        ("inspect . --sbom", "--sbom prints the SBOM of one file, but there are 3"),
        (f"verify {SDIST}", "not a .whl file"),
        (f"audit {SDIST}", "not a .whl file"),
        ("report absent", "absent: no such file or directory"),
        (f"report {WHEEL} --summary absent/summary.md", "cannot write to absent/summary.md"),
        ("index absent", "absent: no such file or directory"),
        (f"index {WHEEL} --base-url models", "--base-url 'models' is not a plain http or https address"),
        (f"index {WHEEL} --base-url https://a.example/ --site-url https://b.example/simple/",
         "--base-url cannot be combined with --site-url"),
        (f"wheel {SDIST} --sums x", "--sums has an effect only with --github-job"),
        (f"wheel {SDIST} --github-output x", "--github-output has an effect only with --github-job"),
        (f"publish {WHEEL} --list {{}}", "--list has an effect only with --release"),
        (f"publish {WHEEL} --github-needs {{}}", "--github-needs has an effect only with --release"),
        (f"publish {WHEEL} --release a-1.0", "--release needs --list"),
        (f"publish {WHEEL} --release b-1.0 --list list.json", "--list belongs to a-1.0, but --release is b-1.0"),
        (f"publish {WHEEL} --release= --list list.json", "--list belongs to a-1.0, but --release is "),
        ("runtime --on-branch main --out new", "needs the full name of a branch, such as refs/remotes/origin/main, not 'main'"),
        ("compile a.yaml --out . --github-output x", ". already has .git, which this job has not made"),
        (f"publish {WHEEL}", "pass --github-repository OWNER/REPOSITORY, or set `repository`"),
        (f"publish {WHEEL} --mode token", "pass --repository-url URL, or set `upload`"),
        ("download a.yaml", "pass --github-repository OWNER/REPOSITORY, or set `repository`"),
        ("download a.yaml --mode token", "pass --index-url URL, or set `url`"),
        ("runtime --tag modelwheel-runtime-0.0", "the tag 'modelwheel-runtime-0.0' is not"),
    ],
)  # fmt: skip
def test_no_option_is_ignored(command: str, said: str) -> None:
    assert said in refusal(*command.split())


def test_sizes_below_nothing_are_refused() -> None:
    arguments = ["publish", WHEEL, "--repository-url", "http://127.0.0.1:1/", "--max-size", "-1"]
    assert CliRunner().invoke(app, arguments).exit_code == UsageError.exit_code


def test_addresses_come_from_the_configuration(directory: Path) -> None:
    """A dead host of its own for each field shows which of them is read."""
    (directory / FILE_NAME).write_text(
        '[index]\nurl = "http://127.0.0.1:1/url/"\nupload = "http://127.0.0.1:1/upload/"\n'
        'site = "http://127.0.0.1:1/site/"\n'
    )
    wheel = str(make_wheel(directory, "digits"))

    def read(*arguments: str) -> str:
        return str(CliRunner().invoke(app, [*arguments]).exception)

    assert "http://127.0.0.1:1/url/model-digits" in read("publish", wheel)
    given = ("--repository-url", "http://127.0.0.1:1/given/")
    assert "http://127.0.0.1:1/given/simple/model-digits" in read("publish", wheel, *given)
    assert "http://127.0.0.1:1/site/model-a" in read("download", "a.yaml")
    option = ("--index-url", "http://127.0.0.1:1/option/")
    assert "http://127.0.0.1:1/option/model-a" in read("download", "a.yaml", *option)
    assert "http://127.0.0.1:1/site/model-a" in read("download", "a.yaml", "--index-url", "")
    assert CliRunner().invoke(app, ["index", wheel]).exit_code == 0
    text = pasted_texts(directory / "site")["Install with pip"]
    assert "pip install --index-url http://127.0.0.1:1/site/ --require-hashes" in text
