"""What is read from wheels and source distributions."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from modelwheel.errors import WheelError
from modelwheel.provenance.consistency import (
    check_files,
    check_manifests,
)
from modelwheel.util.files import FileDigest
from modelwheel.wheelfile.contents import open_contents
from tests.support.commands import Modelwheel
from tests.support.described import (
    CARD,
    METADATA,
    describe,
    digest,
    open_wheel,
    sdist_files,
    wheel_files,
    write_sdist,
    write_wheel,
)


def test_a_wheel_is_read(tmp_path: Path) -> None:
    contents = open_wheel(tmp_path)
    assert contents.kind == "wheel"
    assert contents.metadata.name == "model-a"
    assert contents.manifests == (describe(),)
    assert contents.files["model_a/_reference.npz"] == FileDigest(digest(b"rows"), 4)
    told = contents.summary()
    assert told["model_card"] == CARD
    assert told["requires"] == ["numpy>=1.26"]
    (bill,) = told["sboms"].values()
    assert bill["bomFormat"] == "CycloneDX"
    json.dumps(told)


def test_a_source_distribution_is_read(tmp_path: Path) -> None:
    contents = open_contents(write_sdist(tmp_path, sdist_files()))
    assert contents.kind == "sdist"
    assert [manifest.platform for manifest in contents.manifests] == ["linux-x86_64", "macos-arm64"]
    assert len(contents.summary()["sboms"]) == 2
    assert check_files(contents) == "5 files with the hashes in SHA256SUMS"
    assert check_manifests(contents).startswith("4 files, metadata match the manifest")


def test_what_cannot_be_read(tmp_path: Path) -> None:
    def refuse(name: str, content: bytes | None) -> str:
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(WheelError) as caught:
            open_contents(tmp_path / name)
        return str(caught.value)

    assert "No such file" in refuse("absent-1-py3-none-any.whl", None)
    assert "is neither a wheel" in refuse("model.zip", b"")
    assert "Invalid wheel filename" in refuse("a.whl", b"")
    assert "is not a valid wheel" in refuse("model_a-1-py3-none-any.whl", b"PK but no more")
    assert "is not a valid source distribution" in refuse("a.tar.gz", b"\x1f\x8b but no more")
    whole = write_wheel(tmp_path, wheel_files(describe())).read_bytes()
    assert "is not a valid wheel" in refuse("model_a-2-py3-none-any.whl", whole[:-50])


def test_a_name_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    path = write_wheel(tmp_path, wheel_files(describe()))
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("model_a/_reference.npz", b"others")
    with pytest.raises(WheelError, match=r"contains model_a/_reference\.npz twice"):
        open_contents(path)


def test_a_wheel_of_something_else(tmp_path: Path) -> None:
    contents = open_wheel(tmp_path, _manifest_json=None, cdx_json=None)
    with pytest.raises(WheelError, match="has no model manifest"):
        contents.summary()
    with pytest.raises(WheelError, match="has no SBOM"):
        contents.require_sboms()


def test_what_a_file_says_gives_no_orders_to_the_terminal(tmp_path: Path) -> None:
    evil = METADATA.replace("emphasis", "emphasis\x1b]0;title\x07\x9b31m").encode()
    path = open_wheel(tmp_path, METADATA=evil).path
    shown = Modelwheel(tmp_path / "cache")("inspect", path).out
    assert "*emphasis" in shown  # plain text, unchanged
    assert not {"\x1b", "\x07", "\x9b"} & set(shown)


def test_a_terminal_gets_the_card_rendered(tmp_path: Path) -> None:
    path = open_wheel(tmp_path).path
    keyboard, screen = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    command = [sys.executable, "-m", "modelwheel", "inspect", str(path)]
    with subprocess.Popen(command, stdout=screen, env=environment) as process:
        os.close(screen)
        shown = b""
        while True:
            try:
                part = os.read(keyboard, 65536)
            except OSError:  # Linux's way to tell that nobody writes any more
                break
            if not part:
                break
            shown += part
    os.close(keyboard)
    assert process.returncode == 0
    text = shown.decode()
    assert "*emphasis*" not in text
    assert "\x1b[3memphasis" in text
