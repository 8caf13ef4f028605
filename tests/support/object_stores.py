"""Servers of object stores for tests: S3 by moto, Google Cloud Storage by `google_storage`, Azure by Azurite."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from modelwheel.store.backends.objects import ObjectBackend

from .google_storage import serve_google_storage
from .sources import closed_port

BUCKET = "models"

_AZURE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
"""The one that Azurite's documentation gives."""


@contextmanager
def serve_objects(scheme: str) -> Iterator[str]:
    """The URL of an empty bucket of one kind, such as `s3`; this process has credentials for it."""
    serve = {"s3": serve_s3, "gs": serve_google, "abfs": serve_azure}[scheme]
    with pytest.MonkeyPatch.context() as patch, serve(patch) as url:
        yield url


def share_clients(patch: pytest.MonkeyPatch) -> None:
    """Lets all stores of one kind have one client: to make one takes half a second. Servers must not change meanwhile."""
    clients: dict[str, Any] = {}
    real = ObjectBackend._open

    def open_it(self: ObjectBackend) -> tuple[Any, str]:
        scheme, _, path = self.address.partition("://")
        if scheme not in clients:
            clients[scheme] = real(self)[0]
        return clients[scheme], path

    patch.setattr(ObjectBackend, "_open", open_it)


@contextmanager
def serve_s3(patch: pytest.MonkeyPatch) -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        use_s3(f"http://{host}:{port}", patch)
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        yield f"s3://{BUCKET}"
    finally:
        server.stop()


def use_s3(endpoint: str, patch: pytest.MonkeyPatch) -> None:
    """Lets this process use a server of S3."""
    for name, value in {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "canary",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        patch.setenv(name, value)


@contextmanager
def serve_google(patch: pytest.MonkeyPatch) -> Iterator[str]:
    with serve_google_storage() as server:
        patch.setenv("STORAGE_EMULATOR_HOST", server.url)
        patch.setenv(
            "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false"
        )  # it would ask Google about the bucket
        yield f"gs://{BUCKET}"


@contextmanager
def serve_azure(patch: pytest.MonkeyPatch) -> Iterator[str]:
    """The test is skipped where Azurite is not installed."""
    azurite = shutil.which("azurite-blob")
    if azurite is None:
        pytest.skip("Azurite is not installed: npm install -g azurite")
    port = closed_port()
    options = ["--inMemoryPersistence", "--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    process = subprocess.Popen([azurite, "--blobPort", str(port), *options])
    try:
        _wait_for(port)
        connection = (
            f"DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={_AZURE_KEY};"
            f"BlobEndpoint=http://127.0.0.1:{port}/devstoreaccount1;"
        )
        patch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection)
        from azure.storage.blob import BlobServiceClient

        with BlobServiceClient.from_connection_string(connection) as client:
            client.create_container(BUCKET)
        yield f"abfs://{BUCKET}"
    finally:
        process.terminate()
        process.wait(10)


def _wait_for(port: int) -> None:
    end = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
        else:
            return
