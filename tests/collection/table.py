"""The table of the collection in `model_specs/README.md`."""

from __future__ import annotations

from pathlib import Path

from modelwheel.spec import Spec, load_spec

SPECS = Path(__file__).parents[2] / "model_specs"
README = SPECS / "README.md"
BEGIN, END = "<!-- the collection -->\n", "<!-- end of the collection -->\n"

_FORMATS = {
    "graph_def": "GraphDef",
    "keras": "Keras",
    "onnx": "ONNX",
    "saved_model": "SavedModel",
}


def table() -> str:
    """A row for each spec, by name."""
    rows = [_row(load_spec(path)) for path in sorted(SPECS.glob("*.yaml"))]
    head = "| model | what it does | format | licence of the weights | picture |\n|---|---|---|---|---|\n"
    return head + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(spec: Spec) -> tuple[str, ...]:
    name, package = spec.model.name, spec.package
    picture = SPECS / f"{name}.svg"
    shown = f'<img src="{picture.name}" width="240" alt="{package.summary}">'
    return (
        f"[{name}]({spec.path.name})",
        (spec.model.description or "").strip(),
        _FORMATS[spec.origin.model_format],
        package.weights_license or "not stated: not published",
        shown if picture.exists() else "",
    )


def write_table() -> None:
    """Replaces the table between its two marks."""
    before, rest = README.read_text(encoding="utf-8").split(BEGIN)
    README.write_text(f"{before}{BEGIN}{table()}{END}{rest.split(END)[1]}", encoding="utf-8")
