"""What decides about clusters without one: addresses, declarations, needs, and steps that run alone."""

from __future__ import annotations

import ast
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import modelwheel
from modelwheel.engine.cluster.address import Tls, parse_target
from modelwheel.engine.cluster.declaration import (
    MEMORY,
    PROGRAMS,
    SANDBOX,
    Declaration,
    declare,
    name_of_worker,
    needs_of,
    why_refused,
    words_of,
)
from modelwheel.engine.cluster.start import Machine, worker_command, worker_environment
from modelwheel.engine.cluster.tasks import Gate
from modelwheel.engine.steps import bundle, distribution, kernels, profile
from modelwheel.engine.steps.base import LocalStep
from modelwheel.errors import ClusterError
from modelwheel.versions import TENSORFLOW_VERSION
from tests.support.toys import ToyJob, ToyLocal
from tests.support.waiting import wait_until

_HERE = Declaration(
    host="here",
    modelwheel="1.0",
    tensorflow=TENSORFLOW_VERSION,
    template="t",
    tools={"cxx": "g++ 12", "python": "cp312"},
    platform="linux-x86_64",
    levels=("x86-64", "x86-64-v3"),
    sandbox="bubblewrap",
    memory=8_000_000_000,
)


def _other(**changes: object) -> Declaration:
    return _HERE.model_copy(update=changes)


class Verify(ToyLocal):
    kind = "verify"


class Wheel(ToyLocal):
    kind = "wheel"


# --- addresses ------------------------------------------------------------------------------------


def test_addresses_are_read(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("ca", "cert", "key")]
    for file in files:
        file.touch()
    assert parse_target("tcp://scheduler:8786").address == "tcp://scheduler:8786"
    assert parse_target("tcp://[::1]:8786/").address == "tcp://[::1]:8786"
    assert parse_target("tls://scheduler:8786", Tls(*files)).tls == Tls(*files)
    assert [parse_target(text).local_workers for text in ("local", "local:7")] == [2, 7]
    assert parse_target("local:3").shown == "local:3"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "scheduler:8786",
        "http://h:1",
        "tcp://h",
        "tcp://h:99999",
        "local:0",
        "tcp://a@h:1",
        "x\ny",
    ],
)
def test_what_is_no_address_is_one_sentence(text: str) -> None:
    with pytest.raises(
        ClusterError, match="is not the address of a cluster; write tcp://"
    ) as error:
        parse_target(text)
    assert "\n" not in str(error.value)


def test_an_address_with_tls_needs_its_files(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="needs `tls_ca_file`, `tls_cert` and `tls_key`"):
        parse_target("tls://scheduler:8786")
    missing = Tls(tmp_path / "ca.pem", tmp_path / "cert.pem", tmp_path / "key.pem")
    with pytest.raises(ClusterError, match=r"there is no file .*ca\.pem"):
        parse_target("tls://scheduler:8786", missing)


# --- who may take part ----------------------------------------------------------------------------


def test_a_machine_is_like_itself() -> None:
    here = declare(1)
    assert why_refused(here, here, sandboxed=bool(here.sandbox)) is None
    assert Declaration.model_validate(here.model_dump(mode="json")) == here
    assert here.resources()[MEMORY] == 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"modelwheel": "0.9"}, "has modelwheel 0.9, and this machine 1.0"),
        ({"tensorflow": "2.20.0"}, f"has TensorFlow 2.20.0, and modelwheel 1.0 needs {TENSORFLOW_VERSION}"),
        ({"template": "u"}, "has another wheel template"),
        ({"tools": {"cxx": "g++ 13", "python": "cp312"}}, "has the C++ compiler 'g++ 13', and this machine 'g++ 12'"),
        ({"tools": {"cxx": "g++ 12", "python": "cp313"}}, "has Python 'cp313', and this machine 'cp312'"),
        ({"sandbox": ""}, "has no sandbox, which is required"),
    ],
)  # fmt: skip
def test_a_worker_that_differs_is_refused(changes: dict[str, object], said: str) -> None:
    assert said in (why_refused(_HERE, _other(**changes), sandboxed=True) or "")


@pytest.mark.parametrize("changes", [{"tensorflow": ""}, {"tools": {}}, {"levels": ("x86-64",)}])
def test_a_worker_that_lacks_something_runs_other_steps(changes: dict[str, object]) -> None:
    assert why_refused(_HERE, _other(**changes), sandboxed=True) is None


def test_a_worker_of_another_platform_runs_steps_with_tensorflow() -> None:
    worker = _other(platform="macos-arm64", tools={"cxx": "clang"}, levels=("armv8-a",))
    assert why_refused(_HERE, worker, sandboxed=True) is None
    job = needs_of(ToyJob("a"), _HERE, [worker], 1, sandboxed=True)
    wheel = needs_of(Wheel("a"), _HERE, [worker], 1, sandboxed=True)
    assert _fits(worker, job)
    assert not _fits(worker, wheel)


def test_a_worker_of_another_version_gets_no_step_whenever_it_joins() -> None:
    needs = needs_of(ToyLocal("a"), _HERE, [_HERE], 1, sandboxed=False)
    assert _fits(_HERE, needs)
    for changes in ({"modelwheel": "0.9"}, {"template": "u"}):
        assert not _fits(_other(**changes), needs)


