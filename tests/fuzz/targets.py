"""Every parser of what comes from outside, with valid inputs and what may come of others.

The property of all of them: a value or a ModelwheelError, within seconds and a limit of memory, and
never another exception.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from modelwheel.assembly.manifest import Manifest
from modelwheel.audit.formats.read import parse as parse_library
from modelwheel.audit.platform_tag import parse as parse_platform_tag
from modelwheel.config import FILE_NAME, load_config
from modelwheel.errors import ModelwheelError
from modelwheel.index.client import parse_page
from modelwheel.index.release_list import read_job
from modelwheel.packaging.checksums import parse_checksums
from modelwheel.source.archive import extract
from modelwheel.source.git.fetching import _read_entries
from modelwheel.source.git.repository import split_listing
from modelwheel.source.placement import Placement
from modelwheel.source.rules import Tally
from modelwheel.spec import Spec, load_spec
from modelwheel.spec.tune_lock import read_lock
from modelwheel.store.keys import action_key
from modelwheel.store.records import Record, parse
from modelwheel.util.files import FileDigest
from modelwheel.util.http import Patience
from modelwheel.util.names import UnsafePathError, name_problem
from modelwheel.wheelfile.contents import open_contents
from modelwheel.wheelfile.reports import (
    BENCH_SUFFIX,
    REPORT_SUFFIX,
    read_report,
    read_timings,
)
from modelwheel.wheelfile.sizes import read_sizes
from modelwheel.wheelfile.wheel import parse_metadata, parse_name
from tests.fuzz.model_targets import MODEL_TARGETS
from tests.fuzz.mutate import (
    mutate_header,
    mutate_json,
    mutate_tar,
    mutate_zip,
)
from tests.fuzz.target import ROOT, SEEDS, Target, in_file
from tests.support import described
from tests.support.index_wheels import add_measurements, make_wheel

_WHEEL = "model_a-1.0.0-cp311-cp311-linux_x86_64.whl"


def _files(*patterns: str) -> Callable[[], list[bytes]]:
    return lambda: [
        path.read_bytes() for pattern in patterns for path in sorted(ROOT.glob(pattern))
    ]


def _read_lock(path: Path) -> None:
    context = {"path": path.with_name("spec.yaml"), "with_files": False}
    read_lock(Spec.model_validate({"model": {"name": "m", "version": "1"}}, context=context))


def _read_contents(path: Path) -> None:
    contents = open_contents(path)
    with suppress(ModelwheelError):
        contents.summary()
    with suppress(ModelwheelError):
        list(contents.mismatches())
    wheel = contents.wheel
    if wheel is not None:
        with suppress(ModelwheelError):
            str(wheel.wheel_metadata)
        with suppress(ModelwheelError):
            wheel.require_own_name()
        read_sizes(wheel)


def _extract(content: bytes, scratch: Path) -> None:
    (scratch / "archive").write_bytes(content)
    target = scratch / "out"
    target.mkdir()
    try:
        extract(scratch / "archive", "pack/model", target, "it")
    finally:
        for path in target.rglob("*"):
            assert path.is_dir() or path.is_file()
            assert not path.is_symlink()


@cache
def _archive_files() -> dict[str, bytes]:
    return {
        "pack/model/saved_model.pb": b"graph" * 99,
        "pack/model/variables/variables.index": b"i",
    }


def _tar(format_: int, **headers: str) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=format_, pax_headers=headers) as archive:
        for name, content in _archive_files().items():
            info = tarfile.TarInfo(name + "x" * 120 if headers else name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


def _tars() -> list[bytes]:
    return [_tar(tarfile.GNU_FORMAT), _tar(tarfile.USTAR_FORMAT), _tar(tarfile.PAX_FORMAT, a="b")]


def _zip() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in _archive_files().items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return file.getvalue()


def _made(make: Callable[[Path], Path]) -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        return make(Path(directory)).read_bytes()


def _wheels() -> list[bytes]:
    files = described.wheel_files(described.describe())
    return [
        _made(lambda directory: described.write_wheel(directory, files)),
        _made(lambda directory: make_wheel(directory, "a")),
    ]


def _sdists() -> list[bytes]:
    return [_made(lambda directory: described.write_sdist(directory, described.sdist_files()))]


def _measurements(suffix: str) -> list[bytes]:
    def make(directory: Path) -> Path:
        wheel = make_wheel(directory, "a")
        add_measurements(wheel)
        return wheel.with_name(wheel.name + suffix)

    return [_made(make)]


def _beside(suffix: str, read: Callable[[Path], object]) -> Callable[[bytes, Path], object]:
    return in_file(_WHEEL + suffix, lambda path: read(path.with_name(_WHEEL)))


def _read_config(content: bytes, scratch: Path) -> object:
    (scratch / FILE_NAME).write_bytes(content)
    (scratch / ".git").touch()
    return load_config(scratch)


_KEY = action_key("fuzz")
_PAGE_URL = "https://index.example.org/simple/a/"
_JSON_PAGE = {
    "meta": {"api-version": "1.1"},
    "name": "a",
    "files": [
        {
            "filename": "a-1-py3-none-any.whl",
            "url": "../a-1-py3-none-any.whl",
            "hashes": {"sha256": "0" * 64},
            "requires-python": ">=3.10",
            "yanked": "no",
            "size": 5,
        }
    ],
}
_HTML_PAGE = (
    b'<!DOCTYPE html><html><head><meta name="pypi:repository-version" content="1.0"><base href="/x/">'
    b'</head><body><a href="a-1.tar.gz#sha256=' + b"0" * 64 + b'" data-requires-python="&gt;=3.10"'
    b' data-yanked="">a-1.tar.gz</a></body></html>'
)


def _page(kind: str) -> Callable[[bytes, Path], object]:
    return lambda content, _: parse_page(content, kind, _PAGE_URL)


def _names(content: bytes) -> None:
    text = content.decode(errors="surrogateescape")
    name_problem(text)
    parse_platform_tag(text)
    Patience().wait(0, text)
    if "\0" not in text:
        parse_name(Path("/x") / text)


_METADATA = (
    b"Metadata-Version: 2.4\nName: a\nVersion: 1\nLicense-File: LICENSE\nProject-URL: a, b\n"
    b"Classifier: x\nRequires-Python: >=3.10\nDescription-Content-Type: text/markdown\n\nx"
)
_ENTRY = b"100644 blob " + b"a" * 40 + b"\tvariables/variables.index\0"

TARGETS: Mapping[str, Target] = {
    "spec-yaml": Target(
        in_file("spec.yaml", load_spec),
        _files("model_specs/*.yaml", "tests/specs/valid/*.yaml", "tests/specs/invalid/*.yaml"),
    ),
    "spec-json": Target(
        in_file("spec.json", load_spec), _files("tests/specs/valid/minimal.json"), mutate_json
    ),
    "config": Target(
        _read_config,
        lambda: [
            (ROOT / FILE_NAME).read_bytes(),
            b'[index]\nurl = "https://host/simple/"\nupload = "https://host/"\n',
        ],
    ),
    "tune-lock": Target(
        in_file("spec.tune.json", _read_lock),
        lambda: [
            b'{"cpu": "x", "nanoseconds": {"x86-64": {"1": 5.5}}, "xla_flags": {"x86-64": ["--xla_a=1"]}}'
        ],
        mutate_json,
    ),
    "tar-gz": Target(_extract, lambda: [gzip.compress(tar) for tar in _tars()], mutate_tar),
    "tar-xz": Target(_extract, lambda: [lzma.compress(tar) for tar in _tars()], mutate_tar),
    "zip": Target(_extract, lambda: [_zip()], mutate_zip),
    "git-tree": Target(
        lambda content, _: _read_entries(
            "", Placement("", (), "it"), Tally(), split_listing(io.BytesIO(content))
        ),
        lambda: [_ENTRY, _ENTRY + b"040000 tree " + b"b" * 64 + b"\tassets\0"],
        accepted=(UnsafePathError,),
    ),
    "wheel": Target(in_file(_WHEEL, _read_contents), _wheels, mutate_zip),
    "sdist": Target(in_file("model_a-1.0.0.tar.gz", _read_contents), _sdists, mutate_tar),
    "record": Target(
        lambda content, _: parse(_KEY, content),
        lambda: [Record(_KEY, {"a/b": FileDigest("0" * 64, 5)}, {"step": "x"}).serialise()],
        mutate_json,
        accepted=(ValueError,),
    ),
    "manifest": Target(
        lambda content, _: Manifest.parse(content, "it"),
        lambda: [described.describe().model_dump_json().encode()],
        mutate_json,
    ),
    "report": Target(
        _beside(REPORT_SUFFIX, read_report), lambda: _measurements(REPORT_SUFFIX), mutate_json
    ),
    "timings": Target(
        _beside(BENCH_SUFFIX, read_timings), lambda: _measurements(BENCH_SUFFIX), mutate_json
    ),
    "metadata": Target(
        lambda content, _: parse_metadata(content, "it"),
        lambda: [
            described.METADATA.encode(),
            _METADATA,
        ],
    ),
    "checksums": Target(
        lambda content, _: parse_checksums(content),
        lambda: [b"0" * 64 + b"  a/b\n" + b"f" * 64 + b" *c\n"],
        accepted=(ValueError,),
    ),
    "page-json": Target(
        _page("application/vnd.pypi.simple.v1+json"),
        lambda: [json.dumps(_JSON_PAGE).encode()],
        mutate_json,
    ),
    "page-html": Target(_page("text/html; charset=utf-8"), lambda: [_HTML_PAGE]),
    "job": Target(
        lambda content, _: read_job(content.decode(errors="replace")),
        lambda: [b'{"sdist": "a-1.tar.gz", "platform": "linux-x86_64", "python": "3.11"}'],
        mutate_json,
    ),
    "library": Target(
        lambda content, _: [binary.image for binary in parse_library("a.so", content)],
        lambda: [path.read_bytes() for path in sorted(SEEDS.glob("*.so"))],
        mutate_header,
    ),
    "names": Target(
        lambda content, _: _names(content),
        lambda: [
            _WHEEL.encode(),
            b"a/b.c",
            b"manylinux_2_28_x86_64",
            b"Sun, 06 Nov 1994 08:49:37 GMT",
        ],
    ),
    **MODEL_TARGETS,
}
