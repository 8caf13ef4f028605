"""`make adopt-demo`: a group's own repository of models, from nothing to a prediction out of its catalogue.

It starts with an empty directory, and an environment with nothing but modelwheel's package. The commands of the workflows
that `modelwheel init` writes run in their order. One server on loopback answers as GitHub's releases do, another serves
the site as Pages do. The consumer pastes the install lines of the model's page into an empty environment.
All files are below `.demo/adopt/`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
import venv
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tests.demo.data import DATA, REPOSITORY, WORK, commit_saved_model, run, saved_model, say
from tests.demo.train import held_out
from tests.support.github import GitHub, serve_github
from tests.support.pasted_texts import pasted_texts
from tests.support.runner import Runner
from tests.support.site_server import serve
from tests.support.workflows import WORKFLOWS, Step, steps_followed, steps_of

ADOPT = WORK / "adopt"
MODELS = ADOPT / "models"
PACKAGES = ADOPT / "packages"
ENVIRONMENT = ADOPT / "environment"
SPEC = "model_specs/digits.yaml"
TAG = "digits-1.0.0"
PLATFORM = "manylinux_2_17_x86_64"
NO_ADDRESSES = {"INDEX_URL": "", "REPOSITORY_URL": "", "SITE_URL": ""}
"""What variables are on GitHub where nobody has set them."""


@dataclass
class Record:
    """What was done, for the table at the end."""

    rows: list[tuple[str, str, float]] = field(default_factory=list)

    @contextmanager
    def step(self, who: str, what: str) -> Iterator[None]:
        """Notes what is done inside, and how long it takes."""
        say(escape(f"{who}: {what}"))
        start = time.monotonic()
        yield
        self.rows.append((who, what, time.monotonic() - start))

    def print(self) -> None:
        """The table that the documents show."""
        table = Table("who", "what", "seconds", title="a repository of models, from nothing")
        for who, what, seconds in self.rows:
            table.add_row(who, escape(what), f"{seconds:.0f}")
        table.add_row("", "all", f"{sum(row[2] for row in self.rows):.0f}")
        Console(width=110).print(table)


def main() -> None:
    """Runs every step and prints how long each took."""
    shutil.rmtree(ADOPT, ignore_errors=True)
    ADOPT.mkdir(parents=True)
    record = Record()
    with record.step("tool", "the package, with modelwheel-runtime"):
        make_packages()
    with record.step("release engineer", "pip install 'modelwheel[compile,cross]' from it"):
        install_tool()
    with ExitStack() as stack:
        site = stack.enter_context(serve(MODELS / "site"))
        github = stack.enter_context(serve_github(GitHub(checkout=ADOPT / "origin.git")))
        with record.step("release engineer", "modelwheel init, git push"):
            begin(f"{site.url}simple/")
        with record.step("author", "trains a model, and publishes it in a data repository"):
            commit_saved_model("digits")
        with record.step("author", "modelwheel new: repository, commit and path follow from git"):
            add_model()
        runner = Runner(MODELS, ADOPT / "store", ADOPT, tools=ENVIRONMENT / "bin")
        with record.step("pull request", "check, build, report, compile for all platforms"):
            pull_request(runner)
        with record.step("merge", "release-plan, tag"):
            merge(runner, github)
        with record.step("release", "plan, compile, wheel, dry run"):
            handed = build(runner, github)
        with record.step("release", "a draft on GitHub, compared, published"):
            publish(runner, github, handed)
        with record.step("site", "index and catalogue that link to the release"):
            write_site(runner, github)
        with record.step("consumer", "pastes the page's install lines, and predicts"):
            accuracy = consume()
    record.print()
    say(f"accuracy on the held-out digits: {accuracy:.2%}")


# --- the tool -------------------------------------------------------------------------------------


def make_packages() -> None:
    """The packages that a release of the tool puts on the package index."""
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", PACKAGES)
    run(*pip, REPOSITORY)
    run(sys.executable, "-m", "modelwheel", "runtime", "--wheel", "--out", PACKAGES, quiet=True)


def install_tool() -> None:
    """Installs the package and what it needs, and nothing of this checkout."""
    venv.EnvBuilder(with_pip=True, symlinks=True).create(ENVIRONMENT)
    (package,) = PACKAGES.glob("modelwheel-*.whl")
    requirement = f"modelwheel[compile,cross] @ {package.as_uri()}"
    run(
        ENVIRONMENT / "bin" / "python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-compile",
        requirement,
    )


def modelwheel(*arguments: str, cwd: Path = MODELS) -> None:
    """Runs the installed command in a directory."""
    command = 'cd "$0" && exec "$@"'
    environment = {**os.environ, "MODELWHEEL_CACHE_DIR": str(ADOPT / "store")}
    program = ENVIRONMENT / "bin" / "modelwheel"
    run("sh", "-c", command, cwd, program, *arguments, env=environment, quiet=True)


# --- the repository -------------------------------------------------------------------------------


def git(*arguments: str) -> None:
    """Runs git in the repository of models."""
    who = ("-c", "user.name=demo", "-c", "user.email=demo@example.org")
    run("git", "-C", MODELS, *who, *arguments, quiet=True)


def begin(site: str) -> None:
    """An empty directory becomes a repository on its default branch, pushed."""
    run("git", "init", "--quiet", "--bare", "--initial-branch=main", ADOPT / "origin.git")
    modelwheel("init", str(MODELS), "--repository", "org/models", "--site-url", site, cwd=ADOPT)
    config = MODELS / "modelwheel.toml"
    lines = config.read_text(encoding="utf-8").splitlines(keepends=True)
    others = ("aarch64", "macos", "windows", "musllinux")
    kept = [
        line
        for line in lines
        if not any(f'  "{name}' in line or f"-{name}" in line for name in others)
    ]
    config.write_text("".join(kept), encoding="utf-8")
    git("init", "--quiet", "--initial-branch=main")
    git("remote", "add", "origin", str(ADOPT / "origin.git"))
    git("add", ".")
    git("commit", "--quiet", "--message=Begin")
    git("push", "--quiet", "origin", "main")


def add_model() -> None:
    """What an author proposes: one file, in which only the licence had to be filled in."""
    remote = ADOPT / "data.git"
    run("git", "clone", "--quiet", "--bare", DATA, remote)
    clone = ADOPT / "data"
    run("git", "clone", "--quiet", remote, clone)
    model = clone / saved_model("digits").relative_to(DATA)
    modelwheel("new", "digits", "--model", str(model))
    spec = MODELS / SPEC
    text = spec.read_text(encoding="utf-8")
    assert "commit:" in text, text
    spec.write_text(state_licence(text), encoding="utf-8")
    git("checkout", "--quiet", "-b", "digits")
    git("add", ".")
    git("commit", "--quiet", "--message=Add the model digits")


def state_licence(text: str) -> str:
    """Takes the comment away from the line of the licence, as its text asks for."""
    lines = text.splitlines()
    place = next(number for number, line in enumerate(lines) if "weights_license:" in line)
    lines[place] = "  weights_license: Apache-2.0"
    return "\n".join(lines) + "\n"


# --- the workflows --------------------------------------------------------------------------------


def commands(workflow: str, job: str, mode: str = "github") -> list[Step]:
    """The steps of a job of a reusable workflow, for releases on GitHub."""
    other = f"mode != '{mode}'"
    path = WORKFLOWS[0].with_name(workflow)
    return [step for step in steps_of(path) if step.job == job and other not in step.condition]


def pull_request(runner: Runner) -> None:
    """The checks of spec.yml; GitHub checks out the merge of the proposal."""
    git("checkout", "--quiet", "main")
    git("merge", "--quiet", "--no-ff", "--message=Merge the model digits", "digits")
    values = {"INDEX_URL": "", "RESULTS": "", "WANTED": ""}
    for step in steps_followed(MODELS / ".github" / "workflows" / "spec.yml"):
        runner.do(step, values)
    assert (MODELS / "comment.md").read_text(encoding="utf-8").startswith("<!-- modelwheel -->")
    runner.outputs()
    for name in ("dist", "sdists", "pictures"):
        shutil.rmtree(MODELS / name, ignore_errors=True)


def merge(runner: Runner, github: GitHub) -> None:
    """What merge.yml does, but for telling GitHub to start release.yml."""
    git("push", "--quiet", "origin", "main")
    values = {**github.environment, "GH_TOKEN": "", "BEFORE": "HEAD^1"}
    (plan,) = commands("tag.yml", "plan")
    runner.do(plan, values)
    (due,) = json.loads(runner.outputs()["plan"])
    for step in commands("tag.yml", "tag"):
        if step.run.startswith("modelwheel "):
            runner.do(step, {**values, "SPEC": due["spec"], "TAG": due["tag"]})
    assert due["tag"] == TAG


def build(runner: Runner, github: GitHub) -> Mapping[str, str]:
    """build.yml up to its plan. The wheel is cross-built by zig in place of cibuildwheel in a container.

    Returns:
        What the plan hands on.
    """
    git("checkout", "--quiet", TAG)
    values = {
        **NO_ADDRESSES,
        **github.environment,
        "SPEC": "model_specs",
        "PLATFORMS": "",
        "TAG": TAG,
    }
    for step in commands("build.yml", "list"):
        runner.do(step, {**values, "BRANCH": "refs/remotes/origin/main"})
    listed = runner.outputs()
    for step in commands("build.yml", "sdist"):
        runner.do(step, values)
    compiled = runner.outputs()["sums"]
    modelwheel("wheel", "sdists", "--cross", PLATFORM, "--out", "wheelhouse")
    (wheel,) = (MODELS / "wheelhouse").glob("*.whl")
    sums = f"{hashlib.sha256(wheel.read_bytes()).hexdigest()}  {wheel.name}"
    # An artifact of its own: it is measured, and the plan of the release does not list it.
    measured = MODELS / "measured"
    measured.mkdir()
    for directory in ("sdists", "wheelhouse"):
        for file in (MODELS / directory).glob("*.bench.json"):
            shutil.move(file, measured)
    (MODELS / "sdists").rename(MODELS / "dist")
    shutil.move(wheel, MODELS / "dist")
    needs = {
        "list": {"outputs": listed},
        "sdist": {"outputs": {"sums": compiled}},
        "linux-x86_64": {"outputs": {"sums": sums}},
    }
    bound = {"RELEASE": TAG, "LIST": listed["list"], "NEEDS": json.dumps(needs), "MODE": "github"}
    (plan,) = commands("build.yml", "plan")
    runner.do(plan, {**values, **bound})
    return runner.outputs()


def publish(runner: Runner, github: GitHub, handed: Mapping[str, str]) -> None:
    """publish.yml without the signature, for which GitHub's identity is needed."""
    for step in commands("publish.yml", "publish"):
        if not step.run.startswith("modelwheel attest"):
            runner.do(step, {**github.environment, "SUMS": handed["sums"], "TAG": TAG})
    git("checkout", "--quiet", "main")


