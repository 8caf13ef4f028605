"""Model source distributions: everything that the wheels of a model are made from, on every platform.

A model source distribution is an ordinary sdist (PEP 517): `pip wheel`, `python -m build` and
cibuildwheel build it anywhere, without TensorFlow and without this package. `SHA256SUMS` in it lists
every other file, as `sha256sum --check` reads it.
"""

from __future__ import annotations

from pathlib import Path

from ..errors import SourceError, WheelError
from ..source.archive import extract
from ..util.files import digest_file
from ..util.text import one_line
from ..util.trees import digest_tree
from .backend import build_distribution
from .checksums import CHECKSUMS, parse_checksums


def build_sdist(project: Path, out: Path) -> Path:
    """Packs a rendered project: the same bytes on every machine, at any time.

    Args:
        project: What `render_project` wrote.
        out: An existing directory for the `.tar.gz`.

    Raises:
        WheelError: The build backend failed.
    """
    return build_distribution("sdist", project, out)


def unpack(sdist: Path, directory: Path) -> Path:
    """Unpacks a model source distribution, checks it against `SHA256SUMS` and returns the project.

    Args:
        sdist: A `.tar.gz` that `build_sdist` made.
        directory: An existing directory.

    Raises:
        WheelError: It cannot be read, is not a model source distribution, or a file does not match
            `SHA256SUMS`.
    """
    try:
        extract(sdist, "", directory, sdist.name)
    except (OSError, SourceError) as error:
        reason = getattr(error, "strerror", None) or error
        raise WheelError(
            f"cannot unpack {sdist}: {one_line(reason)}; download or make it again", code="MW602"
        ) from None
    projects = [path.parent for path in directory.glob(f"*/{CHECKSUMS}")]
    if len(projects) != 1:
        raise WheelError(
            f"{sdist} is not a model source distribution: it has no {CHECKSUMS}; name a file that "
            "`modelwheel compile` made",
            code="MW602",
        )
    # Before anything in it is used: building it runs its CMake files and compilers.
    _require_checksums(projects[0], sdist)
    return projects[0]


def _require_checksums(project: Path, sdist: Path) -> None:
    try:
        expected = parse_checksums((project / CHECKSUMS).read_bytes())
    except ValueError as error:
        raise WheelError(
            f"{sdist}: {one_line(error)}; download or make it again", code="MW602"
        ) from None
    for name, digest in expected.items():
        path = project / name
        if not path.is_file() or digest_file(path).sha256 != digest:
            raise WheelError(
                f"{sdist}: {one_line(name)} is missing or is not the file that {CHECKSUMS} names; "
                "download or make the source distribution again",
                code="MW602",
            )
    # The build backend adds PKG-INFO to what was packed.
    added = set(digest_tree(project)) - set(expected) - {CHECKSUMS, "PKG-INFO"}
    # A file that is not listed could still become part of a build.
    for name in sorted(added):
        raise WheelError(
            f"{sdist}: {CHECKSUMS} does not name {one_line(name)}; download or make it again",
            code="MW602",
        )
