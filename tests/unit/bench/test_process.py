"""What programs that failed have said."""

from __future__ import annotations

from pathlib import Path

from modelwheel.bench.process import end_of_log


def test_the_last_line_of_a_log_is_given_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "side.log"
    log.write_text("Traceback (most recent call last):\n  there\nValueError: rows: " + "x" * 900)
    said = end_of_log(tmp_path / "side")
    assert said.startswith("ValueError: rows: xxx")
    assert len(said) == 400
    assert end_of_log(tmp_path / "nothing") == ""
