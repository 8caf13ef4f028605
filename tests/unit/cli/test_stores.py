"""The store as `modelwheel.toml` and the environment describe it, seen through commands."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

import modelwheel as package
from modelwheel.config import FILE_NAME, load_config
from modelwheel.engine.doctor import check_store
from modelwheel.errors import UsageError
from modelwheel.store import opening
from modelwheel.store.backends.objects import ObjectBackend
from modelwheel.store.layers import Policy
from modelwheel.store.signatures import KEY_VARIABLE, Signer
from modelwheel.store.store import Store
from modelwheel.store.upkeep.summary import find_problem
from tests.support.commands import Modelwheel
from tests.support.object_stores import serve_objects
from tests.support.stores import KEY, make, record_file

PRIVATE = Ed25519PrivateKey.generate()
PUBLIC = Signer(PRIVATE).public_key


@pytest.fixture
def modelwheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Modelwheel:
    """The command in a directory with a policy, its store, and the store of releases."""
    monkeypatch.chdir(tmp_path)
    upstream = [str(tmp_path / "release")]
    text = f"[store]\nupstream = {json.dumps(upstream)}\ntrusted_keys = [{PUBLIC!r}]\n"
    (tmp_path / FILE_NAME).write_text(text)
    return Modelwheel(tmp_path / "own")


def test_the_cache_shows_stores_and_whose_records_count(
    modelwheel: Modelwheel, tmp_path: Path
) -> None:
    first, second = modelwheel("cache").out.splitlines()
    assert first == f"0 cached results, 0 bytes, in {tmp_path / 'own'}"
    assert second == f"read-only: {tmp_path / 'release'} (not there)"
    (tmp_path / "release").mkdir()
    assert "(counts if signed by a trusted key)" in modelwheel("cache").out
    key = tmp_path / "store.key"
    key.write_bytes(PRIVATE.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    key.chmod(0o600)
    signing = modelwheel("cache", MODELWHEEL_STORE_KEY=str(key)).out
    assert f"signed with {PUBLIC}; records without a trusted signature are ignored" in signing
    assert modelwheel("cache", "--json", MODELWHEEL_STORE_KEY=str(key)).json == {
        "directory": str(tmp_path / "own"),
        "results": 0,
        "bytes": 0,
        "upstream": [str(tmp_path / "release")],
        "missing": [],
        "trusted_keys": [PUBLIC],
        "signs_with": PUBLIC,
    }


def test_a_lost_secret_stops_the_command(modelwheel: Modelwheel) -> None:
    said = modelwheel("cache", code=2, MODELWHEEL_STORE_KEY="").err
    assert f"{KEY_VARIABLE} is set but empty" in said


def test_damaged_records_do_not_stop_the_cache(modelwheel: Modelwheel, tmp_path: Path) -> None:
    store = Store(tmp_path / "own")
    store.publish(KEY, make(tmp_path / "made"))
    record_file(store).write_bytes(b"[" * 100_000)
    assert modelwheel("cache").out.startswith("0 cached results")


def test_the_doctor_shows_the_policy(tmp_path: Path) -> None:
    def find(*keys: str, upstream: tuple[Path, ...] = ()) -> tuple[bool, str, str]:
        finding = check_store(Store(tmp_path / "own", Policy(keys, upstream)))
        return finding.ok, finding.found, finding.fix or ""

    release = tmp_path / "release"
    ok, found, fix = find(PUBLIC, upstream=(release,))
    assert (ok, found) == (False, "1 upstream, 1 trusted key")
    assert fix.startswith(f"there is no {release}; correct [store]")
    release.mkdir()
    assert find(PUBLIC, upstream=(release,)) == (True, "1 upstream, 1 trusted key", "")
    assert "anybody who can write an upstream is trusted" in find(upstream=(release,))[2]
    assert find() == (True, "no upstream, records are not signed", "")
    assert find(PUBLIC) == (True, "0 upstreams, 1 trusted key", "")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('upstream = "/srv"', "store.upstream: must be a list, such as [...], got '/srv'"),
        ("upstream = [1]", "store.upstream[0]: must be text in quotation marks, got 1"),
        ('upstream = ["/srv", "srv"]', "store.upstream[1]: must be an absolute path"),
        ('trusted_keys = ["MCowBQ=="]', "store.trusted_keys[0]: must be an Ed25519 public key"),
        ('trusted_key = [""]', "store.trusted_key: unknown field. Did you mean 'trusted_keys'?"),
        (
            'signing_key = ""',
            "store.signing_key: unknown field. Known here: url, cache_gb, upstream",
        ),
        ('url = "srv"', "store.url: must be an absolute path, such as /srv/modelwheel, or a URL"),
        ('url = "http://host/x"', "store.url: must be a directory, or one of s3://BUCKET/PREFIX"),
        ('upstream = ["s3://me:secret@b"]', "store.upstream[0]: must be s3://BUCKET/PREFIX alone"),
        ("cache_gb = 0", "store.cache_gb: must be greater than 0, got 0"),
    ],
)
def test_mistakes_in_the_policy(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / FILE_NAME).write_text(f"[store]\n{line}\n")
    with pytest.raises(UsageError, match=re.escape(message)):
        load_config(tmp_path)


def test_the_option_and_the_file_name_a_store(modelwheel: Modelwheel, tmp_path: Path) -> None:
    def shown(*options: str) -> str:
        return modelwheel("cache", *options).out.splitlines()[0].rpartition(", in ")[2]

    assert shown("--store", "here") == str(tmp_path / "here")
    (tmp_path / FILE_NAME).write_text(f"[store]\nurl = {json.dumps(str(tmp_path / 'there'))}\n")
    assert shown() == shown("--store", "") == str(tmp_path / "there")
    assert shown("--store", "here") == str(tmp_path / "here")


def test_a_store_in_a_bucket(modelwheel: Modelwheel, tmp_path: Path) -> None:
    with serve_objects("s3") as url:
        (tmp_path / FILE_NAME).write_text(f'[store]\nurl = "{url}/store"\nupstream = ["{url}/x"]\n')
        assert modelwheel("cache").out.splitlines() == [
            f"0 cached results, 0 bytes, in {url}/store",
            f"read-only: {url}/x (all records count)",
        ]
        store = opening.open_store(f"{url}/store", cache=tmp_path / "own")
        assert find_problem(store) is None
        assert list(store.backend.list("")) == []


def test_a_server_that_overwrites_is_no_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve_objects("s3") as url:
        store = opening.open_store(url, cache=tmp_path)
        monkeypatch.setattr(ObjectBackend, "create", lambda *_: True)
        finding = check_store(store)
    assert not finding.ok
    assert "overwrites objects that are to be created once (If-None-Match)" in finding.found


def test_an_address_that_is_none(modelwheel: Modelwheel) -> None:
    said = modelwheel("cache", "--store", "ftp://host/x", code=2).err
    assert "the address of a store must be a directory, or one of s3://BUCKET/PREFIX" in said


def test_every_command_that_opens_a_store_has_the_option() -> None:
    """But those of CMS, whose options are CMS's."""
    opening = {"open_store", "load_any", "run_build"}
    for path in (Path(package.__file__).parent / "cli").glob("*.py"):
        functions = [
            node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)
        ]
        calls = {
            function.name: {
                node.func.id
                for node in ast.walk(function)
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            }
            for function in functions
        }
        for function in functions:
            decorators = [ast.unparse(each) for each in function.decorator_list]
            called = calls[function.name]
            used = called.union(*(calls[name] for name in called & calls.keys()))
            if any(each.startswith("app.command") for each in decorators) and opening & used:
                assert "with_store" in decorators, f"{path.name}: {function.name}"


def test_windows_paths_are_paths_everywhere(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("[store]\nupstream = ['C:\\stores']\n")
    assert load_config(tmp_path).store.upstream == ("C:\\stores",)


def test_no_command_passes_the_policy_by() -> None:
    """`Store()` would read no policy; `api.settings.open_store` does."""
    root = Path(package.__file__).parent
    found = [
        path.name for path in root.rglob("*.py") if re.search(r"\bStore\(\)", path.read_text())
    ]
    assert found == []
