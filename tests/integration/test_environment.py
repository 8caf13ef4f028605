"""Wheels in an environment of their own: installed for real, with a module that plays the model."""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from modelwheel.errors import VerifyError, WheelError
from modelwheel.sandbox.choose import Sandbox
from modelwheel.sandbox.policy import Limits
from modelwheel.verify.environment import install_wheel
from modelwheel.verify.selftest import require_passed
from modelwheel.wheelfile.reports import Comparison, Report
from tests.support.indexes import make_wheel
from tests.support.sandboxes import BEST, NONE

ANSWERS = """\
import os, sys
if __name__ == "__main__":
    assert "MODELWHEEL_LEVEL" not in os.environ
    command, *options = sys.argv[1:]
    if command == "selftest":
        print('{"passed": true, "comparisons": [], "skipped": {}}')
    elif options[1:] == ["--level", "best"]:
        print('[{"level": "best", "rows": 1, "rule": "1:1", "nanoseconds": 5.0}]')
    else:
        sys.exit("no such level")
"""


def test_a_wheel_that_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELWHEEL_LEVEL", "x86-64")  # of the caller, not of the measurement
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "elsewhere"))
    wheel = make_wheel(tmp_path, "model-a", content=ANSWERS)
    installed = install_wheel(wheel, "model_a", tmp_path, BEST)
    assert installed.selftest() == Report(passed=True, comparisons=(), skipped={})
    (timing,) = installed.bench("--level", "best")
    assert (timing.level, timing.nanoseconds) == ("best", 5.0)
    with pytest.raises(VerifyError, match=r"(?s)model_a-.* cannot be timed: .*no such level"):
        installed.bench("--level", "none")


HOSTILE = """\
import os, socket, sys
from pathlib import Path

def attempt(name, action):
    try:
        action()
    except Exception:
        return []
    return [name]

secret, reference = TARGET
achieved = [
    *attempt("read a secret", lambda: Path(secret).read_text()),
    *attempt("write beside the secret", lambda: Path(secret).with_name("planted").touch()),
    *attempt("change its environment", lambda: Path(__file__).write_text("")),
    *attempt("add to its environment", lambda: Path(__file__).with_name("x.pth").touch()),
    *attempt("open a socket", socket.socket),
    *attempt("start a process", lambda: os.posix_spawn("/bin/true", ["true"], {})),
    *attempt("see a variable", lambda: os.environ["MODELWHEEL_TEST_TOKEN"]),
    *attempt("change the reference", lambda: Path(reference).open("r+")),
    *attempt("read the reference", lambda: Path(reference).read_text()),
    *attempt("write its scratch directory", lambda: Path("x").touch()),
]
print("achieved:", ", ".join(achieved), file=sys.stderr)
sys.exit(1)
"""


@pytest.mark.parametrize("sandbox", [BEST, NONE], ids=["sandbox", "none"])
def test_a_hostile_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox) -> None:
    monkeypatch.setenv("MODELWHEEL_TEST_TOKEN", "secret")
    secret, reference = tmp_path / "home" / "secret", tmp_path / "store" / "reference"
    for path in (secret, reference):
        path.parent.mkdir()
        path.write_text("secret")
    content = f"TARGET = {str(secret)!r}, {str(reference)!r}\n{HOSTILE}"
    wheel = make_wheel(tmp_path, "model-a", content=content)
    installed = install_wheel(wheel, "model_a", tmp_path, sandbox)
    with pytest.raises(VerifyError) as refused:
        installed.selftest(reference)
    achieved = str(refused.value).partition("achieved: ")[2].split(", ")
    allowed = ["read the reference", "write its scratch directory"]
    if sandbox.confines:
        assert achieved == allowed
    else:
        # The variables are chosen without a sandbox too.
        assert len(achieved) == 9
        assert "see a variable" not in achieved


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("while True: pass", "took longer than 1 s and was stopped"),
        ("x = bytearray(10**12)", "failed with exit code 1: .*MemoryError"),
        ("import os; os.abort()", "was killed by SIGABRT and no output"),
        ("import sys; print('\\x1b[2J::error::', file=sys.stderr); sys.exit(1)", r"\\x1b"),
    ],
)
def test_a_wheel_that_reaches_a_limit(tmp_path: Path, content: str, said: str) -> None:
    wheel = make_wheel(tmp_path, "model-a", content=content)
    sandbox = replace(BEST, limits=Limits(wall_seconds=1))
    with pytest.raises(VerifyError, match=f"(?s){said}"):
        install_wheel(wheel, "model_a", tmp_path, sandbox).selftest()


def test_installing_a_wheel_builds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dependency that only has a source distribution would run its code."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    files = {
        "pyproject.toml": """[build-system]
requires = []
build-backend = "evil"
backend-path = ["."]
""",
        "evil.py": f"open({str(tmp_path / 'planted')!r}, 'w')\n",
    }
    with tarfile.open(tmp_path / "evil-1.0.tar.gz", "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"evil-1.0/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content.encode()))
    wheel = make_wheel(tmp_path, "model-a", needs="evil")
    with pytest.raises(WheelError, match=r"(?s)cannot be installed: .*No matching distribution"):
        install_wheel(wheel, "model_a", tmp_path, BEST)
    assert not (tmp_path / "planted").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("import sys; sys.exit(3)", "failed with exit code 3 and no output"),
        ("raise ImportError('no library')", "failed with exit code 1: .*no library"),
        ("print('{}')", "failed with exit code 0 and no output"),
    ],
)
def test_a_wheel_that_does_not_run(tmp_path: Path, content: str, said: str) -> None:
    wheel = make_wheel(tmp_path, "model-a", content=content)
    with pytest.raises(VerifyError, match=f"(?s){said}"):
        install_wheel(wheel, "model_a", tmp_path, BEST).selftest()


def test_a_wheel_that_cannot_be_installed(tmp_path: Path) -> None:
    wheel = tmp_path / "model_a-1.0-py3-none-any.whl"
    wheel.write_bytes(b"PK but no more")
    with pytest.raises(WheelError, match=r"model_a-1\.0-py3-none-any\.whl cannot be installed"):
        install_wheel(wheel, "model_a", tmp_path, BEST)


def compare(absolute: float, limit: float) -> Comparison:
    return Comparison(
        level="x86-64", rows=4, rule="4:4", output=f"within {limit}", absolute=absolute,
        relative=0.0, limit=limit, passed=absolute <= limit,
    )  # fmt: skip


def test_the_worst_output_is_named() -> None:
    compared = (compare(1.0, 2.0), compare(3.0, 2.0), compare(1e-3, 0.0))
    report = Report(passed=False, comparisons=compared, skipped={})
    with pytest.raises(VerifyError, match=r"a\.whl: 2 of 3 comparisons exceed .*'within 0.0'"):
        require_passed(report, "a.whl")
    require_passed(Report(passed=True, comparisons=compared[:1], skipped={}), "a.whl")


def test_nothing_compared_is_not_a_success() -> None:
    report = Report(passed=False, comparisons=(), skipped={"x86-64-v4": "needs AVX-512"})
    with pytest.raises(VerifyError, match="nothing could be compared: needs AVX-512"):
        require_passed(report, "a.whl")
