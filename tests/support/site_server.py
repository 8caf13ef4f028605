"""A web server on loopback for a static site; it remembers what it was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

JSON_TYPE = "application/vnd.pypi.simple.v1+json"


@dataclass
class Served:
    """A running server."""

    url: str
    requests: list[str] = field(default_factory=list)
    """The paths that were asked for."""


class _Handler(SimpleHTTPRequestHandler):
    """Serves files; for a directory its JSON, where asked to and the client prefers that."""

    def __init__(self, *arguments: Any, served: list[Served], negotiate: bool, **more: Any) -> None:
        self._served, self._negotiate = served, negotiate
        super().__init__(*arguments, **more)

    def do_GET(self) -> None:
        self._served[0].requests.append(self.path)
        if self._negotiate and self.path.endswith("/") and JSON_TYPE in self.headers["Accept"]:
            self.path += "index.v1+json"
        super().do_GET()

    def guess_type(self, path: Any) -> str:
        return JSON_TYPE if str(path).endswith("v1+json") else super().guess_type(path)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def serve(site: Path, *, negotiate: bool = False) -> Iterator[Served]:
    """Serves a directory until the block ends."""
    served: list[Served] = []
    handler = partial(_Handler, directory=str(site), served=served, negotiate=negotiate)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        served.append(Served(f"http://127.0.0.1:{server.server_port}/"))
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield served[0]
        finally:
            server.shutdown()
            thread.join()
