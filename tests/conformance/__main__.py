"""Writes docs/onnx.md: `python -m tests.conformance`. With names or parts of names, prints what became of those."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

from tests.conformance.cases import load_suite, names
from tests.conformance.page import PAGE, write_page
from tests.conformance.run import run_cases


def main(parts: Sequence[str]) -> int:
    """The exit code is 1 if any case is wrong or crashes."""
    chosen = [n for n in names() if not parts or any(part in n for part in parts)]
    outcomes = []
    for outcome in run_cases(chosen):
        outcomes.append(outcome)
        if parts or outcome.verdict not in ("passed", "not applicable"):
            sys.stdout.write(f"{outcome.verdict} {outcome.name} {outcome.reason}\n")
    counts = Counter(outcome.verdict for outcome in outcomes)
    sys.stdout.write(", ".join(f"{count} {verdict}" for verdict, count in counts.items()) + "\n")
    if not parts:
        kinds = {case.name: kind for kind, case in load_suite()}
        PAGE.write_text(write_page(outcomes, kinds), encoding="utf-8")
    return 1 if counts["wrong"] or counts["crashed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
