"""What `modelwheel export cmsdist` writes: a .spec, a configuration, a line."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from modelwheel.cms.cmsdist import aot_config_text, export_cmsdist
from modelwheel.errors import ModelwheelError, SpecError, UsageError
from modelwheel.spec import Spec, load_spec

COMMIT = "df4bfd35dfed51d7c6ff0367ebc78093dfcc7d1d"
GIT = f"source: {{git: https://example.org/group/models.git, commit: {COMMIT}, path: models/a/saved_model}}"
DATA = (
    "source:\n  git: https://github.com/cms-data/L1Trigger-Phase2L1ParticleFlow.git\n"
    f'  commit: {COMMIT}\n  path: tau.pb\n  feeds: {{b: "x:0", a: "y:0"}}\n  fetches: {{out: "z:0"}}'
)


def make(directory: Path, more: str, version: str = "1.0.0") -> Spec:
    path = directory / "aot_config.yaml"
    path.write_text(f'model: {{name: a-net, version: "{version}"}}\n{more}\n')
    return load_spec(path)


def export(spec: Spec, out: Path, **options: str) -> tuple[str, str]:
    """The .spec, and the place of the configuration."""
    given = {"data": None, "aot_config": None, "branch": "master", **options}
    done = export_cmsdist(spec, out, **given)  # type: ignore[arg-type]
    assert done.spec_file.name == "tfaot-model-a-net.spec"
    assert done.line == "Requires: tfaot-model-a-net"
    return done.spec_file.read_text(), done.config_place


def test_a_repository_is_a_source(tmp_path: Path) -> None:
    text, place = export(make(tmp_path, GIT), tmp_path / "out", branch="main")
    assert text == (
        "### RPM external tfaot-model-a-net 1.0.0\n\n"
        f"%define tag {COMMIT}\n"
        "%define branch main\n"
        "%define aot_source %{n}-%{realversion}\n"
        "Source: git+https://example.org/group/models.git?obj=%{branch}/%{tag}&export=%{aot_source}"
        "&output=/%{n}-%{realversion}-%{tag}.tgz\n\n"
        "%define aot_config models/a/aot_config.yaml\n\n"
        "## INCLUDE tfaot-compile\n"
    )
    assert place == "models/a/aot_config.yaml"


def test_a_repository_of_cmsdata_is_a_requirement(tmp_path: Path) -> None:
    root = "$DATA_L1TRIGGER_PHASE2L1PARTICLEFLOW_ROOT/L1Trigger/Phase2L1ParticleFlow/data"
    expected = (
        "### RPM external tfaot-model-a-net 1.0.0\n\n"
        "BuildRequires: data-L1Trigger-Phase2L1ParticleFlow\n\n"
        "%define aot_config {}/{}\n\n"
        "## INCLUDE tfaot-compile\n"
    )
    text, _ = export(make(tmp_path, DATA), tmp_path / "out")
    assert text == expected.format(root, "tau_aot_config.yaml")

    # A configuration of CMS in a checkout of the repository says where it is.
    checkout = tmp_path / "checkout"
    (checkout / "models").mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet", checkout], check=True)
    own = make(checkout / "models", "")
    text, _ = export(own, tmp_path / "out", data="data-L1Trigger-Phase2L1ParticleFlow")
    assert text == expected.format(root, "models/aot_config.yaml")


def test_the_configuration_has_the_same_meaning_in_the_repository(tmp_path: Path) -> None:
    """One for a SavedModel has CMS's keys alone."""
    spec = make(
        tmp_path, f"{GIT}\npackage: {{weights_license: MIT}}\ncompilation: {{batch_sizes: [4, 1]}}"
    )
    assert yaml.safe_load(aot_config_text(spec, "models/a/aot_config.yaml")) == {
        "model": {"name": "a_net", "version": "1.0.0", "saved_model": "./saved_model"},
        "compilation": {"batch_sizes": [1, 4]},
    }
    deeper = yaml.safe_load(aot_config_text(spec, "other/b.yaml"))
    assert deeper["model"]["saved_model"] == "./../models/a/saved_model"

    graph = make(
        tmp_path,
        f"{DATA}\ninputs: {{a: {{shape: [null, 3]}}}}\npackage: {{weights_storage: float16}}",
    )
    repository = tmp_path / "repository"
    (repository / "configs").mkdir(parents=True)
    (repository / "configs" / "a.yaml").write_text(aot_config_text(graph, "configs/a.yaml"))
    read = load_spec(repository / "configs" / "a.yaml")
    assert read.compilation.batch_sizes == (1,)
    assert (read.inputs, read.package.weights_storage) == (graph.inputs, "float16")
    assert read.source is not None
    assert graph.source is not None
    assert list(read.source.feeds.items()) == [("b", "x:0"), ("a", "y:0")]
    assert read.source.format_options == graph.source.format_options
    assert read.origin.resolve(read.directory).path == "tau.pb"


def test_the_list_of_models_gets_one_line(tmp_path: Path) -> None:
    """Inside the condition that leaves models out without TensorFlow."""
    listed = "# comment\n%if 0%{!?without_tensorflow:1}\nRequires: tfaot-model-b\n%endif\n"
    (tmp_path / "tfaot-models.file").write_text(listed)
    spec = make(tmp_path, GIT)
    for _ in range(2):
        export(spec, tmp_path)
        lines = (tmp_path / "tfaot-models.file").read_text().splitlines()
        assert lines[2:] == ["Requires: tfaot-model-b", "Requires: tfaot-model-a-net", "%endif"]


ARCHIVE = f"source: {{archive: https://example.org/a.tar.gz, sha256: {'0' * 64}}}"
SSH = GIT.replace("https://example.org/", "git@example.org:")


@pytest.mark.parametrize(
    ("more", "options", "error", "sentence"),
    [
        ("", {}, SpecError, "a directory of this machine, which CMSDIST cannot fetch"),
        (ARCHIVE, {}, SpecError, "an archive, which CMSDIST cannot fetch; name the repository"),
        (SSH, {}, SpecError, "plain https:// addresses alone"),
        ("", {"data": "Some-Data"}, SpecError, "not in a checkout of a repository"),
        ("", {"data": "some data"}, UsageError, "--data: 'some data' is not a repository"),
        (GIT, {"aot_config": "/etc/a.yaml"}, UsageError, "--aot-config: '/etc/a.yaml' must be"),
        (GIT, {"aot_config": "a b"}, UsageError, "--aot-config: 'a b' must be relative"),
        (GIT, {"branch": "x;y"}, UsageError, "--branch: 'x;y' must be relative"),
    ],
)
def test_what_cmsdist_cannot_use_is_refused(
    tmp_path: Path,
    more: str,
    options: dict[str, str],
    error: type[ModelwheelError],
    sentence: str,
) -> None:
    with pytest.raises(error) as caught:
        export(make(tmp_path, more), tmp_path / "out", **options)
    assert sentence in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_rpm_has_no_epochs_in_versions(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"RPM has no '1!2\.0'; remove the epoch"):
        export(make(tmp_path, GIT, version="1!2.0"), tmp_path / "out")
