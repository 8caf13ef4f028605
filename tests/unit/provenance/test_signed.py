"""Signed provenance: what is stated, who may state it, and every way to get around that."""

from __future__ import annotations

import base64
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from modelwheel.errors import ProvenanceError, UsageError
from modelwheel.provenance.policy import load_policy, require_provenance
from modelwheel.provenance.signing import bundle_path, find_private_key, sign, write_bundle
from modelwheel.provenance.statement import find_builder, find_invocation, make_statement
from modelwheel.wheelfile.contents import Contents, open_contents
from tests.support.commands import Modelwheel
from tests.support.described import describe, sdist_files, wheel_files, write_sdist, write_wheel

BUILDER = "https://github.com/org/models/.github/workflows/release.yml@refs/tags/model-a-1.0.0"
TRUSTED = BUILDER.replace("model-a-1.0.0", "*")
URL = "https://github.com/org/data"


def make_key(directory: Path, name: str) -> Path:
    """A pair of keys, `NAME.pem` and `NAME.pub.pem`; returns the private one."""
    key = Ed25519PrivateKey.generate()
    private, public = directory / f"{name}.pem", directory / f"{name}.pub.pem"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    spki = PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, spki))
    return private


def read_key(directory: Path, name: str) -> Any:
    return find_private_key(directory / f"{name}.pem")


def make_policy(
    directory: Path, *, builder: str = TRUSTED, key: str = "ours", more: str = ""
) -> Path:
    path = directory / "policy.toml"
    path.write_text(f'[[builders]]\nid = "{builder}"\nkey = "{key}.pub.pem"\n{more}')
    return path


@pytest.fixture
def modelwheel(tmp_path: Path) -> Modelwheel:
    return Modelwheel(tmp_path / "cache")


@pytest.fixture
def wheel(tmp_path: Path) -> Contents:
    make_key(tmp_path, "ours")
    make_key(tmp_path, "theirs")
    return open_contents(write_wheel(tmp_path, wheel_files(describe(url=URL))))


def state(contents: Contents, change: Callable[[dict[str, Any]], object] = lambda _: None) -> bytes:
    """The statement about a file, changed."""
    statement = json.loads(make_statement(contents, BUILDER).to_json())
    change(statement)
    return json.dumps(statement).encode()


def refused(contents: Contents, policy: Path) -> str:
    with pytest.raises(ProvenanceError) as caught:
        require_provenance(contents, load_policy(policy))
    return str(caught.value)


def test_a_statement_names_file_builder_spec_and_source(wheel: Contents) -> None:
    statement = json.loads(make_statement(wheel, BUILDER, "https://example.org/run/7").to_json())
    origin = wheel.manifests[0].provenance
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    (subject,) = statement["subject"]
    assert subject["name"] == wheel.path.name
    build, run = (statement["predicate"][part] for part in ("buildDefinition", "runDetails"))
    assert build["externalParameters"]["spec"] == {"sha256": origin.spec_sha256}
    source, model = build["resolvedDependencies"]
    assert source["uri"] == f"git+{URL}"
    assert source["digest"] == {"gitCommit": origin.source["commit"]}
    assert model["digest"] == {"treeSha256": origin.tree_sha256}
    assert run["builder"]["id"] == BUILDER
    assert run["metadata"] == {"invocationId": "https://example.org/run/7"}


def test_wheels_and_source_distributions_are_signed_and_verified(
    wheel: Contents, tmp_path: Path, modelwheel: Modelwheel
) -> None:
    sdist = write_sdist(tmp_path, sdist_files())
    done = modelwheel(
        "attest", wheel.path, sdist, "--key", tmp_path / "ours.pem", "--builder", BUILDER
    )
    assert done.out.splitlines() == [str(bundle_path(wheel.path)), str(bundle_path(sdist))]
    again = modelwheel(
        "attest", sdist, "--key", tmp_path / "ours.pem", "--builder", BUILDER, "--json"
    )
    assert again.json == [{"file": str(sdist), "statement": str(bundle_path(sdist))}]
    policy = load_policy(make_policy(tmp_path))
    for path in (wheel.path, sdist):
        attested = require_provenance(open_contents(path), policy)
        assert attested.builder == BUILDER
        assert attested.source.startswith("git+https://")


def test_the_key_may_be_in_the_environment(
    wheel: Contents, tmp_path: Path, modelwheel: Modelwheel
) -> None:
    text = (tmp_path / "ours.pem").read_text()
    modelwheel("attest", wheel.path, "--builder", BUILDER, MODELWHEEL_PROVENANCE_KEY=text)
    assert require_provenance(wheel, load_policy(make_policy(tmp_path))).builder == BUILDER


def test_a_file_that_changed_after_it_was_signed(wheel: Contents, tmp_path: Path) -> None:
    write_bundle(wheel.path, [sign(state(wheel), read_key(tmp_path, "ours"))])
    with zipfile.ZipFile(wheel.path, "a") as archive:
        archive.writestr("model_a/more.txt", b"")
    said = refused(open_contents(wheel.path), make_policy(tmp_path))
    assert "is about another file" in said


def forge(line: str, change: Callable[[dict[str, Any]], object]) -> str:
    envelope = json.loads(line)
    statement = json.loads(base64.b64decode(envelope["payload"]))
    change(statement)
    envelope["payload"] = base64.b64encode(json.dumps(statement).encode()).decode()
    return json.dumps(envelope)


def test_a_statement_that_changed_after_it_was_signed(wheel: Contents, tmp_path: Path) -> None:
    line = sign(state(wheel), read_key(tmp_path, "ours"))
    write_bundle(wheel.path, [forge(line, lambda s: s["subject"].append({"name": "x"}))])
    assert "no statement is signed with a key of" in refused(wheel, make_policy(tmp_path))


