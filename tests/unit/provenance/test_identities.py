"""Attestations of workflows, without keys: whose count, and every way to get around that. No network is used."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from modelwheel.errors import ProvenanceError, UsageError
from modelwheel.provenance.identities import (
    Identity,
    _bundles,
    open_verifier,
    split_by_subject,
    verify_bundle,
)
from modelwheel.provenance.policy import Attested, load_policy, require_provenance
from modelwheel.wheelfile.contents import open_contents
from tests.support.commands import Modelwheel
from tests.support.described import describe, sdist_files, wheel_files, write_sdist, write_wheel
from tests.support.sigstore_instance import (
    GITHUB,
    PUBLISH,
    SLSA,
    Sigstore,
    as_attestation,
    make_statement,
)

ORG = "https://github.com/org/models"
WORKFLOW = f"{ORG}/.github/workflows/release.yml@refs/tags/model-a-1.0.0"
URL = "https://github.com/org/data"


@pytest.fixture(scope="module")
def sigstore() -> Sigstore:
    return Sigstore()


@pytest.fixture
def wheel(tmp_path: Path, sigstore: Sigstore) -> Path:
    sigstore.write_trusted_root(tmp_path / "trusted_root.json")
    write_policy(tmp_path)
    return write_wheel(tmp_path, wheel_files(describe(url=URL)))


def write_policy(
    directory: Path,
    builder: str = f"{ORG}/.github/workflows/release.yml@refs/tags/*",
    more: str = "",
) -> Path:
    path = directory / "policy.toml"
    path.write_text(
        f'[[builders]]\nid = "{builder}"\n{more}\n[sigstore]\ntrusted_root = "trusted_root.json"\n'
    )
    return path


def attest(
    sigstore: Sigstore,
    file: Path,
    *,
    identity: str = WORKFLOW,
    repository: str = ORG,
    issuer: str = GITHUB,
    predicate: str = SLSA,
) -> dict[str, Any]:
    """Puts a bundle beside a file."""
    made = sigstore.attest(make_statement([file], predicate), identity, repository, issuer)
    beside(file, ".intoto.jsonl", made)
    return made


def beside(file: Path, ending: str, value: object) -> None:
    file.with_name(file.name + ending).write_text(json.dumps(value) + "\n")


def verify(file: Path) -> Attested:
    return require_provenance(open_contents(file), load_policy(file.with_name("policy.toml")))


def refused(file: Path) -> str:
    with pytest.raises(ProvenanceError) as caught:
        verify(file)
    return str(caught.value)


def test_bundles_of_github(sigstore: Sigstore, wheel: Path, tmp_path: Path) -> None:
    attest(sigstore, wheel)
    attested = verify(wheel)
    assert (attested.builder, attested.source) == (WORKFLOW, f"git+{URL}")
    sdist = write_sdist(tmp_path, sdist_files())
    assert "has no signed provenance: model_a-1.0.0.tar.gz.intoto.jsonl is not" in refused(sdist)
    bundle = attest(sigstore, sdist)
    assert verify(sdist).builder == WORKFLOW
    sdist.with_name(f"{sdist.name}.intoto.jsonl").unlink()
    beside(sdist, ".sigstore.json", bundle)
    assert verify(sdist).builder == WORKFLOW


def test_attestations_of_package_indexes(sigstore: Sigstore, wheel: Path) -> None:
    """PEP 740: one attestation, and the answer of an index with all of a file."""
    attestation = as_attestation(attest(sigstore, wheel, predicate=PUBLISH))
    statements = wheel.with_name(f"{wheel.name}.intoto.jsonl")
    statements.unlink()
    beside(wheel, ".publish.attestation", attestation)
    assert verify(wheel).builder == WORKFLOW
    answer = {
        "version": 1,
        "attestation_bundles": [{"publisher": {"kind": "GitHub"}, "attestations": [attestation]}],
    }
    beside(wheel, ".publish.attestation", answer)
    assert verify(wheel).builder == WORKFLOW


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"identity": WORKFLOW.replace("release", "check")}, "which the policy does not trust"),
        (
            {"identity": WORKFLOW.replace("refs/tags/model-a-1.0.0", "refs/heads/main")},
            "does not trust",
        ),
        ({"identity": WORKFLOW.replace("org/", "evil/")}, "does not trust"),
        (
            {"repository": "https://github.com/evil/models"},
            "for https://github.com/evil/models, which",
        ),
        ({"repository": "https://github.com/org/model"}, "does not trust"),
        ({"repository": ""}, "for no repository"),
        ({"issuer": "https://accounts.example.org"}, "does not trust"),
        ({"predicate": "https://example.org/reviewed"}, "the signed statement is of another kind"),
    ],
)
def test_what_others_sign_does_not_count(
    sigstore: Sigstore, wheel: Path, change: dict[str, str], said: str
) -> None:
    attest(sigstore, wheel, **change)
    assert said in refused(wheel)


def test_a_reusable_workflow_counts_for_the_repositories_that_are_named(
    sigstore: Sigstore, wheel: Path, tmp_path: Path
) -> None:
    """Anybody may call it, so that its own name says little."""
    shared = "https://github.com/shared/ci/.github/workflows/build.yml@refs/tags/v1"
    attest(sigstore, wheel, identity=shared)
    write_policy(tmp_path, shared)
    assert "which the policy does not trust" in refused(wheel)
    write_policy(tmp_path, shared, f'repository = "{ORG}"')
    assert verify(wheel).builder == shared
    write_policy(tmp_path, shared, 'repository = "https://github.com/another/*"')
    assert "which the policy does not trust" in refused(wheel)


def _flip(text: str) -> str:
    return text[:-8] + ("A" if text[-8] != "A" else "B") + text[-7:]


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "payload": lambda b: b["dsseEnvelope"].update(payload=_flip(b["dsseEnvelope"]["payload"])),
    "signature": lambda b: b["dsseEnvelope"]["signatures"][0].update(
        sig=_flip(b["dsseEnvelope"]["signatures"][0]["sig"])
    ),
    "promise": lambda b: _entry(b)["inclusionPromise"].update(
        signedEntryTimestamp=_flip(_entry(b)["inclusionPromise"]["signedEntryTimestamp"])
    ),
    "time": lambda b: _entry(b).update(integratedTime=str(int(_entry(b)["integratedTime"]) + 9000)),
    "proof": lambda b: _entry(b)["inclusionProof"].update(treeSize="2"),
    "log": lambda b: b["verificationMaterial"].update(tlogEntries=[]),
    "nothing": lambda b: b.clear(),
}


def _entry(bundle: dict[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = bundle["verificationMaterial"]["tlogEntries"][0]
    return entry


@pytest.mark.parametrize("what", CHANGES)
def test_changed_bundles(sigstore: Sigstore, wheel: Path, what: str) -> None:
    bundle = attest(sigstore, wheel)
    CHANGES[what](bundle)
    beside(wheel, ".intoto.jsonl", bundle)
    assert "\n" not in refused(wheel)


def test_another_instance_and_another_file(sigstore: Sigstore, wheel: Path) -> None:
    attest(Sigstore(), wheel)
    assert refused(wheel)
    bundle = attest(sigstore, wheel)
    changed = wheel_files(describe(url=URL)) | {"model_a/_reference.npz": b"Rows"}
    write_wheel(wheel.parent, changed)
    beside(wheel, ".intoto.jsonl", bundle)
    assert "is about another file" in refused(wheel)


RECORDED = Path(__file__).with_name("recorded") / "reusable_workflow.sigstore.json"
"""An attestation that a workflow of GitHub made in May 2024; it is in the public log (index 96764485)."""

CALLED = (
    "https://github.com/github/artifact-attestations-workflows/.github/workflows/attest.yml"
    "@09b495c3f12c7881b3cc17209a327792065c1a1d"
)
CALLER = "https://github.com/malancas/attest-demo"


def test_an_attestation_that_github_made() -> None:
    """A workflow that another repository calls. The keys are those that come with sigstore: no network."""
    (bundle,) = _bundles(json.loads(RECORDED.read_text()))
    store = Path(str(resources.files("sigstore"))) / "_store"
    (shipped,) = store.glob("*.sigstore.dev/trusted_root.json")
    verifier = open_verifier(shipped)
    signed = verify_bundle(verifier, bundle, [Identity(CALLED, repository=CALLER)])
    assert signed.identity == CALLED
    line, hashes = split_by_subject(RECORDED)
    assert json.loads(line) == json.loads(RECORDED.read_text())
    assert hashes == {"49a3aa6075e0f49f82843e74b5baa614ad2a588e6675612bf108a0a008c5ac25"}
    for identity in (Identity(CALLED), Identity(f"{CALLER}/*", repository=CALLER)):
        with pytest.raises(ProvenanceError, match=f"signed by {CALLED} for {CALLER}, which"):
            verify_bundle(verifier, bundle, [identity])


def test_what_is_no_bundle_is_left_out(sigstore: Sigstore, wheel: Path) -> None:
    bundle = json.dumps(attest(sigstore, wheel))
    lines = [
        "",
        "[",
        "[]",
        "{}",
        "7",
        '{"mediaType": 1}',
        '{"verification_material": {}}',
        "[" * 99999,
    ]
    lines += ['{"attestation_bundles": [{}]}', '{"attestation_bundles": 3}', bundle]
    statements = wheel.with_name(f"{wheel.name}.intoto.jsonl")
    statements.write_text("\n".join(lines))
    assert verify(wheel).builder == WORKFLOW
    statements.write_text("\n".join(lines[:-1]))
    assert "it has no bundle of Sigstore" in refused(wheel)


def test_the_source_must_be_allowed(sigstore: Sigstore, wheel: Path, tmp_path: Path) -> None:
    attest(sigstore, wheel)
    path = write_policy(tmp_path)
    path.write_text(path.read_text() + '[sources]\nallow = ["git+https://example.org/*"]\n')
    assert f"the model comes from git+{URL}, which [sources] of" in refused(wheel)


def test_mistakes_in_a_policy(wheel: Path, sigstore: Sigstore, tmp_path: Path) -> None:
    attest(sigstore, wheel)
    (tmp_path / "trusted_root.json").write_text("{}")
    with pytest.raises(UsageError, match=r"trusted_root.json is not a trusted root of Sigstore"):
        verify(wheel)
    (tmp_path / "trusted_root.json").unlink()
    with pytest.raises(UsageError, match=r"cannot read .*trusted_root.json: No such file"):
        verify(wheel)
    write_policy(tmp_path, more='key = "ours.pub.pem"\nissuer = "x"')
    with pytest.raises(UsageError, match="belong to builders without a key"):
        verify(wheel)


def test_the_commands(sigstore: Sigstore, wheel: Path, tmp_path: Path) -> None:
    """A workflow gets one bundle for all its files; each of them gets it as a line beside it."""
    modelwheel = Modelwheel(tmp_path / "cache")
    sdist = write_sdist(tmp_path, sdist_files())
    made = sigstore.attest(make_statement([wheel, sdist]), WORKFLOW, ORG)
    bundle = tmp_path / "attestation.json"
    bundle.write_text(json.dumps(made, indent=1))
    for _ in range(2):
        done = modelwheel("attest", wheel, sdist, "--bundle", bundle)
        assert done.out.splitlines() == [f"{wheel}.intoto.jsonl", f"{sdist}.intoto.jsonl"]
        assert len(Path(f"{wheel}.intoto.jsonl").read_text().splitlines()) == 1
    assert verify(sdist).builder == verify(wheel).builder == WORKFLOW
    bundle.write_text(json.dumps(as_attestation(made)))
    other = sdist.rename(sdist.with_name("model_a-1.0.0.post1.tar.gz"))
    other.write_bytes(other.read_bytes() + b"\0")
    done = modelwheel("attest", other, "--bundle", bundle, code=2)
    assert "attestation.json says nothing about model_a-1.0.0.post1.tar.gz" in done.err
    bundle.write_text("{}")
    done = modelwheel("attest", wheel, "--bundle", bundle, code=2)
    assert "is not a Sigstore bundle or an attestation of a package index" in done.err
