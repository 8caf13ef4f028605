"""Specs of the published models in ../shared/models."""

from __future__ import annotations

from pathlib import Path

from tests.support.laboratory import SHARED_MODELS

_SPECS = {
    "half_plus_two": "",
    "mhcnuggets_a0201": "compilation: {batch_sizes: [1, 4]}",
    "fer_emotion": "compilation: {batch_sizes: [1]}",
    # The logarithm of nearly empty bins of its spectrum brings TensorFlow itself 5e-5 away from float64.
    "basic_pitch": "compilation: {batch_sizes: [1]}\nverify: {tolerance: {rtol: 1.0e-4}}",
    "dtln": "keep_state: true",
    "ppocr_cls": "inputs: {x: {shape: [null, 3, 48, 192]}}\ncompilation: {batch_sizes: [1]}",
    "silero_vad": "inputs: {input: {shape: [1, 576]}, state: {shape: [2, 1, 128]}}",
}
_SPEC = """\
model: {{name: {name}, version: "1.0.0"}}
source: {{{source}}}
targets: [{targets}]
package: {{bindings: shared}}
{more}
"""


def write_specs(directory: Path, levels: list[str]) -> list[Path]:
    """The specs of the models that are there."""
    directory.mkdir(exist_ok=True)
    found = []
    for name, more in _SPECS.items():
        model = SHARED_MODELS / name
        if not model.is_dir():
            continue
        onnx = next(model.glob("*.onnx"), None)
        source = (
            f"directory: {model}, path: {onnx.name}" if onnx else f"directory: {model}/saved_model"
        )
        if name == "silero_vad":
            source += ", constants: {sr: 16000}"
        text = _SPEC.format(name=name, source=source, targets=", ".join(levels), more=more)
        spec = directory / f"{name}.yaml"
        spec.write_text(text, encoding="utf-8")
        found.append(spec)
    return found
