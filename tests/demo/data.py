"""What demonstrations start from, also at the same time: a data repository with trained models, and specs that pin it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from filelock import FileLock
from rich.console import Console

REPOSITORY = Path(__file__).parents[2]
WORK = REPOSITORY / ".demo"
DATA = WORK / "data-repository"
SPECS = WORK / "specs"

console = Console(stderr=True)


def saved_model(name: str) -> Path:
    """Where the data repository has a model."""
    return DATA / name / "saved_model"


def commit_saved_model(name: str) -> str:
    """Trains a model once and commits it to the data repository; returns the commit."""
    if not (DATA / ".git").is_dir():
        DATA.mkdir(parents=True, exist_ok=True)
        git("init", "--quiet", "--initial-branch=main")
    directory = saved_model(name)
    if not directory.is_dir():
        say(f"training {name} on scikit-learn's digits")
        run(sys.executable, "-m", "tests.demo.train", name, directory, quiet=True)
        git("add", ".")
        git(
            "-c", "user.name=demo", "-c", "user.email=demo@example.org",
            "commit", "--quiet", f"--message=Train {name}",
        )  # fmt: skip
    return git("log", "-1", "--format=%H", "--", name)


def pin_spec(name: str) -> Path:
    """Copies a spec of the demonstration with its pin set to this machine's training."""
    WORK.mkdir(exist_ok=True)
    with FileLock(WORK / "data-repository.lock"):
        return _pin_spec(name, commit_saved_model(name))


def _pin_spec(name: str, commit: str) -> Path:
    text = (Path(__file__).parent / "specs" / f"{name}.yaml").read_text(encoding="utf-8")
    text, count = re.subn(r"(?m)^(  commit:) .*$", rf'\1 "{commit}"', text)
    assert count == 1, f"{name}.yaml must have one commit"
    spec = SPECS / f"{name}.yaml"
    spec.parent.mkdir(parents=True, exist_ok=True)
    # One that is right stays as it is: another demonstration may be reading it.
    if not spec.exists() or spec.read_text(encoding="utf-8") != text:
        spec.write_text(text, encoding="utf-8")
    return spec


def say(what: str) -> None:
    """Reports progress."""
    console.print(f"[bold]demo:[/bold] {what}", highlight=False)


def git(*arguments: str) -> str:
    """Runs git in the data repository; returns what it prints."""
    return run("git", "-C", DATA, *arguments, capture=True).strip()


def run(
    *command: str | Path,
    capture: bool = False,
    quiet: bool = False,
    env: dict[str, str] | None = None,
) -> str:
    """Runs a command. If it fails, the demonstration ends with what the command said, and its exit code."""
    done = subprocess.run(
        command,
        check=False,
        text=True,
        cwd=REPOSITORY,
        env=env,
        stdout=subprocess.PIPE if capture or quiet else None,
        stderr=subprocess.PIPE if quiet else None,
    )
    if done.returncode != 0:
        if quiet:
            sys.stderr.write(done.stderr)
        sys.exit(done.returncode)
    return done.stdout or ""
