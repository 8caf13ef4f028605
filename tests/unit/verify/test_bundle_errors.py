"""docs/errors.md: what it says about bundles is what `bundle` and the files of a bundle say."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from modelwheel import extras
from modelwheel.assembly.manifest import Manifest
from modelwheel.engine.delivery import deliver_directory
from modelwheel.errors import ModelwheelError
from modelwheel.model.fusions.registry import Replaced
from modelwheel.packaging.bundle import run_cmake, write_memory_header
from modelwheel.packaging.template import template_directory
from modelwheel.sandbox.choose import choose_sandbox
from modelwheel.sandbox.policy import Policy
from modelwheel.store.records import Record
from modelwheel.store.store import Store
from modelwheel.verify.program import require_passing
from tests.support.error_page import require_listed
from tests.support.index_wheels import make_manifest

FAILED = "echo 'x86-64  4 rows  y  hash 00000000  error 3.00e-01  allowed 1.00e-01  FAILED'; exit 1"


def refuse(action: Callable[..., object], *arguments: Any) -> str:
    with pytest.raises(ModelwheelError) as caught:
        action(*arguments)
    return str(caught.value)


def refuse_program(directory: Path, script: str, manifest: Manifest) -> str:
    """What is said of a bundle whose test does this."""
    program = directory / "test"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    sandbox = choose_sandbox(Policy.OFF)
    return refuse(require_passing, program, program, sandbox, "digits-1.0.0", manifest)


def sentence_in(file: str, beginning: str) -> str:
    """The line of a file in the template that has a message."""
    text = (template_directory() / file).read_text(encoding="utf-8")
    found = re.search(rf"{re.escape(beginning)}.*", text)
    assert found is not None
    return found[0].replace("{{ module }}", "model_digits")


def test_every_message_is_on_the_page(
    monkeypatch: pytest.MonkeyPatch, store: Store, tmp_path: Path
) -> None:
    manifest = make_manifest("digits")
    model = manifest.model.model_copy(update={"weights_storage": "int8"})
    fused = Replaced(name="acme.norm", provider="acme 1", calls=1)
    compiler = manifest.compiler.model_copy(update={"fusions": (fused,)})
    for directory in ("lib", "platforms"):
        (tmp_path / directory / manifest.platform).mkdir(parents=True)
    (tmp_path / "lib" / manifest.platform / "libmodel_digits.a").write_bytes(b"bitcode")
    manifest.save(tmp_path / "platforms" / manifest.platform / "manifest.json")
    monkeypatch.setattr(extras, "missing", lambda _: ["ziglang"])
    messages = [
        refuse(deliver_directory, Record("", {}), store, tmp_path),
        refuse(extras.require, "cross", "a bundle for windows-amd64"),
        refuse(run_cmake, tmp_path / "digits-1.0.0", tmp_path / "build", [], {}),
        refuse(write_memory_header, tmp_path),
        refuse_program(tmp_path, FAILED, manifest.model_copy(update={"model": model})),
        refuse_program(tmp_path, FAILED, manifest.model_copy(update={"compiler": compiler})),
        refuse_program(tmp_path, FAILED, manifest),
        refuse_program(tmp_path, "echo reference.bin cannot be read >&2; exit 1", manifest),
        sentence_in("bundle/Makefile.in", "{{ module }} has machine code for"),
        sentence_in("model/src/create.cpp", "this library of"),
    ]
    require_listed("Bundles", messages)
    assert "'acme.norm' of acme 1" in messages[5]
