"""What the demonstrations share."""

from __future__ import annotations

import sys

import pytest

from tests.demo.data import run

FAILS = "import sys; print('error: no', file=sys.stderr); sys.exit(11)"


@pytest.mark.parametrize("quiet", [False, True])
def test_a_failure_ends_with_what_the_command_said(
    quiet: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        run(sys.executable, "-c", FAILS, quiet=quiet)
    assert caught.value.code == 11
    assert capfd.readouterr().err == "error: no\n"
