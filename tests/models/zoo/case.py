"""One case of the zoo."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True)
class Case:
    """One model and its spec, and what must become of it."""

    name: str
    """Unique; also the name of the model in its spec."""
    script: str
    """The module of `tests.models` that writes the model; it is called with a directory."""
    path: str
    """The model below that directory: a directory with a SavedModel, or a file."""
    about: str = ""
    """What is special about it, as a phrase; the sentence of a refusal says it."""
    spec: str = ""
    """What its spec has beyond name, source and levels, in YAML."""
    refused: bool = False
    """Whether it must be refused; otherwise it is compiled and compared with TensorFlow."""
    subset: bool = False
    """Whether it is also run quickly (`make integration`) and for other processors."""

    def write_spec(self, models: Path, levels: Collection[str], directory: Path) -> Path:
        """Writes the spec, for these CPU levels, of the models that `make_models` has written."""
        more: dict[str, Any] = yaml.safe_load(self.spec) or {}
        place = {"directory": str(models / self.script), "path": self.path}
        fields: Mapping[str, Any] = {
            "model": {"name": self.name, "version": "1.0.0", **more.pop("model", {})},
            "source": {**place, **more.pop("source", {})},
            "targets": list(levels),
            "package": {"bindings": "shared"},
            **more,
        }
        path = directory / f"{self.name}.yaml"
        path.write_text(yaml.safe_dump(fields, sort_keys=False), encoding="utf-8")
        return path
