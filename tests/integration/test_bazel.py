"""Models that Bazel compiles in the build: the BUILD file of tfcompile's page as it is, and modelwheel_library."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from modelwheel.packaging.bazel import write_rules
from modelwheel.platforms import host_platform
from tests.support.bazel import BazelProject, require_bazel
from tests.support.commands import Modelwheel, run
from tests.support.wheels import LOWEST

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        host_platform().name != "linux-x86_64", reason="Bazel is Debian's for this processor"
    ),
]

PAGE = Path(__file__).with_name("programs") / "tfcompile_page"
TESTS = "tensorflow/compiler/aot/tests"
"""Where the page's own header is found."""

WORKSPACE = """\
load("@rules_modelwheel//modelwheel:repositories.bzl", "modelwheel_repositories")
modelwheel_repositories()
"""

TF_LIBRARY = """\
load("@rules_modelwheel//tensorflow/compiler/aot:tfcompile.bzl", _tf_library = "tf_library")
tf_library = _tf_library
"""

EIGEN = """\
alias(
    name = "eigen3",
    actual = "@rules_modelwheel//third_party/eigen3",
    visibility = ["//visibility:public"],
)
"""

NETS = """\
load("@rules_modelwheel//modelwheel:defs.bzl", "modelwheel_library")

filegroup(name = "checkpoint", srcs = glob(["savers.ckpt.*"]))

modelwheel_library(
    name = "adder",
    config = "savers.config.pbtxt",
    cpp_class = "Adder",
    freeze_checkpoint = ":checkpoint",
    freeze_saver = "savers.first.saver",
    gen_benchmark = False,
    gen_test = False,
    graph = "savers.pb",
    tfcompile_flags = "--xla_backend_optimization_level=2 --gen_name_to_index",
)

modelwheel_library(
    name = "old_adder",
    config = "add_with_ckpt.config.pbtxt",
    cpp_class = "OldAdder",
    freeze_checkpoint = "add_with_ckpt.ckpt",
    gen_benchmark = False,
    gen_test = False,
    graph = "add_with_ckpt.pb",
)

modelwheel_library(
    name = "sequence",
    batch_sizes = [1, 2],
    config = "sequence.config.pbtxt",
    cpp_class = "nets::Sequence",
    gen_benchmark = False,
    graph = "sequence.pb",
    spec = {"verify": {"rows": 3}},
)

cc_test(
    name = "user",
    srcs = ["user.cc"],
    deps = [":adder", ":old_adder", ":sequence"],
)
"""

SEQUENCE = 'feed { id { node_name: "features" } } fetch { id { node_name: "state" } }'

USER = """\
#include "nets/adder.h"
#include "nets/old_adder.h"
#include "nets/sequence.h"

int main() {
  Adder adder;
  adder.arg0() = 1;
  OldAdder old_adder;  // its checkpoint is one file
  old_adder.arg0(0) = 2;
  if (!old_adder.Run() || old_adder.result0(0) != 44) return 3;
  nets::Sequence_bs1 one;
  nets::Sequence_bs2 two;
  for (int i = 0; i < one.arg0_count(); ++i)
    one.arg0_data()[i] = two.arg0_data()[i] = two.arg0_data()[one.arg0_count() + i] = 0.25F * static_cast<float>(i);
  if (!adder.Run() || adder.result0() != 43 || !one.Run() || !two.Run()) return 1;
  return one.result0(0, 0) == two.result0(0, 0) && two.result0(0, 0) == two.result0(1, 0) ? 0 : 2;
}
"""

REFUSED = {
    "flag": ("modelwheel_library", '"C", tfcompile_flags = ["--target_cpu=haswell"]'),
    "tracing": ("tf_library", '"C", enable_tracemes = True'),
    "saver": ("modelwheel_library", '"C", freeze_saver = "matmul.pb"'),
    "section": ("modelwheel_library", '"C", spec = {"source": {}}'),
    "class": ("modelwheel_library", '"a-b"'),
}
"""Rules and what they are given in addition, by packages."""