def _fits(worker: Declaration, needs: dict[str, float]) -> bool:
    own = worker.resources()
    return all(own.get(name, 0) >= amount for name, amount in needs.items())


def test_steps_need_what_they_use() -> None:
    job = needs_of(ToyJob("a"), _HERE, [_HERE], 5, sandboxed=True)
    local = needs_of(ToyLocal("a"), _HERE, [_HERE], 5, sandboxed=True)
    verify = needs_of(Verify("a"), _HERE, [_other(levels=("x86-64",)), _HERE], 5, sandboxed=True)
    assert (job[MEMORY], job[SANDBOX], f"tensorflow-{TENSORFLOW_VERSION}" in job) == (5, 1, True)
    assert (MEMORY in local, SANDBOX in local, local[PROGRAMS]) == (False, False, 1)
    assert (verify[SANDBOX], verify["level-x86-64-v3"], verify["platform-linux-x86_64"]) == (
        1,
        1,
        1,
    )
    assert "TensorFlow 2" in words_of(job)
    assert "the CPU level x86-64-v3" in words_of(verify)
    assert SANDBOX not in needs_of(ToyJob("a"), _HERE, [_HERE], 5, sandboxed=False)
    assert needs_of(ToyJob("a"), _HERE, [_HERE], 5, sandboxed=False, extra=["x"])["x"] == 1


def test_the_largest_worker_gets_what_needs_more_memory_than_any_has() -> None:
    needs = needs_of(ToyJob("a"), _HERE, [_other(memory=3), _other(memory=7)], 100, sandboxed=False)
    assert needs[MEMORY] == 7


def test_every_kind_of_step_is_known_to_run_a_compiler_or_not() -> None:
    """A new step that runs a compiler of the machine must say so to `needs_of`."""
    found = {
        value.kind
        for module in (bundle, distribution, kernels, profile)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, LocalStep) and "kind" in vars(value)
    }
    assert {kind for kind in found if not _needs_tools(kind)} == {"project", "sdist"}
    assert len(found) == 9


def _needs_tools(name: str) -> bool:
    class Kind(ToyLocal):
        kind = name

    return any(
        n.startswith("tools-") for n in needs_of(Kind("a"), _HERE, [_HERE], 1, sandboxed=False)
    )


def test_names_of_workers_say_their_machine() -> None:
    assert name_of_worker(0, "node1") == "node1-0"
    assert name_of_worker("node1-17", "node1") == "node1-17"


def test_the_command_of_a_worker_has_the_files_of_tls(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("ca", "cert", "key")]
    for file in files:
        file.touch()
    target = parse_target("tls://scheduler:8786", Tls(*files), {"licence": 2.0})
    machine = Machine(2, 4, 8_000_000_000, "name")
    command = worker_command(target, machine)
    assert command[1:4] == ["-m", "distributed.cli.dask_worker", "tls://scheduler:8786"]
    assert command[command.index("--tls-key") + 1] == str(files[2])
    assert command[command.index("--nthreads") + 1] == "4"
    environment = worker_environment(target, machine, {"A": "b"})
    assert environment["DASK_MODELWHEEL__MEMORY"] == "4000000000"
    assert ast.literal_eval(environment["DASK_MODELWHEEL__RESOURCES"]) == {"licence": 2.0}
    assert environment["A"] == "b"


# --- alone ----------------------------------------------------------------------------------------


def test_a_step_that_must_be_alone_waits_and_is_waited_for() -> None:
    gate, order = Gate(), list[str]()
    first, leave, alone = threading.Event(), threading.Event(), threading.Event()

    def beside(name: str, until: threading.Event) -> None:
        with gate.entered(alone=False):
            first.set()
            order.append(name)
            until.wait(60)

    def by_itself() -> None:
        alone.set()
        with gate.entered(alone=True):
            order.append("alone")

    threads = [threading.Thread(target=beside, args=("first", leave))]
    threads[0].start()
    first.wait(60)
    threads.append(threading.Thread(target=by_itself))
    threads[1].start()
    alone.wait(60)
    wait_until(lambda: gate._waiting)
    done = threading.Event()
    done.set()
    threads.append(threading.Thread(target=beside, args=("late", done)))
    threads[2].start()
    leave.set()
    for thread in threads:
        thread.join(60)
    assert order == ["first", "alone", "late"]


# --- Dask -----------------------------------------------------------------------------------------

_PACKAGE = Path(modelwheel.__file__).parent


def test_only_the_cluster_imports_dask() -> None:
    importers = {
        path.relative_to(_PACKAGE).parts[:2]
        for path in _PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if any(
            name.split(".")[0] in ("dask", "distributed")
            for name in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom) and not node.level
                else []
            )
        )
    }
    assert importers == {("engine", "cluster")}


def test_a_build_on_this_machine_imports_no_dask() -> None:
    code = (
        "import sys\n"
        "import modelwheel.cli, modelwheel.engine.build, modelwheel.engine.check_models\n"
        "import modelwheel.engine.cluster.address, modelwheel.engine.cluster.start\n"
        "sys.exit(any(name in sys.modules for name in ('dask', 'distributed', 'tornado')))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
