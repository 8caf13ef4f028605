"""The example configurations of clusters in docs/examples/clusters: what they generate, start and allow."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from botocore.exceptions import ClientError
from distributed import Client, LocalCluster, Security
from distributed.cli.dask_scheduler import main as dask_scheduler
from distributed.cli.dask_worker import main as dask_worker
from moto import mock_aws, settings
from moto.core import set_initial_no_auth_action_count
from moto.core.authorization import ActionAuthenticatorMixin

from modelwheel.engine.cluster.start import PRELOAD
from modelwheel.errors import StoreError
from modelwheel.store.keys import action_key
from modelwheel.store.opening import open_store
from tests.support.commands import parse as parse_command
from tests.support.commands import run
from tests.support.object_stores import serve_s3
from tests.support.pages import ROOT
from tests.support.waiting import wait_until

EXAMPLES = ROOT / "docs" / "examples" / "clusters"
TLS, SCHEDULER = "/srv/modelwheel/tls", "tls://scheduler.example.org:8786"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What certificates.sh writes."""
    directory = tmp_path_factory.mktemp("tls")
    run("sh", EXAMPLES / "certificates.sh", directory)
    return directory


def parse(words: list[str], tls: Path) -> dict[str, Any]:
    """The options of a worker, as Dask's own command line reads them."""
    here = [word.replace(TLS, str(tls)).replace("=/tls/", f"={tls}/") for word in words]
    return dict(dask_worker.make_context("dask worker", here).params)


def check_worker(words: list[str], tls: Path) -> None:
    options = parse(words, tls)
    assert options["preload"] == (PRELOAD,)
    assert Path(options["tls_cert"]).name == "worker.pem"
    assert options["tls_ca_file"] == str(tls / "ca.pem")
    assert options["death_timeout"] == "300"


# --- TLS ------------------------------------------------------------------------------------------


def test_keys_are_for_their_owner_alone(tls: Path) -> None:
    names = {"ca", "scheduler", "worker", "client"}
    assert {path.stem for path in tls.glob("*.key")} == names
    assert {path.stem for path in tls.glob("*.pem")} == names
    if sys.platform != "win32":
        assert {path.stat().st_mode & 0o077 for path in tls.iterdir()} == {0}


def security(tls: Path, role: str = "client") -> Security:
    files = {"cert": tls / f"{role}.pem", "key": tls / f"{role}.key"}
    return Security(
        require_encryption=True,
        tls_ca_file=str(tls / "ca.pem"),
        **{
            f"tls_{part}_{kind}": str(path)
            for part in ("client", "scheduler", "worker")
            for kind, path in files.items()
        },
    )


def test_who_has_no_certificate_submits_nothing(tls: Path, tmp_path: Path) -> None:
    """Who may submit to a scheduler runs code on every worker: an address alone must not be enough."""
    stranger = tmp_path / "stranger"
    run("sh", EXAMPLES / "certificates.sh", stranger)
    mixed = Security(
        require_encryption=True,
        tls_ca_file=str(tls / "ca.pem"),  # is public
        tls_client_cert=str(stranger / "client.pem"),
        tls_client_key=str(stranger / "client.key"),
    )
    with (
        LocalCluster(
            n_workers=0,
            processes=False,
            protocol="tls://",
            security=security(tls, "scheduler"),
            dashboard_address="127.0.0.1:0",
        ) as cluster,
    ):
        address = cluster.scheduler_address
        with Client(address, security=security(tls), set_as_default=False) as client:
            assert client.run_on_scheduler(os.getpid) == os.getpid()
        plain = address.replace("tls://", "tcp://")
        for where, who in ((plain, None), (address, mixed)):
            with pytest.raises(OSError, match=r"Timed out|SSL|TLS|[Cc]onnect|closed"):
                Client(where, security=who, timeout=2, set_as_default=False)
        host, port = address.removeprefix("tls://").split(":")
        context = ssl.create_default_context(cafile=tls / "ca.pem")
        context.check_hostname = False
        with (
            socket.create_connection((host, int(port)), timeout=10) as plain_socket,
            pytest.raises(ssl.SSLError, match="certificate required"),
            context.wrap_socket(plain_socket) as encrypted,
        ):
            encrypted.recv(1)