@pytest.fixture(scope="module")
def command(modelwheel: Modelwheel, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """What tells Bazel of the command, which compiles one level here, and of the store of these tests."""
    script = tmp_path_factory.mktemp("command") / "modelwheel"
    level = f'if [ "$1" = bundle ]; then set -- "$@" --level {LOWEST}; fi'
    script.write_text(f'#!/bin/sh\n{level}\nexec {sys.executable} -m modelwheel "$@"\n')
    script.chmod(0o755)
    return (
        f"--repo_env=MODELWHEEL={script}",
        f"--action_env=MODELWHEEL_CACHE_DIR={modelwheel.cache}",
        "--cxxopt=-std=c++17",
        "--noshow_progress",
    )


@pytest.fixture(scope="module")
def project(graphs: Path, tmp_path_factory: pytest.TempPathFactory) -> BazelProject:
    """A workspace with the page's package, one with modelwheel_library, and wrong ones."""
    require_bazel()
    work = tmp_path_factory.mktemp("bazel")
    write_rules(work / "rules")
    files: dict[str, str | Path] = {
        "tensorflow/compiler/aot/BUILD": "",
        "tensorflow/compiler/aot/tfcompile.bzl": TF_LIBRARY,
        "third_party/eigen3/BUILD": EIGEN,
        f"{TESTS}/BUILD": PAGE / "BUILD.txt",
        f"{TESTS}/my_code.cc": PAGE / "my_code.cc",
        f"{TESTS}/test_graph_tfmatmul.pb": graphs / "matmul.pb",
        f"{TESTS}/test_graph_tfmatmul.config.pbtxt": PAGE / "test_graph_tfmatmul.config.pbtxt",
        "nets/BUILD": NETS,
        "nets/user.cc": USER,
        "nets/sequence.pb": graphs / "sequence.pb",
        "nets/sequence.config.pbtxt": SEQUENCE,
    }
    files |= {f"nets/{path.name}": path for path in graphs.glob("savers.*")}
    files |= {f"nets/{path.name}": path for path in graphs.glob("add_with_ckpt.*")}
    for name, (rule, more) in REFUSED.items():
        load = 'load("@rules_modelwheel//modelwheel:defs.bzl", "modelwheel_library")'
        if rule == "tf_library":
            load = 'load("//tensorflow/compiler/aot:tfcompile.bzl", "tf_library")'
        given = 'name = "m", graph = "matmul.pb", config = "matmul.config.pbtxt", cpp_class = '
        files |= {
            f"refused/{name}/BUILD": f"{load}\n{rule}({given}{more})\n",
            f"refused/{name}/matmul.pb": graphs / "matmul.pb",
            f"refused/{name}/matmul.config.pbtxt": graphs / "matmul.config.pbtxt",
        }
    return BazelProject.write(work, files, {"rules_modelwheel": work / "rules"}, WORKSPACE)


def test_the_build_file_of_the_page_makes_a_program_that_prints_success(
    project: BazelProject, command: tuple[str, ...]
) -> None:
    if not Path("/usr/include/eigen3").exists():
        pytest.skip("libeigen3-dev is not installed")
    package = f"//{TESTS}"
    targets = [f"{package}:{name}" for name in ("my_binary", "test_graph_tfmatmul_benchmark")]
    done = project("test", "--test_output=all", *command, *targets, f"{package}:all")
    assert "\npassed\n" in done.out  # test_graph_tfmatmul_test
    built = project.directory / "bazel-bin" / TESTS
    assert (built / "test_graph_tfmatmul.h").is_file()
    assert run(built / "my_binary").out == "Success\n"
    assert "batch size 1: " in run(built / "test_graph_tfmatmul_benchmark").out


def test_several_models_with_options_are_linked_into_one_program(
    project: BazelProject, command: tuple[str, ...]
) -> None:
    done = project("test", "--test_output=errors", *command, "//nets:all")
    assert "2 tests pass" in done.out + done.err  # user and sequence_test
    known = project("query", "--noshow_progress", "//nets:all").out.split()
    assert {"//nets:adder_test", "//nets:adder_benchmark"}.isdisjoint(known)


def test_what_cannot_be_followed_is_refused(
    project: BazelProject, command: tuple[str, ...]
) -> None:
    done = project("build", "--keep_going", *command, "//refused/...:*", code=1)
    for sentence in (
        "--target_cpu=haswell of tfcompile cannot be set in a spec. Use targets",
        "modelwheel has no enable_tracemes; remove it: `modelwheel profile` times",
        "freeze_checkpoint must be specified when freeze_saver is specified",
        "spec has the section source, which the other arguments decide; use these",
        "'a-b' is not the name of a C++ class that a program may define",
    ):
        assert sentence in done.err


def test_without_the_command_the_sentence_says_how_to_install_it(project: BazelProject) -> None:
    missing = ("--repo_env=MODELWHEEL=no-such-command", "--noshow_progress")
    done = project("build", *missing, "//nets:adder", code=1)
    assert "there is no command no-such-command: pip install 'modelwheel[build]'" in done.err
