"""The image in which tests have cibuildwheel build: Ubuntu 18.04 (glibc 2.27) with CPython 3.11 and 3.13.

`python -m tests.containers.image` makes it, unless podman has it, and prints the variables that make
`modelwheel wheel` and cibuildwheel use it. Needs root, podman, runc and mmdebstrap.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from filelock import FileLock

from tests.containers import apt
from tests.containers.apt import UnavailableError

PYTHONS = ("cp311", "cp313")
"""The interpreters in it, as cibuildwheel calls them."""

_RECIPE = Path(__file__).parent
_CERTIFICATES = "/etc/ssl/certs"
_KEY = "ubuntu-archive-key.asc"
"""Ubuntu's archive key of 2012, which signs 18.04: Debian does not ship it."""

_SOURCES = (
    (
        "pool/main/p/python3.11/python3.11_3.11.2.orig.tar.gz",
        "2411c74bda5bbcfcddaf4531f66d1adc73f247f529aee981b029513aefdbf849",
    ),
    (
        "pool/main/p/python3.13/python3.13_3.13.5.orig.tar.xz",
        "93e583f243454e6e9e4588ca2c2662206ad961659863277afcdb96801647d640",
    ),
)
"""CPython's own releases, which Debian's archive stores unchanged, with their SHA-256."""

_PACKAGES = (
    *("base-files", "base-passwd", "bash", "coreutils", "dash", "debianutils", "diffutils"),
    *("findutils", "grep", "gzip", "libc-bin", "mawk", "sed", "tar", "util-linux", "xz-utils"),
    *("g++-8", "make", "libffi-dev", "libssl-dev", "zlib1g-dev"),
)


def environment() -> dict[str, str]:
    """The variables with which cibuildwheel builds in the image; makes it if need be.

    Raises:
        UnavailableError: That is not possible here.
    """
    settings = {"CONTAINERS_CONF": str(_RECIPE / "containers.conf")}
    return {
        **settings,
        "CIBW_CONTAINER_ENGINE": "podman; disable_host_mount: true; create_args: --network=host "
        f"--volume={_CERTIFICATES}:{_CERTIFICATES}:ro",
        "CIBW_MANYLINUX_X86_64_IMAGE": _require_image({**os.environ, **settings}),
    }


def _require_image(environment: Mapping[str, str]) -> str:
    _require_machine(environment)
    image = f"localhost/modelwheel-manylinux:{_recipe_digest()[:16]}"
    with FileLock(Path(tempfile.gettempdir()) / "modelwheel-manylinux.lock"):
        exists = subprocess.run(["podman", "image", "exists", image], env=environment, check=False)
        if exists.returncode != 0:
            with tempfile.TemporaryDirectory(prefix="modelwheel-image-") as directory:
                Path(directory).chmod(0o755)  # apt reads as a user of its own
                _make(image, Path(directory), environment)
    return image


def _require_machine(environment: Mapping[str, str]) -> None:
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise UnavailableError("the image is for Linux on x86-64")
    if os.geteuid() != 0:
        raise UnavailableError("making the image needs root")
    for tool in ("podman", "runc", "mmdebstrap"):
        if shutil.which(tool) is None:
            raise UnavailableError(f"{tool} is not installed")
    info = subprocess.run(["podman", "info"], env=environment, capture_output=True, check=False)
    if info.returncode != 0:
        raise UnavailableError(f"podman does not work: {info.stderr.decode().strip()}")


def _recipe_digest() -> str:
    """Changes with everything that the image is made from."""
    files = ("Containerfile", "install.sh", "requirements.txt", _KEY)
    parts = [(_RECIPE / name).read_text() for name in files]
    return hashlib.sha256(repr([parts, _PACKAGES, _SOURCES]).encode()).hexdigest()


def _make(image: str, directory: Path, environment: Mapping[str, str]) -> None:
    context = directory / "context"
    shutil.copytree(_RECIPE, context)
    mirror = apt.debian()[0].uri
    for path, sha256 in _SOURCES:
        apt.fetch(f"{mirror.rstrip('/')}/{path}", sha256, context / path.rpartition("/")[2])
    _make_root(context / "root.tar")
    mount = f"--volume={_CERTIFICATES}:{_CERTIFICATES}:ro"
    done = subprocess.run(
        ["podman", "build", "--layers=false", "--network=host", mount, "--tag", image, context],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0 and "installing in the container" not in done.stdout:
        raise UnavailableError(f"podman cannot run a container: {done.stdout.strip()}")
    assert done.returncode == 0, done.stdout


def _make_root(target: Path) -> None:
    """Unpacks Ubuntu's packages, whose signatures are checked, into a tar file; configures none."""
    options = [*apt.options(), f"--keyring={_RECIPE / _KEY}", "--components=main,universe"]
    command = ["mmdebstrap", "--variant=extract", f"--include={','.join(_PACKAGES)}", *options]
    # Without a mirror in apt's configuration, mmdebstrap knows Ubuntu's.
    mirrors = [str(archive) for archive in apt.configured("bionic")]
    done = subprocess.run(
        [*command, "bionic", target, *mirrors], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise UnavailableError(f"cannot get Ubuntu's packages: {done.stderr.strip()}")


def main() -> None:
    """Prints the variables as a shell reads them; ends with a sentence where there can be no image."""
    try:
        variables = environment()
    except UnavailableError as problem:
        sys.exit(f"no containers: {problem}")
    for name, value in variables.items():
        print(f"export {name}={shlex.quote(value)}")  # noqa: T201


if __name__ == "__main__":
    main()
