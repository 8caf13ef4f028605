"""CMS's own commands on a model of CMS, up to a plug-in that is built, configured and run as its documentation has it."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from modelwheel.platforms import host_platform
from tests.support.commands import Done, run
from tests.support.scram import STAND_INS, ReleaseArea
from tests.support.wheels import LOWEST

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="tools of scram are for Linux"),
]

PAGE = Path(__file__).parents[2] / "docs" / "cms.md"
MODULE = STAND_INS / "MySubsystem" / "MyModule"

CONFIG = """\
model:
    # name of the model, required
    name: test

    # version of the model, required
    version: "1.0.0"

    # location of the saved_model directory, resolved relative to this file
    saved_model: ./saved_model

    # serving key, optional
    serving_key: serving_default

    author: A. Author
    description: Some test model

compilation:
    batch_sizes: [1, 2, 4]
    tf_xla_flags: []
    xla_flags: []
"""

TRIPLE = f"{host_platform().architecture}-unknown-linux-gnu"


@dataclass(frozen=True)
class Cms:
    """The installed commands of CMS, with a store of their own."""

    cache: Path
    work: Path

    def __call__(
        self, command: str, *arguments: str | Path, code: int = 0, area: Path = Path()
    ) -> Done:
        program = Path(sys.executable).with_name(command)
        cache = str(self.cache)
        here = ("env", "-C", self.work, program)
        done = run(*here, *arguments, code=code, MODELWHEEL_CACHE_DIR=cache, CMSSW_BASE=str(area))
        assert "Traceback" not in done.err
        return done


@pytest.fixture(scope="module")
def cms(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Cms:
    work = tmp_path_factory.mktemp("cms")
    shutil.copytree(models / "cms_simple", work / "saved_model")
    (work / "aot_config.yaml").write_text(CONFIG)
    return Cms(tmp_path_factory.mktemp("cache"), work)


@dataclass(frozen=True)
class Developed:
    """What the development workflow made."""

    area: Path
    printed: str

    @property
    def tool(self) -> Path:
        return self.area / "tfaot" / "test"


def documented(command: str) -> list[str]:
    """The first command line of the documentation that begins with a command."""
    line = re.search(rf"^{command} .*$", PAGE.read_text(), re.MULTILINE)
    assert line is not None
    return shlex.split(line[0])


def one_level() -> str:
    """Flags that have one CPU level compiled, so that it takes seconds."""
    return f"--additional-flags=--target_cpu={LOWEST}"


@pytest.fixture(scope="module")
def developed(cms: Cms, tmp_path_factory: pytest.TempPathFactory) -> Developed:
    """The command of the documentation, whose shell expands the variable or not."""
    area = tmp_path_factory.mktemp("area")
    done = cms(*documented("cms_tfaot_compile"), one_level(), area=area)
    return Developed(area, done.out)


def test_the_files_are_where_cms_has_them(developed: Developed) -> None:
    """Also those that CMSSW's own test of the workflow looks for."""
    found = {str(path.relative_to(developed.tool)) for path in developed.tool.rglob("*.*")}
    headers = {f"include/tfaot-model-test/{name}.h" for name in ("model", "test_bs1", "test_bs4")}
    objects = {f"lib/test_bs{size}.o" for size in (1, 2, 4)}
    assert found >= headers | objects | {"lib/test.o", "tfaot-model-test.xml"}
    assert {path.partition("/")[0] for path in found} == {"include", "lib", "tfaot-model-test.xml"}


def test_the_next_steps_are_printed(developed: Developed) -> None:
    steps = re.findall(r"^ {5}(\S.*)$", developed.printed, re.MULTILINE)
    assert steps == [
        "> scram setup $CMSSW_BASE/tfaot/test/tfaot-model-test.xml",
        '<use name="tfaot-model-test"/>',
        '#include "tfaot-model-test/model.h"',
        "auto model = tfaot::Model<tfaot_model::test>();",
    ]
    assert "AOT compiled model 'test' for batch sizes: 1,2,4" in developed.printed


