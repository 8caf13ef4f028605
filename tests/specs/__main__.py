"""Accept the present messages: `python -m tests.specs` writes them beside the broken specs."""

from __future__ import annotations

from pathlib import Path

from modelwheel.errors import SpecError
from modelwheel.spec import load_spec

INVALID = Path(__file__).parent / "invalid"


def broken_specs() -> list[Path]:
    """Every spec file of `invalid/`; its expected message lies beside it as `.txt`."""
    return sorted(file for file in INVALID.iterdir() if file.suffix in (".yaml", ".json"))


def message_of(path: Path) -> str:
    """What is said of a broken spec, its directory left out; empty if nothing is."""
    try:
        load_spec(path)
    except SpecError as error:
        return str(error).replace(f"{path.parent}/", "") + "\n"
    return ""


if __name__ == "__main__":
    for spec in broken_specs():
        spec.with_suffix(".txt").write_text(message_of(spec), encoding="utf-8")
