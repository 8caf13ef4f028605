"""A model in files, and the servers that tests fetch it from."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from modelwheel.errors import SourceError
from modelwheel.source.fetch import fetch
from modelwheel.spec.sources import AnySource, ArchiveSource, DirectorySource, GitSource
from modelwheel.store.store import Store

MODEL = {
    "saved_model.pb": b"graph\n$Id$\n$Format:%H$\n",
    "variables/variables.index": b"index",
    "variables/variables.data-00000-of-00001": bytes(range(256)) * 40,
    "assets/empty": b"",
}
TREE = "b1dbc71aed03242fc3d838ed5d20f1c7370f1477e713745d8d305a6e46e8e42e"

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 5\n"
"""What git holds in place of a file that Git LFS keeps."""


def onnx_with_weights(location: str) -> bytes:
    """An ONNX file with a tensor whose data is in another one."""

    def field(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    entry = field(1, b"location") + field(2, location.encode())
    tensor = field(13, entry) + bytes([14 << 3, 1])
    return field(7, field(5, tensor))


def write(directory: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)
    return directory


def read(directory: Path) -> dict[str, bytes]:
    found = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in found}


def git_source(git: str, commit: str, path: str = ".", sha256: str | None = None) -> GitSource:
    """A source with any address, also one that no spec may have."""
    return GitSource.model_construct(git=git, commit=commit, path=path or ".", sha256=sha256)


def archive_source(archive: str, sha256: str, path: str = ".") -> ArchiveSource:
    """As `git_source`."""
    return ArchiveSource.model_construct(archive=archive, sha256=sha256, path=path or ".")


def directory_source(directory: Path, sha256: str | None = None) -> DirectorySource:
    """As `git_source`."""
    return DirectorySource.model_construct(directory=str(directory), sha256=sha256)


def refusal(source: AnySource, store: Store, timeout: float = 60) -> str:
    with pytest.raises(SourceError) as caught:
        fetch(source, store, timeout)
    assert "Traceback" not in str(caught.value)
    return str(caught.value)


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serve(directory: Path, handler: type[Handler] = Handler) -> Iterator[str]:
    """The address of an HTTP server for the files of a directory."""
    factory = partial(handler, directory=str(directory))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), factory) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
