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

import requests
from filelock import FileLock

PYTHONS = ("cp311", "cp313")
"""The interpreters in it, as cibuildwheel calls them."""

_RECIPE = Path(__file__).parent
_CERTIFICATES = "/etc/ssl/certs"
_DEBIAN, _UBUNTU = "http://deb.debian.org/debian", "http://archive.ubuntu.com/ubuntu"

_KEYRING = (
    f"{_UBUNTU}/pool/main/u/ubuntu-keyring/ubuntu-keyring_2018.09.18.1~18.04.2_all.deb",
    "5d8609563fb3074026b254d7d5248f90d393c7dbafcac48916f333bf3c90fed9",
)
_SOURCES = (
    (
        f"{_DEBIAN}/pool/main/p/python3.11/python3.11_3.11.2.orig.tar.gz",
        "2411c74bda5bbcfcddaf4531f66d1adc73f247f529aee981b029513aefdbf849",
    ),
    (
        f"{_DEBIAN}/pool/main/p/python3.13/python3.13_3.13.5.orig.tar.xz",
        "93e583f243454e6e9e4588ca2c2662206ad961659863277afcdb96801647d640",
    ),
)
"""CPython's own releases, which Debian stores unchanged, with their SHA-256."""

_PACKAGES = (
    *("base-files", "base-passwd", "bash", "coreutils", "dash", "debianutils", "diffutils"),
    *("findutils", "grep", "gzip", "libc-bin", "mawk", "sed", "tar", "util-linux", "xz-utils"),
    *("g++-8", "make", "libffi-dev", "libssl-dev", "zlib1g-dev"),
)


class UnavailableError(Exception):
    """Containers cannot run here, or the archives cannot be reached; the message says why."""


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
    files = ("Containerfile", "install.sh", "requirements.txt")
    parts = [(_RECIPE / name).read_text() for name in files]
    return hashlib.sha256(repr([parts, _PACKAGES, _SOURCES, _KEYRING]).encode()).hexdigest()


def _make(image: str, directory: Path, environment: Mapping[str, str]) -> None:
    context = directory / "context"
    shutil.copytree(_RECIPE, context)
    for url, sha256 in _SOURCES:
        _fetch(url, sha256, context / url.rpartition("/")[2])
    _make_root(context / "root.tar", directory)
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


def _make_root(target: Path, directory: Path) -> None:
    """Unpacks Ubuntu's packages, whose signatures are checked, into a tar file; configures none."""
    package = directory / "keyring.deb"
    _fetch(*_KEYRING, package)
    subprocess.run(["dpkg-deb", "--extract", package, directory / "keyring"], check=True)
    suites = (f"deb {_UBUNTU} {suite} main universe" for suite in ("bionic", "bionic-updates"))
    keyring = directory / "keyring/usr/share/keyrings/ubuntu-archive-keyring.gpg"
    packages = f"--include={','.join(_PACKAGES)}"
    command = ["mmdebstrap", "--variant=extract", packages, f"--keyring={keyring}"]
    done = subprocess.run(
        [*command, "bionic", target, *suites], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise UnavailableError(f"cannot get Ubuntu's packages: {done.stderr.strip()}")


def _fetch(url: str, sha256: str, target: Path) -> None:
    try:
        response = requests.get(url, timeout=60)
        response.raise_for_status()
    except requests.RequestException as error:
        raise UnavailableError(f"cannot get {url}: {error}") from error
    assert hashlib.sha256(response.content).hexdigest() == sha256, f"{url} is another file"
    target.write_bytes(response.content)


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
