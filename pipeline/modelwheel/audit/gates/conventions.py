"""Gate: `twine check --strict` and check-wheel-contents accept the wheel."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import redirect_stdout

from ...errors import EnvironmentProblemError
from ...util.text import one_line
from ..opened import OpenedWheel
from .finding import GateFinding


def check(wheel: OpenedWheel) -> Iterator[GateFinding]:
    """Runs both tools with all their checks."""
    yield from _check_with_twine(wheel)
    yield from _check_contents(wheel)


class _Messages(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(" ".join(record.getMessage().split()))


def _check_with_twine(wheel: OpenedWheel) -> Iterator[GateFinding]:
    from twine.commands.check import check as twine_check
    from twine.exceptions import TwineException

    # twine prints verdicts to standard output, which is for our results, and only logs the reasons.
    messages, logger = _Messages(), logging.getLogger("twine.commands.check")
    logger.addHandler(messages)
    # Otherwise the reasons would be shown twice: as log lines, too.
    propagates, logger.propagate = logger.propagate, False
    try:
        with redirect_stdout(io.StringIO()):
            failed = twine_check([str(wheel.path)], strict=True)
    except TwineException as error:
        failed, messages.texts = True, [str(error)]
    except Exception as error:  # noqa: BLE001 - whatever it makes of a damaged file
        failed, messages.texts = True, [f"cannot read it ({one_line(error)})"]
    finally:
        logger.removeHandler(messages)
        logger.propagate = propagates
    if failed:
        yield GateFinding(f"{wheel.dist_info}/METADATA", f"twine check: {' '.join(messages.texts)}")


def _check_contents(wheel: OpenedWheel) -> Iterator[GateFinding]:
    try:
        from check_wheel_contents.checker import WheelChecker
        from check_wheel_contents.contents import WheelContents
        from check_wheel_contents.errors import WheelValidationError
    except ImportError:
        raise EnvironmentProblemError(
            'auditing wheels requires check-wheel-contents: pip install "modelwheel[release]"',
            code="MW721",
        ) from None
    try:
        failed = WheelChecker().check_contents(WheelContents.from_wheel(wheel.path))
    except WheelValidationError as error:
        yield GateFinding(wheel.name, f"check-wheel-contents: {error}")
        return
    except Exception as error:  # noqa: BLE001 - such as a RECORD that is not UTF-8
        sentence = f"check-wheel-contents cannot read it ({one_line(error)}); build the wheel again"
        yield GateFinding(wheel.name, sentence)
        return
    for failure in failed:
        files = ", ".join(failure.args[:3])
        yield GateFinding(
            files or wheel.name,
            f"check-wheel-contents: {failure.check.name}: {failure.check.value}",
        )
