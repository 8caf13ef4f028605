"""What an attack is, what it tries to reach, and the table of all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

VARIABLE, TOKEN = "MODELWHEEL_TEST_TOKEN", "token-of-the-test-c0ffee"
"""The environment variable that some attacks try to read, and the value that the tests give it."""
SECRET = "secret-of-the-test-5eed"
"""The content of `Victim.secret`; its length is a multiple of four bytes only with its newline."""

HOSTILE_NAME = "evil\x1b]0;owned\x07\n::error::owned\u202e/Relu"
"""The name of a node: a terminal's escape sequence, a workflow command, text from right to left."""

Kind: TypeAlias = Literal["effect", "loading", "limit", "damage", "text"]
"""effect: an operation of the signature reaches outside; loading: one that runs when the model is
loaded; limit: too large, too deep, or endless; damage: not a valid model; text: names for terminals."""


@dataclass(frozen=True)
class Victim:
    """What attacks try to reach."""

    directory: Path
    port: int = 9

    @property
    def secret(self) -> Path:
        """A file that attacks try to read."""
        return self.directory / "secret"

    def marker(self, name: str) -> Path:
        """A file that an attack tries to write."""
        return self.directory / f"{name}.marker"

    def prepare(self) -> None:
        """Makes the directory and the file."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.secret.write_text(SECRET + "\n")


@dataclass(frozen=True)
class Attacks:
    """All models, written for one victim."""

    models: Path
    """A directory with a sub-directory for each."""
    victim: Victim


@dataclass(frozen=True)
class Attack:
    """A hostile model."""

    name: str
    """Of its directory."""
    kind: Kind
    attempts: str
    """What it tries, as a phrase: `writes a file`."""
    node: str
    """Part of the name of the node or function that does it; empty where there is none."""
    make: Callable[[Path, Victim], None]
    runs: bool = True
    """Whether running it without the judgement is worth while: False for models that cannot be loaded."""


ATTACKS: list[Attack] = []


def attack(
    kind: Kind, attempts: str, node: str = "evil", *, runs: bool = True
) -> Callable[[Callable[[Path, Victim], None]], Callable[[Path, Victim], None]]:
    def register(make: Callable[[Path, Victim], None]) -> Callable[[Path, Victim], None]:
        ATTACKS.append(Attack(make.__name__, kind, attempts, node, make, runs))
        return make

    return register


def find_attack(name: str) -> Attack:
    """The attack of that name."""
    return next(attack for attack in ATTACKS if attack.name == name)
