"""Writes hostile models: `python -m tests.models.hostile DIRECTORY VICTIM [PORT [NAME...]]`.

What an attack reaches, it reaches in a `Victim`: a directory that exists before the attack and is
compared afterwards, an environment variable, a TCP port of this machine.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from . import ATTACKS, Victim, find_attack


def write_attacks(root: Path, victim: Victim, names: Iterable[str] = ()) -> None:
    """Writes the models, each into a directory of its name; by default all of them. Needs TensorFlow."""
    victim.prepare()
    root.mkdir(parents=True, exist_ok=True)
    chosen = [find_attack(name) for name in names] or ATTACKS
    for attack in chosen:
        attack.make(root / attack.name, victim)
    shutil.rmtree(root / ".plain", ignore_errors=True)


def main(arguments: Sequence[str]) -> None:
    root, victim = Path(arguments[0]), Path(arguments[1])
    port = int(arguments[2]) if len(arguments) > 2 else 9
    write_attacks(root, Victim(victim, port), arguments[3:])
    json.dump([attack.name for attack in ATTACKS], sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