def test_a_key_that_is_not_trusted(wheel: Contents, tmp_path: Path) -> None:
    line = sign(state(wheel), read_key(tmp_path, "theirs"))
    # The id of a key is only a hint: that of a trusted key changes nothing.
    trusted = json.loads(sign(state(wheel), read_key(tmp_path, "ours")))["signatures"][0]["keyid"]
    envelope = json.loads(line)
    envelope["signatures"][0]["keyid"] = trusted
    write_bundle(wheel.path, [line, json.dumps(envelope)])
    assert "no statement is signed with a key of" in refused(wheel, make_policy(tmp_path))


def claim_spec(statement: dict[str, Any]) -> None:
    parameters = statement["predicate"]["buildDefinition"]["externalParameters"]
    parameters["spec"] = {"sha256": "0" * 64}


def claim_builder(statement: dict[str, Any]) -> None:
    statement["predicate"]["runDetails"]["builder"]["id"] = "https://example.org/laptop"


def claim_type(statement: dict[str, Any]) -> None:
    statement["predicateType"] = "https://example.org/review/v1"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (claim_spec, "and the file's own manifest differ in external_parameters"),
        (claim_builder, "the builder https://example.org/laptop is not one that"),
        (claim_type, "the signed statement is of another kind"),
        (lambda statement: statement.clear(), "the signed text is not a statement of provenance"),
    ],
)
def test_signed_statements_that_do_not_count(
    wheel: Contents, tmp_path: Path, change: Callable[[dict[str, Any]], object], said: str
) -> None:
    line = sign(state(wheel, change), read_key(tmp_path, "ours"))
    write_bundle(wheel.path, [line])
    assert said in refused(wheel, make_policy(tmp_path))
    # Beside a good one they do not matter.
    write_bundle(wheel.path, ["{}", "noise", line, sign(state(wheel), read_key(tmp_path, "ours"))])
    assert require_provenance(wheel, load_policy(make_policy(tmp_path))).builder == BUILDER


def test_sources_that_the_policy_does_not_allow(wheel: Contents, tmp_path: Path) -> None:
    write_bundle(wheel.path, [sign(state(wheel), read_key(tmp_path, "ours"))])
    allowed = '[sources]\nallow = ["git+https://github.com/org/*"]\n'
    assert require_provenance(wheel, load_policy(make_policy(tmp_path, more=allowed))).source
    other = allowed.replace("/org/", "/other/")
    said = refused(wheel, make_policy(tmp_path, more=other))
    assert f"the model comes from git+{URL}, which [sources]" in said


def test_no_bundle_and_one_that_is_too_large(wheel: Contents, tmp_path: Path) -> None:
    policy = make_policy(tmp_path)
    assert "has no signed provenance" in refused(wheel, policy)
    with bundle_path(wheel.path).open("wb") as file:
        file.truncate((4 << 20) + 1)
    assert "is larger than" in refused(wheel, policy)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[sources]\n", "builders: Field required"),
        ("builders = []\n", "builders: Tuple should have at least 1 item"),
        ('[[builders]]\nid = "x"\nkey = "absent.pem"\n', "cannot read the key"),
        ('[[builders]]\nid = "x"\nkey = "policy.toml"\n', "is not a public key in PEM format"),
        ('[[builders]]\nid = "x"\nkeys = "y"\n', "builders.0.keys: Extra inputs are not permitted"),
        ("builders\n", "is not valid TOML"),
    ],
)
def test_mistakes_in_a_policy(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(content)
    with pytest.raises(UsageError) as caught:
        load_policy(path)
    assert said in str(caught.value)


def test_keys_and_builders_that_cannot_be_used(wheel: Contents, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a private key in PEM format"):
        find_private_key(tmp_path / "ours.pub.pem")
    with pytest.raises(UsageError, match="cannot read the key"):
        find_private_key(tmp_path / "absent.pem")
    with pytest.raises(
        UsageError, match="pass --key FILE, or its text in MODELWHEEL_PROVENANCE_KEY"
    ):
        find_private_key(None, {"MODELWHEEL_PROVENANCE_KEY": ""})
    with pytest.raises(UsageError, match="MODELWHEEL_PROVENANCE_KEY is not a private key"):
        find_private_key(None, {"MODELWHEEL_PROVENANCE_KEY": "secret"})
    with pytest.raises(UsageError, match="is not a URI"):
        find_builder("my laptop", {})
    with pytest.raises(UsageError, match="pass --builder URI"):
        find_builder(None, {})
    assert not bundle_path(wheel.path).exists()


def test_github_actions_is_detected() -> None:
    workflow = BUILDER.removeprefix("https://github.com/")
    variables: Mapping[str, str] = {
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_WORKFLOW_REF": workflow,
        "GITHUB_REPOSITORY": "org/models",
        "GITHUB_RUN_ID": "12",
        "GITHUB_RUN_ATTEMPT": "2",
    }
    assert find_builder(None, variables) == BUILDER
    assert find_invocation(variables) == "https://github.com/org/models/actions/runs/12/attempts/2"


def test_verify_checks_provenance_before_anything_is_installed(
    wheel: Contents, tmp_path: Path, modelwheel: Modelwheel
) -> None:
    policy = make_policy(tmp_path)
    code = ProvenanceError.exit_code
    done = modelwheel("verify", wheel.path, "--provenance", "--policy", policy, code=code)
    assert "has no signed provenance" in done.err
    for wrong in (["--provenance"], ["--policy", policy]):
        modelwheel("verify", wheel.path, *wrong, code=UsageError.exit_code)