# --- job queues -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "cluster", "expected"),
    [
        ("slurm.py", "SLURMCluster", "slurm.sh"),
        ("htcondor.py", "HTCondorCluster", "htcondor.submit"),
    ],
)
def test_job_scripts_are_those_of_dask_jobqueue(
    program: str,
    cluster: str,
    expected: str,
    tls: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)  # it makes the directory of the logs
    names = runpy.run_path(str(EXAMPLES / program))
    options = names["options"](tls)
    options["scheduler_options"] = {"port": 0, "dashboard_address": "localhost:0"}
    with names[cluster](**options) as made:
        script = made.job_script().replace(made.scheduler_address, SCHEDULER)
    script = script.replace(str(tls), TLS)
    assert script.rstrip() == (EXAMPLES / expected).read_text().rstrip()
    command = re.search(r"dask_worker (tls://[^'\n]*)", script)
    assert command is not None
    check_worker(shlex.split(command[1]), tls)


# --- SSH ------------------------------------------------------------------------------------------

_SSH = """#!/bin/sh
echo "$*" >> "$LOG"
exec sleep 100
"""


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """The script with an `ssh` that only notes how it was called, and goes on."""
    (tmp_path / "ssh").write_text(_SSH)
    (tmp_path / "ssh").chmod(0o755)
    log = tmp_path / "log"
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "LOG": str(log)}
    command = ["sh", str(EXAMPLES / "ssh.sh"), SCHEDULER, "node-1", "node-2"]
    with subprocess.Popen(command, env=environment, start_new_session=True) as process:
        try:
            yield process, log
        finally:
            with ExitStack() as stack:
                stack.callback(process.wait)
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no sh")
def test_a_worker_starts_on_each_host_and_ends_with_the_script(
    ssh: tuple[subprocess.Popen[bytes], Path],
) -> None:
    process, log = ssh
    wait_until(lambda: log.exists() and log.read_text().count("\n") == 2)
    said = sorted(log.read_text().splitlines())
    for line, host in zip(said, ("node-1", "node-2"), strict=True):
        _, where, command = line.partition(f"{host} cd /srv/modelwheel && venv/bin/")
        assert where
        parse_command(shlex.split(command)[1:])
        assert command.endswith(f" --name {host} {SCHEDULER}")
    os.kill(process.pid, signal.SIGTERM)
    process.wait(timeout=20)
    wait_until(lambda: not _is_group_there(process.pid))


def _is_group_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


# --- Kubernetes -----------------------------------------------------------------------------------


def test_containers_of_kubernetes_start_what_dask_knows(tls: Path) -> None:
    """tests/integration/test_cluster_manifest.py compares the manifest with its schema."""
    spec = yaml.safe_load((EXAMPLES / "kubernetes.yaml").read_text())["spec"]
    (worker,) = spec["worker"]["spec"]["containers"]
    assert worker["args"][:2] == ["dask", "worker"]
    check_worker(worker["args"][2:], tls)
    (scheduler,) = spec["scheduler"]["spec"]["containers"]
    assert scheduler["args"][:2] == ["dask", "scheduler"]
    words = [word.replace("=/tls/", f"={tls}/") for word in scheduler["args"][2:]]
    options = dask_scheduler.make_context("dask scheduler", words).params
    assert options["protocol"] == "tls"
    environment = {variable["name"]: variable["value"] for variable in worker["env"]}
    assert environment["DASK_SCHEDULER_ADDRESS"].startswith("tls://modelwheel-scheduler.")


# --- rights in S3 ---------------------------------------------------------------------------------

RELEASE, OWN, OTHER = "release", "pull-requests", "secrets"
RIGHTS = {
    "s3-reader": {"get": {RELEASE}, "put": set(), "delete": set(), "end": set()},
    "s3-release": {"get": {RELEASE}, "put": {RELEASE}, "delete": set(), "end": {RELEASE}},
    "s3-pull-request": {"get": {RELEASE, OWN}, "put": {OWN}, "delete": {OWN}, "end": {OWN}},
    "s3-collector": {name: {RELEASE, OWN} for name in ("get", "put", "delete", "end")},
}
"""The parts of the bucket where each role may read, write, delete results, and delete claims of its own."""


