"""Writes docs/codes.md from the codes of messages: `python -m tests.support.codes_page`."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from modelwheel.codes import all_codes

PAGE = Path(__file__).parents[2] / "docs" / "codes.md"

_HEAD = """\
# Codes and exit codes

Each message of modelwheel ends with a code, which stays the same when the words change. `modelwheel explain CODE` says what it means, why, and how
to fix it, with an example. JSON has it as `code`. A command ends with the exit code of its first error. Written by
`python -m tests.support.codes_page`.

| exit code | meaning |
|---|---|
| 0 | Success. |
| 1 | Internal error; `modelwheel doctor`: something is missing. |
| 130 | Interrupted by Ctrl-C. |
| 143 | Terminated. |

"""


def text() -> str:
    """The page."""
    parts = [_HEAD]
    for exit_code, codes in groupby(all_codes().values(), key=lambda code: code.exit_code):
        rows = "".join(f"| {code.code} | {code.title} |\n" for code in codes)
        parts.append(f"## Exit code {exit_code}\n\n| code | mistake |\n|---|---|\n{rows}\n")
    return "".join(parts).rstrip("\n") + "\n"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
