"""What holds for all generated code."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from modelwheel.codegen.writer import StepWriter
from modelwheel.program.steps import Step

_KERNELS = Path(__file__).parents[3] / "wheel_template" / "model" / "src" / "kernels"


@pytest.fixture(autouse=True)
def headers_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails a test whose code includes a header that wheels do not have."""
    write = StepWriter.write

    def checked(self: StepWriter, steps: Iterable[Step], depth: int = 1) -> list[str]:
        lines = write(self, steps, depth)
        assert not [header for header in self.headers if not (_KERNELS / header).is_file()]
        return lines

    monkeypatch.setattr(StepWriter, "write", checked)
