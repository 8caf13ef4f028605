"""GraphDefs in C++: those that tfcompile is tested with, by their Configs, and those of CMS, by node names.

One program uses all generated classes.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelwheel.packaging.bazel import write_rules
from modelwheel.request import make_request
from modelwheel.spec import load_spec
from tests.support.commands import run
from tests.support.projects_of_models import (
    Linker,
    Projects,
    compile_projects,
    host_toolchain,
    module_of,
)
from tests.support.wheels import LOWEST

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("programs") / "tfcompile_classes.cpp"
STRICT = ("-std=c++17", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wpedantic", "-Werror")

_SPEC = """\
model: {{name: {name}, version: "1.0.0"}}
source: {{directory: {directory}, path: {stem}.pb, config: {stem}.config.pbtxt{more}}}
targets: [{level}]
{state}
"""

PAGE = Path(__file__).with_name("programs") / "tfcompile_page"
"""The C++ text, the Config and the BUILD file of https://www.tensorflow.org/xla/tfcompile, as they are there."""

_PAGE_SPEC = """\
model: {{name: test_graph_tfmatmul, version: "1.0.0"}}
source: {{directory: {directory}, path: matmul.pb, config: {config}}}
targets: [{level}]
compilation: {{cpp_class: "foo::bar::MatMulComp", cpp_header: tensorflow/compiler/aot/tests/test_graph_tfmatmul.h}}
"""

SAVERS = {"first": "savers.first.saver", "second": "savers.second.saver.pbtxt"}

STATEFUL = ("variable", "variable_sequential_updates", "variable_uninitialized")
"""Graphs that change variables."""


_CMS = """\
model: {{name: cms-{stem}, version: "1.0.0"}}
source: {{git: {repository}, commit: {commit}, path: data/{stem}.pb, {tensors}}}
targets: [{level}]
compilation: {{batch_sizes: [1, 2]}}
package: {{interfaces: [c, cpp, python, cmssw]}}
"""

CMS = {
    "tagger": 'feeds: {image: "input:0"}, fetches: {probabilities: "output/id_probabilities:0"}, '
    "constants: {keras_learning_phase: false}",
    "sequence": "feeds: {features: features}, fetches: {state: state}",
}


def _cms_specs(graphs: Path, work: Path) -> list[Path]:
    """Specs of graphs in a git repository, as CMS keeps them."""
    repository, specs = work / "repository", []
    shutil.copytree(graphs, repository / "data")
    identity = ("-c", "user.name=A. Author", "-c", "user.email=author@example.org")
    git = ("git", "-C", repository, *identity)
    run(*git, "init", "--quiet")
    run(*git, "add", ".")
    run(*git, "commit", "--quiet", "--message", "Graphs")
    commit = run(*git, "rev-parse", "HEAD").out.strip()
    for stem, tensors in CMS.items():
        specs.append(work / f"{stem}.yaml")
        where = {"repository": repository, "commit": commit, "level": LOWEST}
        specs[-1].write_text(_CMS.format(stem=stem, tensors=tensors, **where), encoding="utf-8")
    return specs


def _page_spec(graphs: Path, work: Path) -> Path:
    """The model of the page, whose Config is beside its graph."""
    directory = work / "page"
    directory.mkdir()
    shutil.copy(graphs / "matmul.pb", directory)
    (config,) = PAGE.glob("*.config.pbtxt")
    shutil.copy(config, directory)
    spec = work / "page.yaml"
    fields = {"directory": directory, "config": config.name, "level": LOWEST}
    spec.write_text(_PAGE_SPEC.format(**fields), encoding="utf-8")
    return spec


@pytest.fixture(scope="module")
def projects(graphs: Path, tmp_path_factory: pytest.TempPathFactory) -> Projects:
    """The projects from which wheels would be made: the classes need no more."""
    work = tmp_path_factory.mktemp("tfcompile")
    stems = sorted(
        path.name.removesuffix(".config.pbtxt") for path in graphs.glob("*.config.pbtxt")
    )
    requests = [make_request(load_spec(spec)) for spec in _cms_specs(graphs, work)]
    for stem in stems:
        spec = work / f"{stem}.yaml"
        name = f"tf-{stem.replace('_', '-')}"
        has_checkpoint = any(graphs.glob(f"{stem}.ckpt*"))
        more = f", checkpoint: {stem}.ckpt" if has_checkpoint else ""
        fields = {"name": name, "directory": graphs, "stem": stem, "level": LOWEST, "more": more}
        state = "keep_state: true" if stem in STATEFUL else ""
        spec.write_text(_SPEC.format(**fields, state=state), encoding="utf-8")
        if stem != "savers":
            requests.append(make_request(load_spec(spec)))
    for saver, file in SAVERS.items():
        spec = work / f"savers-{saver}.yaml"
        more = f", checkpoint: savers.ckpt, freeze_saver: {file}"
        fields |= {"name": f"tf-savers-{saver}", "stem": "savers", "more": more}
        spec.write_text(_SPEC.format(**fields, state=""), encoding="utf-8")
        requests.append(make_request(load_spec(spec)))
    requests.append(make_request(load_spec(_page_spec(graphs, work))))
    return compile_projects(requests, work / "store", work)


