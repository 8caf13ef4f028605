"""The manifest of docs/examples/clusters for Kubernetes, by the schema that the operator of dask-kubernetes installs.

Only its schema is taken: its packages cannot be installed beside those of this environment.
"""

from __future__ import annotations

import sys
import zipfile
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

from tests.support.commands import run
from tests.support.pages import ROOT

EXAMPLES = ROOT / "docs" / "examples" / "clusters"
OPERATOR = "dask-kubernetes==2026.3.0"
SCHEMA = "operator/deployment/helm/dask-kubernetes-operator/crds/daskcluster.yaml"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory = tmp_path_factory.mktemp("operator")
    command = (sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest")
    run(*command, directory, OPERATOR)
    (wheel,) = directory.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        crd = yaml.safe_load(archive.read(f"dask_kubernetes/{SCHEMA}"))
    (version,) = crd["spec"]["versions"]
    return _strict(version["schema"]["openAPIV3Schema"])


def _strict(schema: Any) -> Any:
    """The same, which refuses fields that it does not know: Kubernetes drops them, and says nothing."""
    if isinstance(schema, list):
        return [_strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {name: _strict(value) for name, value in schema.items()}
    kept = schema.get("x-kubernetes-preserve-unknown-fields")
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object" and not kept:
        strict.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    return strict


def test_the_manifest_is_sound(schema: Any) -> None:
    manifest = yaml.safe_load((EXAMPLES / "kubernetes.yaml").read_text())
    spec = schema["properties"]["spec"]
    jsonschema.Draft202012Validator(spec).validate(manifest["spec"])
    pods = [manifest["spec"][part]["spec"] for part in ("scheduler", "worker")]
    for pod in pods:
        volumes = {volume["name"] for volume in pod["volumes"]}
        for container in pod["containers"]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"containers": [{"name": "w", "comand": ["dask"]}]}, "comand"),
        ({"containers": [{"name": "w", "args": "dask worker"}]}, "array"),
    ],
)
def test_mistakes_would_be_seen(schema: Any, wrong: dict[str, Any], said: str) -> None:
    manifest = yaml.safe_load((EXAMPLES / "kubernetes.yaml").read_text())
    manifest["spec"]["worker"]["spec"] = wrong
    validator = jsonschema.Draft202012Validator(schema["properties"]["spec"])
    with pytest.raises(jsonschema.ValidationError, match=said):
        validator.validate(manifest["spec"])