def test_every_policy_is_tried() -> None:
    assert {path.stem for path in EXAMPLES.glob("s3-*.json")} == set(RIGHTS)
    for path in EXAMPLES.glob("s3-*.json"):
        for statement in json.loads(path.read_text())["Statement"]:
            assert "*" not in "".join(statement["Action"])
            if statement["Action"] == ["s3:ListBucket"]:  # moto does not look at conditions
                prefixes = statement["Condition"]["StringLike"]["s3:prefix"]
                assert set(prefixes) == {f"{part}/*" for part in RIGHTS[path.stem]["get"]}


@pytest.mark.parametrize("role", RIGHTS)
def test_a_role_may_do_what_it_needs_and_no_more(
    role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "owner")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        iam, owner = boto3.client("iam"), boto3.client("s3")
        iam.create_user(UserName=role)
        policy = (EXAMPLES / f"{role}.json").read_text()
        iam.put_user_policy(UserName=role, PolicyName="example", PolicyDocument=policy)
        key = iam.create_access_key(UserName=role)["AccessKey"]
        owner.create_bucket(Bucket="models-store")
        for part in (RELEASE, OWN, OTHER):
            for name in ("actions/ab/one.json", "claims/one.1"):
                owner.put_object(Bucket="models-store", Key=f"{part}/{name}", Body=b"1")
        assert set_initial_no_auth_action_count(0)(lambda: _tried(key))() == RIGHTS[role]


def _tried(key: dict[str, str]) -> dict[str, set[str]]:
    """The parts of the bucket where each action is allowed."""
    files = boto3.client(
        "s3",
        aws_access_key_id=key["AccessKeyId"],
        aws_secret_access_key=key["SecretAccessKey"],
    )
    actions = {
        "get": (files.get_object, "actions/ab/one.json"),
        "put": (files.put_object, "actions/ab/two.json"),
        "delete": (files.delete_object, "actions/ab/one.json"),
        "end": (files.delete_object, "claims/one.1"),
    }

    def may(action: str, part: str) -> bool:
        call, name = actions[action]
        try:
            call(Bucket="models-store", Key=f"{part}/{name}")
        except ClientError as error:
            if error.response["Error"]["Code"] != "AccessDenied":
                raise
            return False
        return True

    return {
        action: {part for part in (RELEASE, OWN, OTHER) if may(action, part)} for action in actions
    }


@pytest.fixture
def roles(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """A server that knows the policies, with a function that takes a role."""
    with serve_s3(monkeypatch):
        owner, iam = boto3.client("s3"), boto3.client("iam")
        owner.create_bucket(Bucket="models-store")
        keys = {}
        for role in RIGHTS:
            iam.create_user(UserName=role)
            policy = (EXAMPLES / f"{role}.json").read_text()
            iam.put_user_policy(UserName=role, PolicyName="example", PolicyDocument=policy)
            keys[role] = iam.create_access_key(UserName=role)["AccessKey"]

        def take(role: str) -> None:
            monkeypatch.setenv("AWS_ACCESS_KEY_ID", keys[role]["AccessKeyId"])
            monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", keys[role]["SecretAccessKey"])

        monkeypatch.setattr(ActionAuthenticatorMixin, "request_count", 0)
        monkeypatch.setattr(settings, "INITIAL_NO_AUTH_ACTION_COUNT", 0)
        yield take


def test_a_store_needs_no_more_rights(roles: Callable[[str], None], tmp_path: Path) -> None:
    """What a release puts there, with leases and claims, a pull request reads, and cannot write."""
    key = action_key("toy", number="1")

    def publish(url: str, here: Path) -> None:
        with (
            closing(open_store(url, cache=here)) as store,
            store.lock(key, lambda: False),
            store.scratch() as out,
        ):
            (out / "file").write_bytes(b"1" * 100)
            store.publish(key, out, {"step": "toy"})

    roles("s3-release")
    publish("s3://models-store/release", tmp_path / "release")
    roles("s3-reader")
    with closing(open_store("s3://models-store/release", cache=tmp_path / "reader")) as store:
        record = store.lookup(key)
        assert record is not None
        assert store.read_bytes(record, "file") == b"1" * 100
    roles("s3-pull-request")
    publish("s3://models-store/pull-requests", tmp_path / "pull-request")
    with pytest.raises(StoreError):
        publish("s3://models-store/release", tmp_path / "other")