def test_a_program_uses_all_classes(projects: Projects, tmp_path: Path) -> None:
    linker = Linker(host_toolchain(), tmp_path / "runtime")
    program: list[str | Path] = ["c++", *STRICT, "-I", PROGRAM.parent, PROGRAM]
    for name in projects.compiled:
        project = projects.project(name)
        library = tmp_path / f"lib{module_of(project)}.so"
        linker.link(project, library)
        program += ["-I", project / "include", library]
    run(*program, f"-Wl,-rpath,{tmp_path}", "-o", tmp_path / "program")
    printed = run(tmp_path / "program").out.splitlines()
    for name, expected in {"tagger": _tagger(), "sequence": _sequence()}.items():
        rows = [line.split()[1:] for line in printed if line.startswith(name)]
        np.testing.assert_allclose(np.array(rows, np.float32), expected, rtol=1e-6)


@pytest.fixture(scope="module")
def eigen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with Eigen under the names that the page has for it."""
    if not any(Path("/usr").glob("*/include/eigen3")) and not Path("/usr/include/eigen3").exists():
        pytest.skip("libeigen3-dev is not installed")
    rules = tmp_path_factory.mktemp("rules") / "rules"
    write_rules(rules)
    return rules


def _compile(projects: Projects, name: str, eigen: Path, source: Path, work: Path) -> Path:
    """A program with Eigen and the library of a model."""
    project = projects.project(name)
    library = work / f"lib{module_of(project)}.so"
    Linker(host_toolchain(), work / "runtime").link(project, library)
    include = ("-I", project / "include", "-I", eigen, "-I", PROGRAM.parent)
    options = ("-O1", "-std=c++17", *include, source, library, f"-Wl,-rpath,{work}", "-lpthread")
    run("c++", *options, "-o", work / "program")
    return work / "program"


def test_the_text_of_the_page_prints_success(
    projects: Projects, eigen: Path, tmp_path: Path
) -> None:
    program = _compile(projects, "test_graph_tfmatmul", eigen, PAGE / "my_code.cc", tmp_path)
    assert run(program).out == "Success\n"


def test_the_threads_of_a_device_share_the_work(
    projects: Projects, eigen: Path, tmp_path: Path
) -> None:
    """And what is no device of Eigen's is refused, not ignored."""
    source = PROGRAM.with_name("tfcompile_threads.cpp")
    program = _compile(projects, "tf-product", eigen, source, tmp_path)
    assert int(run(program).out) > 0  # tasks that the pool was given
    include = ("-I", projects.project("tf-product") / "include", "-I", eigen, "-I", PROGRAM.parent)
    refused = run("c++", "-std=c++17", "-fsyntax-only", "-DNO_DEVICE", *include, source, code=1)
    assert "set_thread_pool takes an Eigen::ThreadPoolDevice" in refused.err


def _rows(inputs: int) -> Any:
    """What the program passes."""
    return (0.125 * np.arange(1, 2 * inputs + 1) - 0.5).reshape(2, inputs)


def _weights(*shape: int) -> Any:
    """As in `tests/models/frozen_graphs`."""
    return np.random.default_rng(shape).standard_normal(shape)


def _tagger() -> Any:
    values = np.exp(np.maximum(_rows(5) @ _weights(5, 8), 0) @ _weights(8, 3))
    return values / values.sum(axis=1, keepdims=True)


def _sequence() -> Any:
    values = _rows(4)
    for _turn in range(3):
        values = np.tanh(values @ _weights(4, 4))
    return values + 1


def test_random_numbers_are_refused(projects: Projects) -> None:
    assert "random numbers" in " ".join(projects.errors("tf-random-uniform"))
