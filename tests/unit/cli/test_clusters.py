"""The option `--cluster`, the section of modelwheel.toml, and `modelwheel worker`."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from modelwheel.cli import app
from modelwheel.cli.clusters import find_cluster, worker
from modelwheel.engine.cluster import start
from modelwheel.engine.cluster.address import Target
from modelwheel.errors import ClusterError, UsageError
from modelwheel.sandbox.policy import Policy

RUN_STEPS = ["adopt", "build", "bundle", "check", "compile"]


def test_the_commands_that_have_it() -> None:
    command = typer.main.get_command(app)
    having = [
        name
        for name, each in vars(command)["commands"].items()
        if any("--cluster" in parameter.opts for parameter in each.params)
    ]
    assert sorted(having) == RUN_STEPS


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `modelwheel.toml` that counts."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path / "modelwheel.toml"


def test_the_option_overrides_the_file(rules: Path) -> None:
    assert find_cluster(None, None) is None
    rules.write_text(
        '[cluster]\naddress = "tcp://there:1"\nresources = {licence = 2}\n[sandbox]\nmode = "preferred"\nseconds = 7\n'
    )
    found = find_cluster(None, None)
    assert found is not None
    assert found.target == Target("tcp://there:1", resources={"licence": 2.0})
    assert (found.sandbox, found.limits.wall_seconds) == (Policy.PREFERRED, 7)
    other = find_cluster("tcp://elsewhere:2", Policy.REQUIRED)
    assert other is not None
    assert (other.target.address, other.sandbox) == ("tcp://elsewhere:2", Policy.REQUIRED)
    assert find_cluster("off", None) is None


def test_options_that_have_no_meaning_on_a_cluster_are_refused(rules: Path) -> None:
    with pytest.raises(UsageError, match=r"--cluster cannot be combined with --jobs") as error:
        find_cluster("local:2", None, {"--jobs": 3})
    assert "off" not in str(error.value)
    rules.write_text('[cluster]\naddress = "tcp://there:1"\n')
    with pytest.raises(UsageError, match="--cluster off runs the steps here"):
        find_cluster(None, None, {"--jobs": 3})
    assert find_cluster("off", None, {"--jobs": 3}) is None


def test_files_of_tls_are_beside_the_configuration(
    rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules.write_text('[cluster]\ntls_ca_file = "ca"\ntls_cert = "cert"\n')
    with pytest.raises(UsageError, match="needs all of `tls_ca_file`, `tls_cert` and `tls_key`"):
        find_cluster("tls://there:1", None)
    rules.write_text('[cluster]\ntls_ca_file = "ca"\ntls_cert = "cert"\ntls_key = "key"\n')
    for name in ("ca", "cert", "key"):
        (rules.parent / name).touch()
    (rules.parent / "below").mkdir()
    monkeypatch.chdir(rules.parent / "below")
    found = find_cluster("tls://there:1", None)
    assert found is not None
    assert found.target.tls is not None
    assert found.target.tls.ca_file == rules.parent / "ca"


def test_a_worker_needs_a_scheduler() -> None:
    with pytest.raises(UsageError, match="a worker needs the address of a scheduler"):
        worker("local:2")


def test_a_worker_that_does_not_start_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "worker_command", lambda *_: ["false"])
    monkeypatch.setattr(start, "_AGAIN_SECONDS", 0)
    target, machine = Target("tcp://there:1"), start.Machine(1, 1, 1)
    with pytest.raises(ClusterError, match="ended with exit code 1 each time"):
        start.run_workers(target, machine, lambda _: None)
