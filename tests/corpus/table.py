"""The table of published models, `models.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import yaml
from packaging.requirements import Requirement
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

TABLE = Path(__file__).with_name("models.yaml")

_Sha256 = Annotated[str, StringConstraints(pattern=r"[0-9a-f]{64}")]

Kind = Literal[
    "audio events",
    "biology",
    "chemistry",
    "denoising",
    "detection",
    "diacritics",
    "embeddings",
    "files",
    "quality",
    "pitch",
    "pronunciation",
    "recognition",
    "segmentation",
    "speech",
    "tabular",
    "tokens",
    "vision",
]

Making = Literal["image", "wave", "spectrum", "tokens", "ones", "one-hot", "row"]


class Sample(BaseModel):
    """How the real values of one input are made."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    make: Making
    shape: tuple[int, ...]
    """Of all rows together."""
    dtype: str = "float32"
    limit: int = 2
    """Of tokens: how many different ones there are."""
    scale: float = 1.0
    """What values are multiplied by: 255 for images of bytes."""


class Model(BaseModel):
    """One file or directory of a published package."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    about: str
    """What it computes."""
    kind: Kind
    exporter: str
    """What wrote the file, as the file or its package says."""
    package: str
    """The package and its version, `name==version`; a wheel."""
    sha256: _Sha256
    """Of the wheel."""
    path: str
    """Of the model in the wheel; a SavedModel is a directory."""
    licence: str
    """Of the package, as it says itself."""
    spec: Mapping[str, object] = Field(default_factory=dict)
    """What a spec needs in addition to names: `inputs`, options of `source`."""
    samples: Mapping[str, Sample] = Field(default_factory=dict)
    """Real inputs by name, all or none; without them, inputs are random."""
    batched: bool = True
    """Whether a call may have any number of rows."""
    fast: bool = False
    """Whether CI builds it."""

    @property
    def requirement(self) -> Requirement:
        """The package with its version."""
        return Requirement(self.package)


def read_table() -> tuple[Model, ...]:
    """All models, in the order of the file."""
    table = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return tuple(Model.model_validate(row) for row in table)
