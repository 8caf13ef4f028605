"""Debian's and Ubuntu's archives as this machine's apt is configured to reach them.

Mirrors, proxies and certificates are the machine's: nothing here names a host.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

_HELPER = "/usr/lib/apt/apt-helper"
_FIELDS = "$(TYPE) $(REPO_URI) $(RELEASE) $(COMPONENT)"


class UnavailableError(Exception):
    """Something cannot run here, or the archives cannot be reached; the message says why."""


@dataclass(frozen=True)
class Archive:
    """One suite of one archive."""

    uri: str
    suite: str
    component: str

    def __str__(self) -> str:
        """As a line of sources.list."""
        return f"deb {self.uri} {self.suite} {self.component}"


def codename() -> str:
    """The release of Debian that this machine runs.

    Raises:
        UnavailableError: It is another system.
    """
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    if release.get("ID") != "debian" or shutil.which("apt-get") is None:
        raise UnavailableError("this machine does not run Debian")
    return release["VERSION_CODENAME"]


def configured(suite: str) -> list[Archive]:
    """The configured archives of a suite, its updates and security fixes; third parties' are left out."""
    options = ("--format", _FIELDS, "Created-By: Packages")
    found = []
    for line in _run("apt-get", "indextargets", *options).splitlines():
        _, uri, release, component = line.split()
        if release in (suite, f"{suite}-updates", f"{suite}-security"):
            found.append(Archive(uri, release, component))
    return list(dict.fromkeys(found))


def debian() -> list[Archive]:
    """The archives of the Debian that this machine runs; the first has its packages' sources.

    Raises:
        UnavailableError: None is configured.
    """
    suite = codename()
    archives = sorted(configured(suite), key=lambda archive: len(archive.suite))
    if not archives:
        raise UnavailableError(f"apt has no archive of Debian {suite}")
    return archives


def options() -> list[str]:
    """What makes mmdebstrap's apt use the proxies and certificates of this machine's.

    It stays root: a user of its own could not read temporary directories.
    """
    dumped = _run("apt-config", "dump", "Acquire").splitlines()
    wanted = ("proxy", "cainfo", "sslcert")
    settings = ['APT::Sandbox::User "root"']
    settings += [line for line in dumped if line and _name(line).endswith(wanted)]
    return [f"--aptopt={setting}" for setting in settings]


def fetch(uri: str, sha256: str, target: Path) -> None:
    """Downloads a file and verifies it.

    Raises:
        UnavailableError: It cannot be had, or is another file.
    """
    command = (_HELPER, "-qq", "download-file", uri, str(target), f"SHA256:{sha256}")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UnavailableError(f"cannot get {uri}: {(done.stderr or done.stdout).strip()}")


def _name(line: str) -> str:
    """The option of a line such as `Acquire::http::Proxy "http://proxy:3128";`."""
    return line.partition(" ")[0].lower()


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise UnavailableError(f"{command[0]} cannot run: {error.strerror}") from error
    if done.returncode != 0:
        raise UnavailableError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