def write_site(runner: Runner, github: GitHub) -> None:
    """pages.yml; no file of the release is copied."""
    shutil.rmtree(MODELS / "dist")
    template = f"{github.web}/org/models/releases/download/{{tag}}/{{file}}"
    for step in commands("pages.yml", "write"):
        site = next(line for line in config_lines() if line.startswith("site = ")).split('"')[1]
        runner.do(
            step, {**NO_ADDRESSES, **github.environment, "SITE_URL": site, "TEMPLATE": template}
        )
    assert not list((MODELS / "site").rglob("*.whl"))


def config_lines() -> list[str]:
    """The lines of the repository's modelwheel.toml."""
    return (MODELS / "modelwheel.toml").read_text(encoding="utf-8").splitlines()


# --- the consumer ---------------------------------------------------------------------------------


def consume() -> float:
    """Pastes the first install text of the model's page into an empty environment; returns the accuracy there."""
    text = pasted_texts(MODELS / "site")["Install with pip"]
    environment = ADOPT / "consumer"
    venv.EnvBuilder(with_pip=True, symlinks=True).create(environment)
    # modelwheel-runtime is on the default index once the tool is released; here it is in a directory.
    variables = {**os.environ, "PIP_FIND_LINKS": str(PACKAGES)}
    variables["PATH"] = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
    run("sh", "-ec", text, env=variables)
    _, _, images, labels = held_out()
    np.savez(ADOPT / "digits.npz", images=images, labels=labels)
    code = (
        "import numpy as np, model_digits; data = np.load('" + str(ADOPT / "digits.npz") + "');"
        "print((model_digits.Model()(data['images']).argmax(1) == data['labels']).mean())"
    )
    return float(run(environment / "bin" / "python", "-c", code, capture=True))


if __name__ == "__main__":
    main()
