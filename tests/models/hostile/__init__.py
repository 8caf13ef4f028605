"""SavedModels that attack whoever reads or runs them.

`ATTACKS` is the one table of them: what each tries, and what is expected to stop it. Importing this
package needs no TensorFlow; writing the models (`python -m tests.models.hostile`) does. Nothing here runs an
attack: saving only traces.
"""

from . import damage, effects, limits, loading, modules  # noqa: F401 - they add their attacks to the table
from .table import (
    ATTACKS,
    HOSTILE_NAME,
    SECRET,
    TOKEN,
    VARIABLE,
    Attack,
    Attacks,
    Victim,
    find_attack,
)

__all__ = [
    "ATTACKS",
    "HOSTILE_NAME",
    "SECRET",
    "TOKEN",
    "VARIABLE",
    "Attack",
    "Attacks",
    "Victim",
    "find_attack",
]
