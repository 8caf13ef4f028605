"""The models that CMSDIST builds to test itself, from their pinned commit to code written for CMSSW."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from modelwheel.model.check import Expected, check_signature
from modelwheel.model.frozen_signature import FrozenSignature
from modelwheel.wheelfile.wheel import open_wheel
from tests.support.commands import Modelwheel, run
from tests.support.laboratory import Laboratory
from tests.support.scram import STAND_INS, ReleaseArea
from tests.support.wheels import LOWEST, Built, make_environment

pytestmark = pytest.mark.slow

SPECS = Path(__file__).parents[2] / "model_specs"
PROGRAMS = Path(__file__).with_name("programs")
MODULE = STAND_INS / "MySubsystem" / "MyModule"
URL = "https://github.com/cms-externals/cms-tfaot.git"
STRICT = (
    "-std=c++17",
    "-O1",
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Wshadow",
    "-Wpedantic",
    "-Werror",
)


@dataclass(frozen=True)
class Chain:
    """What came of both models."""

    commit: str
    wheels: dict[str, Path]
    python: Path
    """Of the environment in which they are installed."""
    output: str
    """What the C++ program printed."""


def git(repository: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=A. Author", "-c", "user.email=author@example.org")
    return run("git", "-C", repository, *identity, *arguments).out.strip()


def make_repository(models: Path, repository: Path) -> str:
    """A repository laid out like cms-tfaot, with other models of the same signatures; its commit."""
    for name in ("simple", "multi"):
        target = repository / "test_models" / name / "saved_model"
        shutil.copytree(models / f"cms_{name}", target)
    git(repository, "init", "--quiet")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message", "Test models")
    return git(repository, "rev-parse", "HEAD")


def compile_program(python: Path, directory: Path) -> Path:
    """Compiles code for both models against what is installed, as one program of two units."""
    flags = []
    for module in ("model_test_simple", "model_test_multi"):
        flags += run(python, "-I", "-m", module, "--cflags", "--libs").out.split()
    sources = [PROGRAMS / name for name in ("cms_interface.cpp", "cms_tfcompile.cpp")]
    program = directory / "program"
    run("c++", *STRICT, *sources, "-o", program, *flags)
    return program


@pytest.fixture(scope="module")
def chain(modelwheel: Modelwheel, models: Path, tmp_path_factory: pytest.TempPathFactory) -> Chain:
    """Both shipped specs, with git sent to a local repository and its commit in their pins."""
    work = tmp_path_factory.mktemp("cms")
    commit = make_repository(models, work / "repository")
    specs = []
    for name in ("test-simple", "test-multi"):
        text = (SPECS / f"{name}.yaml").read_text(encoding="utf-8")
        assert URL in text
        text, count = re.subn(r"(?m)^(  commit:) \w{40}$", rf"\1 {commit}", text)
        assert count == 1
        specs.append(work / f"{name}.yaml")
        specs[-1].write_text(text, encoding="utf-8")
    redirected = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{work / 'repository'}.insteadOf",
        "GIT_CONFIG_VALUE_0": URL,
    }
    results = modelwheel.build(*specs, "--level", LOWEST, "--out", work / "dist", **redirected)
    wheels = {result["model"].removesuffix("-1.0.0"): Path(result["wheel"]) for result in results}
    python = make_environment(work / "environment", *wheels.values())
    output = run(compile_program(python, work)).out
    return Chain(commit, wheels, python, output)


def printed(chain: Chain, name: str, batch: int) -> Any:
    """The rows that the C++ program printed, as float32."""
    lines = re.findall(rf"^{name} {batch} (\S+) (\S+)$", chain.output, re.MULTILINE)
    return np.array(lines, np.float32)


def evaluate(chain: Chain, module: str, rows: int) -> Any:
    """What Python gets for the rows of the C++ program, composed as there."""
    script = (
        f"import numpy as np, {module} as m\n"
        f"x = np.arange({4 * rows}).reshape({rows}, 4)\n"
        "model = m.Model()\n"
        "model.set_batch_rule('3:2,2')\n"
        "y = model(*[x.astype(s.dtype) for s in m.Model.inputs])\n"
        "for values in (y.values() if isinstance(y, dict) else [y]):\n"
        "    print(*[repr(float(value)) for value in values.ravel()])\n"
    )
    done = run(chain.python, "-I", "-c", script)
    return [np.array(line.split(), np.float32).reshape(rows, 2) for line in done.out.splitlines()]


def test_the_wheels_come_from_the_pinned_commit(chain: Chain) -> None:
    for name in ("simple", "multi"):
        source = open_wheel(chain.wheels[f"test-{name}"]).manifest.provenance.source
        assert source["kind"] == "git"
        assert source["url"] == URL
        assert source["commit"] == chain.commit
        assert source["path"] == f"test_models/{name}/saved_model"


def test_code_written_for_cmssw_gets_the_numbers_of_python(chain: Chain) -> None:
    for batch in (1, 2, 3):
        (expected,) = evaluate(chain, "model_test_simple", batch)
        np.testing.assert_array_equal(printed(chain, "simple", batch), expected)
        np.testing.assert_allclose(expected.sum(axis=1), 1, rtol=1e-6)
    output1, output2 = evaluate(chain, "model_test_multi", 2)
    np.testing.assert_array_equal(printed(chain, "multi1", 2), output1)
    np.testing.assert_array_equal(printed(chain, "multi2", 2), output2)
    np.testing.assert_array_equal(output2, output1 > 0.5)


def test_code_written_for_tfcompile_gets_the_same(chain: Chain) -> None:
    np.testing.assert_array_equal(printed(chain, "tfcompile", 2), printed(chain, "simple", 2))


def test_a_plugin_is_built_with_the_tool_file_of_the_installed_wheel(
    chain: Chain, tmp_path: Path
) -> None:
    asked = (chain.python, "-I", "-m", "model_test_simple")
    name = "tfaot-model-test-simple"
    tool_file = tmp_path / f"{name}.xml"
    tool_file.write_text(run(*asked, "--scram").out)
    tool = ET.parse(tool_file).getroot()
    assert tool.attrib == {"name": name, "version": "1.0.0", "revision": "1"}

    module = shutil.copytree(MODULE, tmp_path / "MySubsystem" / "MyModule")
    for file in (module / "plugins").iterdir():
        text = file.read_text().replace("tfaot-model-test", name)
        file.write_text(text.replace("tfaot_model::test>", "tfaot_model::test_simple>"))
    area = ReleaseArea(tmp_path, interface=[Path(run(*asked, "--includedir").out.strip())])
    area.setup(tool_file)
    printed = area.run(area.build(module), module / "test" / "my_plugin_cfg.py")
    for rows in (1, 2):
        (expected,) = evaluate(chain, "model_test_simple", rows)
        found = re.findall(rf"^output {rows}: (\S+), (\S+)$", printed, re.MULTILINE)
        np.testing.assert_array_equal(np.array(found, np.float32), expected)


# The defects of the CMS chain that show in models and code; those of its configuration files are in
# tests/unit/spec/test_files.py.


def test_cms_defect_every_free_axis_becomes_the_batch(laboratory: Laboratory) -> None:
    (finding,) = check_signature(laboratory.inspect("sequence"), Expected())
    assert "free axis 1 in [batch, ?, 4]" in finding.message
    frozen = FrozenSignature.load(laboratory.freeze("sequence", batch=4) / "signature.json")
    assert frozen.inputs[0].shape == (4, 6, 4)


def test_cms_defect_inputs_without_a_free_axis_are_left_out(laboratory: Laboratory) -> None:
    frozen = FrozenSignature.load(laboratory.freeze("branches") / "signature.json")
    assert [(tensor.name, tensor.shape) for tensor in frozen.inputs] == [
        ("branch", ()),
        ("x", (4, 4)),
    ]


def test_cms_defect_a_function_in_a_header_is_defined_twice(chain: Chain) -> None:
    """Both units of the program include every header: it would not have been linked."""
    for name in ("simple 1", "tfcompile 2"):
        assert f"\n{name} " in f"\n{chain.output}"


def test_cms_defect_printing_a_batch_rule_adds_to_a_pointer(chain: Chain) -> None:
    assert "BatchRule(batchSize=5, sizes=2,2,2, lastPadding=1)" in chain.output.splitlines()


def test_cms_defect_the_smallest_size_is_repeated_and_padding_is_stale(
    chain: Chain, built: Built
) -> None:
    """And numbers of rows and elements are not checked."""
    refused = [line for line in chain.output.splitlines() if "are expected" in line]
    assert [line.partition("received ")[2] for line in refused] == [
        "1 rows for input 0, but 2 are expected",
        "3 elements for input 0 in row 1, but 4 are expected",
    ]
    assert "seven as 4" in chain.output
    model = built.package("mlp").Model()
    x = np.random.default_rng(5).standard_normal((5, 4)).astype(np.float32)
    model.set_batch_rule("5:4,4")
    padded = model(x)
    model(np.full((8, 4), 1e30, np.float32))  # what would be left over in the padding
    assert model(x).tobytes() == padded.tobytes()


def test_cms_defect_the_first_function_alone_is_scanned(laboratory: Laboratory) -> None:
    found = laboratory.inspect("loop")
    functions = {function for use in found.ops for function in use.functions}
    for part in ("while_body", "while_cond", "signature_wrapper", "traced_save"):
        assert any(part in function for function in functions)


def test_cms_defect_element_counts_are_read_from_a_header(chain: Chain) -> None:
    """The counts of the generated classes, which the program asserts, are those of the signature."""
    signature = open_wheel(chain.wheels["test-multi"]).manifest.signature
    counts = {t.name: 4 * t.row_elements for t in signature.inputs + signature.outputs}
    assert counts == {"input1": 16, "input2": 16, "output1": 8, "output2": 8}


def test_cms_defect_padding_is_used_where_rows_interact(built: Built) -> None:
    assert built.manifest("batch-mean").batching.no_emulation_reason is not None
    with pytest.raises(ValueError, match="can run only its compiled batch sizes, not 3 rows"):
        built.package("batch-mean").Model()(np.zeros((3, 4), np.float32))
