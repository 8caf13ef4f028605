"""The same Keras model has the same bytes, whenever and wherever it is saved."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

from modelwheel.api.normal_form import normalise_keras


def _write(path: Path, date: str, places: tuple[int, int]) -> bytes:
    first, second = places
    config = {"layers": [{"shared_object_id": n} for n in (first, second, first)], "units": 7000}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("metadata.json", json.dumps({"keras_version": "3", "date_saved": date}))
        archive.writestr("config.json", json.dumps(config))
        archive.writestr("model.weights.h5", b"\x89HDF")
    normalise_keras(path)
    return path.read_bytes()


def test_neither_dates_nor_places_in_memory_stay(tmp_path: Path) -> None:
    one = _write(tmp_path / "one.keras", "2026-01-01", (7000, 9000))
    with zipfile.ZipFile(tmp_path / "one.keras") as archive:
        config = json.loads(archive.read("config.json"))
        assert json.loads(archive.read("metadata.json")) == {"keras_version": "3"}
        assert archive.read("model.weights.h5") == b"\x89HDF"
    assert [layer["shared_object_id"] for layer in config["layers"]] == [0, 1, 0]
    assert config["units"] == 7000  # a number of the model
    assert _write(tmp_path / "two.keras", "2027-02-02", (5000, 3000)) == one