def rows_of(printed: str) -> dict[int, list[tuple[float, float]]]:
    """The rows that the plug-in printed, by event."""
    rows: dict[int, list[tuple[float, float]]] = {}
    for event, first, second in re.findall(r"^output (\d+): (\S+), (\S+)$", printed, re.MULTILINE):
        rows.setdefault(int(event), []).append((float(first), float(second)))
    return rows


def test_the_example_of_the_documentation_runs(developed: Developed) -> None:
    area = ReleaseArea(developed.area)
    area.setup(developed.tool / "tfaot-model-test.xml")
    plugin = area.build(MODULE)
    printed = area.run(plugin, MODULE / "test" / "my_plugin_cfg.py")
    rows = rows_of(printed)
    assert {event: len(found) for event, found in rows.items()} == {n: n for n in range(1, 11)}
    for found in rows.values():
        np.testing.assert_allclose(found, rows[10][: len(found)], rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(np.sum(found, axis=1), 1, rtol=1e-6)
    assert len(set(rows[10])) == 10
    for rule in ("3, sizes=1,1,1", "5, sizes=4,1", "6, sizes=4,4"):
        assert f"BatchRule(batchSize={rule}, lastPadding={2 if '6' in rule else 0})" in printed


CMSDIST = """\
set -e
cms_tfaot_compile \\
  --aot-config "$AOT_CONFIG" --tool-name "$N" --tool-base "$I" --output-directory compiled_model \\
  --additional-flags="--target_triple $TRIPLE --target_cpu $LEVEL"
mkdir -p "$I/lib" "$I/include/$N" "$I/etc/scram.d"
mv compiled_model/*.o "$I/lib/"
mv compiled_model/*.h "$I/include/$N"
mv "compiled_model/$N.xml" "$I/etc/scram.d/"
test -z "$(ls compiled_model)"
"""
"""What `tfaot-compile.file` of CMSDIST does in `%build` and `%install`."""


def test_cmsdist_installs_the_tool(cms: Cms, developed: Developed, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "MODELWHEEL_CACHE_DIR": str(cms.cache),
        "AOT_CONFIG": str(cms.work / "aot_config.yaml"),
        "N": "tfaot-model-test",
        "I": str(tmp_path / "installed"),
        "TRIPLE": TRIPLE,
        "LEVEL": LOWEST,
    }
    subprocess.run(["sh", "-c", CMSDIST], cwd=tmp_path, env=environment, check=True)
    installed = tmp_path / "installed"
    for kind, ours in (("lib", "*.o"), ("include/tfaot-model-test", "*.h")):
        here = {path.name: path.read_bytes() for path in (installed / kind).glob(ours)}
        there = {path.name: path.read_bytes() for path in (developed.tool / kind).glob(ours)}
        assert here == there
        assert here
    area = ReleaseArea(tmp_path)
    area.setup(installed / "etc" / "scram.d" / "tfaot-model-test.xml")
    printed = area.run(area.build(MODULE), MODULE / "test" / "my_plugin_cfg.py")
    assert len(rows_of(printed)[10]) == 10


def test_a_name_of_the_tool_is_that_of_its_directory(
    cms: Cms, developed: Developed, tmp_path: Path
) -> None:
    """And the library of an earlier compilation is replaced, while other files stay."""
    out = shutil.copytree(developed.tool, tmp_path / "out")
    (out / "lib" / "other.o").write_bytes(b"mine")
    (out / "lib" / "test_bs8.o").write_bytes(b"of an earlier configuration")
    config = ("-c", cms.work / "aot_config.yaml", "-o", out)
    named = ("--tool-name", "tfaot-model-other", "--tool-base", "/opt/a & b", "--dev")
    done = cms("cms_tfaot_compile", *config, *named, one_level())
    assert f"scram setup {out}/tfaot-model-other.xml" in done.out
    assert (out / "include" / "tfaot-model-other" / "model.h").is_file()
    assert 'default="/opt/a &amp; b"' in (out / "tfaot-model-other.xml").read_text()
    assert {path.name for path in (out / "lib").iterdir()} == {
        *("other.o", "test.o", "test_bs1.o", "test_bs2.o", "test_bs4.o"),
    }


def test_a_bare_model_is_checked(cms: Cms) -> None:
    done = cms(*documented("cmsml_check_aot_compatibility"))
    table = dict(re.findall(r"^\| (\w+) +\| (yes|NO) +\|$", done.out, re.MULTILINE))
    assert {"Const", "MatMul", "ReadVariableOp", "Softmax"} <= table.keys()
    assert set(table.values()) == {"yes"}
    assert "Placeholder" not in table
    assert done.out.splitlines()[-1] == "cpu: all ops compatible"
    config = cms.work / "aot_config.yaml"
    assert cms("cmsml_check_aot_compatibility", config).out == done.out
    refused = cms("cmsml_check_aot_compatibility", config, "-k", "serve", code=3)
    assert "no signature 'serve'; choose from serving_default" in refused.err
    refused = cms("cmsml_check_aot_compatibility", config, "-f", "grids", code=2)
    assert "--table-format: unknown format 'grids'; did you mean" in refused.err


def test_what_cannot_be_compiled_is_named(cms: Cms, models: Path) -> None:
    """With --table, all operations come before the verdict on the model."""
    command, path = "cmsml_check_aot_compatibility", models / "bessel"
    done = cms(command, path, "-f", "plain", code=5)
    (line,) = re.findall(
        r"^cpu: not compatible, (\d+) incompatible ops: (.+)$", done.out, re.MULTILINE
    )
    assert len(line[1].split(", ")) == int(line[0]) > 0
    for name in line[1].split(", "):
        assert re.search(rf"^{name} +NO$", done.out, re.MULTILINE)
    listed = cms(command, path, "--table", "--table-format", "plain", code=5)
    assert listed.out.splitlines()[-1] == done.out.splitlines()[-1]
    assert listed.out.count(" yes\n") > 300
    assert cms(command, "-t", "-f", "plain").out.count(" yes\n") == listed.out.count(" yes\n")


def test_a_model_that_cannot_be_compiled_leaves_nothing(
    cms: Cms, models: Path, tmp_path: Path
) -> None:
    """From a configuration in JSON."""
    model = {"name": "test", "version": "1.0.0", "saved_model": str(models / "bessel")}
    config = tmp_path / "aot_config.json"
    config.write_text(json.dumps({"model": model, "compilation": {"batch_sizes": [1]}}))
    done = cms("cms_tfaot_compile", "-c", config, "-o", tmp_path / "out", one_level(), code=5)
    assert "Bessel" in done.err
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.exhaustive
def test_the_other_architecture_is_cross_compiled(cms: Cms, tmp_path: Path) -> None:
    """By zig, to object files that link there."""
    here = host_platform().architecture
    other, level = {"x86_64": ("aarch64", "armv8-a"), "aarch64": ("x86_64", "x86-64")}[here]
    flags = f"--additional-flags=--target_triple {other}-unknown-linux-gnu --target_cpu {level}"
    config = ("-c", cms.work / "aot_config.yaml", "-o", tmp_path, "--dev")
    cms("cms_tfaot_compile", *config, flags)
    (tmp_path / "program.c").write_text(PROGRAM)
    objects = sorted((tmp_path / "lib").glob("*.o"))
    assert len(objects) == 4
    compiler = (sys.executable, "-m", "ziglang", "cc", "-target", f"{other}-linux-gnu.2.28")
    given: list[str | Path] = [f"-I{tmp_path}/include", tmp_path / "program.c", *objects]
    run(*compiler, *given, "-lm", "-o", tmp_path / "program")
    machine = int.from_bytes((tmp_path / "program").read_bytes()[18:20], "little")
    assert machine == {"x86_64": 62, "aarch64": 183}[other]


PROGRAM = """\
#include <tfaot-model-test/model_test.h>
#include <stddef.h>
int main(void) {
  modelwheel_model *model;
  if (model_test_create(NULL, &model, NULL, 0) != MODELWHEEL_OK) return 1;
  model_test_destroy(model);
  return 0;
}
"""
