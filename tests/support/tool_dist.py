"""Builds what a release of modelwheel itself publishes: `python -m tests.support.tool_dist`, in `tool-release.yml`.

Models are released by `modelwheel` and this is not a command of it, because only this repository needs it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from modelwheel import __version__
from modelwheel.cli.options import hand_on, require_only
from modelwheel.errors import ModelwheelError, UsageError
from modelwheel.release.selection import require_on_branch

ROOT = Path(__file__).parents[2]


def require_tag(tag: str) -> None:
    """Raises UsageError if a tag does not name the version of this checkout."""
    expected = f"v{__version__}"
    if tag != expected:
        raise UsageError(
            f"the tag {tag!r} is not {expected!r}; raise __version__ in pipeline/modelwheel/__init__.py, or use "
            "that tag"
        )


def build(out: Path) -> list[Path]:
    """The source distribution, and the wheel that is built from it; twine checks both."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True)
    files = sorted(out.iterdir())
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files], check=True)
    return files


def main(arguments: list[str] | None = None) -> None:
    """Checks tag and branch, builds, and hands on the hashes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tag", default="", help="fail unless it is vVERSION; empty: a rehearsal")
    parser.add_argument("--on-branch", default="", help="fail unless the commit is on this branch")
    parser.add_argument("--out", type=Path, default=Path("dist"))
    parser.add_argument("--github-output", type=Path)
    given = parser.parse_args(arguments)
    try:
        if given.tag:
            require_tag(given.tag)
        if given.on_branch:
            require_on_branch((), given.on_branch, given.tag or None)
        require_only((), given.out)
        hand_on(build(given.out), given.out, given.github_output)
    except ModelwheelError as error:
        sys.exit(f"error: {error.shown()}")


if __name__ == "__main__":
    main()
