"""The README's commands on a bare machine: a fresh Debian with exactly the packages that README names.

`python -m tests.containers.bare_machine COMMAND...` makes such a Debian, copies this checkout into it
and runs the commands there. Needs root, mmdebstrap and unshare; nothing on this machine changes.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.containers import apt
from tests.containers.apt import UnavailableError

ROOT = Path(__file__).parents[2]
_HOME = "home/checkout"
_SKIPPED = 77  # as automake's tests exit
_NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs")
_VARIABLES = re.compile(r"PIP_.*|.*_proxy|.*_PROXY|SSL_CERT_FILE|REQUESTS_CA_BUNDLE")

# In its own name space for mounts and processes, so that both end with it. Mounts are `source:target`.
_ENTER = """
set -eu
root=$1; mounts=$2; shift 2
# Devices of its own: what root does to a shared node, such as `ld -o /dev/null`, would stay.
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir -m 1777 "$root/dev/shm"
for node in null:3 zero:5 full:7 random:8 urandom:9; do
  mknod -m 666 "$root/dev/${node%:*}" c 1 "${node#*:}"
done
mknod -m 666 "$root/dev/tty" c 5 0
mkdir "$root/dev/pts"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
mount -t proc proc "$root/proc"
printf '%s' "$mounts" | while IFS= read -r path; do mount --bind "$path" "$root$path"; done
exec chroot "$root" /usr/bin/env -i "$@"
"""


def readme_packages() -> list[str]:
    """What README has the reader install."""
    found = re.search(
        r"^sudo apt install (.+)$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE
    )
    assert found is not None, "README names no packages"
    return found[1].split()


def make_root(directory: Path, packages: Sequence[str]) -> None:
    """Unpacks Debian's smallest system and these packages.

    Raises:
        UnavailableError: That is not possible here.
    """
    if platform.system() != "Linux" or os.geteuid() != 0:
        raise UnavailableError("a bare machine needs Linux and root")
    for tool in ("mmdebstrap", "unshare", "chroot"):
        if shutil.which(tool) is None:
            raise UnavailableError(f"{tool} is not installed")
    archives = apt.debian()
    options = ("--variant=minbase", f"--include={','.join(packages)}", *apt.options())
    command = ["mmdebstrap", "--mode=root", *options, archives[0].suite, str(directory)]
    command += [str(archive) for archive in archives]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UnavailableError(f"cannot make a Debian: {done.stderr.strip()[-2000:]}")


def run_in(root: Path, command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of the shell in the checkout's copy in a bare machine."""
    mounts = [path for path in dict.fromkeys(_shared()) if _mount_point(root, path)]
    variables = {
        "HOME": "/root",
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG": "C.UTF-8",
        **{name: value for name, value in os.environ.items() if _VARIABLES.fullmatch(name)},
        **environment,
    }
    assignments = [f"{name}={value}" for name, value in variables.items()]
    shell = ("sh", "-c", f"cd /{_HOME} && {command}")
    isolated = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", _ENTER, "sh")
    return subprocess.run(
        [*isolated, root, "".join(f"{path}\n" for path in mounts), *assignments, *shell],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def copy_checkout(root: Path) -> None:
    """Copies what git knows of this checkout, changes included."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        target = root / _HOME / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).exists():
            shutil.copy2(ROOT / name, target)


def _shared() -> Iterator[str]:
    """What must be shared to reach the network as this machine does: names, certificates, pip's settings.

    pip's settings may name files and directories: package indexes and certificates of the machine.
    """
    yield from _NETWORK
    pip = (sys.executable, "-m", "pip")
    listed = subprocess.run([*pip, "config", "debug"], capture_output=True, text=True, check=True)
    files = re.findall(r"^\s*(/\S+), exists: True$", listed.stdout, re.MULTILINE)
    yield from files
    shown = subprocess.run([*pip, "config", "list"], capture_output=True, text=True, check=True)
    for path in re.findall(r"(?<![\w.:/])(?:file://)?(/[^\s'\"]+)", shown.stdout):
        yield path.removesuffix("/simple")
    cache = subprocess.run([*pip, "cache", "dir"], capture_output=True, text=True, check=False)
    if cache.returncode == 0 and Path(cache.stdout.strip()).is_dir():
        yield cache.stdout.strip()


def _mount_point(root: Path, path: str) -> bool:
    """Makes the place where a path of this machine is mounted; not if there is nothing to mount."""
    source, target = Path(path), root / path.lstrip("/")
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        return True
    if source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
        return True
    return False


def main() -> None:
    """Runs the commands of the command line one after the other, until one fails."""
    with tempfile.TemporaryDirectory(prefix="modelwheel-bare-") as temporary:
        root = Path(temporary) / "root"
        try:
            make_root(root, readme_packages())
        except UnavailableError as problem:
            print(f"bare machine: skipped: {problem}")  # noqa: T201
            sys.exit(_SKIPPED)
        copy_checkout(root)
        for command in sys.argv[1:]:
            print(f"bare machine: {command}", flush=True)  # noqa: T201
            done = run_in(root, command)
            print(done.stdout, flush=True)  # noqa: T201
            if done.returncode != 0:
                sys.exit(f"bare machine: {shlex.quote(command)} failed")


if __name__ == "__main__":
    main()
