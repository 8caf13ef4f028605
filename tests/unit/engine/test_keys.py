"""The keys of steps stay what they are: another form of one would make every store start again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from modelwheel.assembly import assemble, manifest, sbom
from modelwheel.engine.steps import Goal, bundle, distribution, model, profile, steps_of
from modelwheel.engine.steps import kernels as kernels_step
from modelwheel.packaging import kernels, objects, runtime
from modelwheel.platforms import PLATFORMS
from modelwheel.request import make_request
from modelwheel.spec import Spec, load_spec
from modelwheel.store.records import Record
from modelwheel.store.store import Store
from modelwheel.workers import jobs
from modelwheel.workers.flags import Flags
from tests.support.histories import write_result

_SPEC = """
model: {name: tiny, version: "1.0.0", saved_model: ./model}
compilation: {batch_sizes: [1, 4]}
targets: [x86-64, x86-64-v3]
"""

_OF_ALL = {
    "inspect": "2cce0b4ea2a4",
    "reference": "694c0fa1725b",
    "freeze/b1": "2f6236d7ffb8",
    "freeze/b4": "eb9d5f52d0a2",
    "linux-x86_64/x86-64/b1": "1cd777be8d03",
    "linux-x86_64/x86-64/b4": "b86db4513b01",
    "linux-x86_64/x86-64-v3/b1": "56d4ff78c408",
    "linux-x86_64/x86-64-v3/b4": "0cde87ded02f",
}
"""The first digits of the keys of steps that all builds have."""

_PROJECT = {"project": "c90bd90e6f89"}
_OBJECTS = {"objects": "b1ade510e243", "kernels": "cdefde373989"}

_RECORDED: dict[tuple[str, Goal], dict[str, str]] = {
    ("extension", "wheel"): {
        **_PROJECT,
        **_OBJECTS,
        "wheel": "79d047ad3a08",
        "verify": "e7267c602e92",
    },
    ("shared", "wheel"): {
        **_PROJECT,
        **_OBJECTS,
        "wheel": "fb4b6d56618d",
        "runtime": "46a83661c37c",
        "verify": "0e4ec0069576",
    },
    ("extension", "sdist"): {**_PROJECT, "sdist": "42117adb317f"},
    ("shared", "sdist"): {**_PROJECT, "sdist": "a1a25c77f9bf"},
    ("extension", "bundle"): {**_PROJECT, "bundle": "361f82b784b5"},
    ("extension", "static-bundle"): {**_PROJECT, "bundle": "b4dd08d37760"},
    ("extension", "profile"): {"project/profiled": "8534509b6509", "profile": "fb01f3513ccb"},
}
"""Those of the others, by bindings and goal."""


class _Level(NamedTuple):
    name: str


_WORLD: tuple[tuple[Any, str, Any], ...] = (
    (jobs, "TENSORFLOW_VERSION", "0.1"),
    (jobs, "PROGRAM_VERSION", 1),
    (jobs.InspectRequest, "VERSION", 1),
    (jobs.FreezeRequest, "VERSION", 2),
    (jobs.CompileRequest, "VERSION", 3),
    (jobs.ReferenceRequest, "VERSION", 4),
    (assemble, "TENSORFLOW_VERSION", "0.1"),
    (assemble, "__version__", "0.2"),
    (assemble, "EMITTER_VERSION", 1),
    (manifest, "MANIFEST_VERSION", 1),
    (sbom, "SBOM_VERSION", 1),
    (runtime, "RUNTIME_VERSION", 1),
    (Spec, "spec_digest", lambda _: "ab" * 32),
    (distribution, "installed_version", lambda _: "0.3"),
    (distribution, "cpu_level", lambda: _Level("x86-64-v3")),
    (kernels_step, "host_platform", lambda: PLATFORMS["linux-x86_64"]),
    (bundle, "host_platform", lambda: PLATFORMS["linux-x86_64"]),
    *(
        (module, "compiler_flags", lambda _spec, level, _tuned: Flags((f"--level={level.name}",)))
        for module in (model, assemble)
    ),
)
"""What keys hold that changes with modelwheel, its tools or the machine, and what it is here."""


@pytest.fixture(autouse=True)
def _same_world(monkeypatch: pytest.MonkeyPatch) -> None:
    for place, name, value in _WORLD:
        monkeypatch.setattr(place, name, value)
    for module in (bundle, distribution, profile, kernels, objects, runtime):
        monkeypatch.setattr(module, "template_digest", lambda _: "cd" * 32)
        environment = lambda bindings="extension": {"cc": bindings}
        monkeypatch.setattr(module, "build_environment", environment)


def _keys(directory: Path, store: Store, bindings: str, goal: Goal) -> dict[str, str]:
    """The keys of all steps, each after results of fixed content."""
    path = directory / "tiny.yaml"
    path.write_text(f"{_SPEC}package: {{bindings: {bindings}}}\n")
    request = make_request(load_spec(path), platforms=["linux-x86_64"])
    records: dict[str, Record] = {}
    keys = {}
    for number, step in enumerate(steps_of(request, "ef" * 32, {"kind": "directory"}, goal)):
        name = step.name.partition("/")[2]
        keys[name] = step.key(store, records)
        made = directory / str(number)
        write_result(step.kind, name, made)
        records[step.name] = store.publish(keys[name], made)
    return {name: key[:12] for name, key in keys.items()}


@pytest.mark.parametrize(("bindings", "goal"), _RECORDED)
def test_keys_are_those_of_existing_stores(
    tmp_path: Path, store: Store, bindings: str, goal: Goal
) -> None:
    expected = {**_OF_ALL, **_RECORDED[bindings, goal]}
    assert _keys(tmp_path, store, bindings, goal) == expected
