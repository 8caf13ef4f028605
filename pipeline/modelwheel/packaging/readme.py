"""The texts of a wheel's README and metadata: code that runs as it is printed, labels, platforms and links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from ..assembly.manifest import Manifest
from ..platforms import PLATFORMS
from ..signature import Tensor
from ..util.markdown import escape

_TAKEN = frozenset({"labels", "model", "np", "outputs", "print", "result", "row"})
"""What the examples use beside the variables of inputs and outputs."""

_SHOWN_LABELS = 12

_CLASSIFIERS = (
    "Intended Audience :: Developers",
    "Intended Audience :: Science/Research",
    "Programming Language :: Python :: 3",
    "Programming Language :: Python :: Implementation :: CPython",
    "Topic :: Scientific/Engineering :: Artificial Intelligence",
    "Typing :: Typed",
)
_LANGUAGES = {"c": "Programming Language :: C", "cpp": "Programming Language :: C++"}
_SYSTEMS = {
    "linux": "Operating System :: POSIX :: Linux",
    "macos": "Operating System :: MacOS",
    "windows": "Operating System :: Microsoft :: Windows",
}


def readme_context(manifests: Sequence[Manifest]) -> dict[str, object]:
    """The values that only README and metadata use."""
    manifest = manifests[0]
    signature, model = manifest.signature, manifest.model
    rows = example_rows(manifest)
    taken = {*_TAKEN, model.module}
    names = {name for tensor in signature.inputs if (name := tensor.c_name) not in taken}
    inputs = []
    for tensor in signature.inputs:
        variable = tensor.c_name
        while variable in taken or (variable != tensor.c_name and variable in names):
            variable += "_"
        names.add(variable)
        inputs.append(_input(tensor, variable, rows))
    result = signature.outputs[0].c_name if len(signature.outputs) == 1 else "outputs"
    return {
        "example_inputs": inputs,
        "example_call": ", ".join(argument["variable"] for argument in inputs),
        "example_result": f"{result}_" if result in taken - {"outputs"} else result,
        "example_shape": _shape(signature.outputs[0], rows),
        "example_label": next(filter(_has_row_labels, signature.outputs), None),
        "labelled": [(t.name, _label_text(t.labels)) for t in signature.outputs if t.labels],
        "platform_names": [manifest.platform for manifest in manifests],
        "classifiers": sorted(_classifiers(manifests)),
        "links": links(manifest),
    }


def example_rows(manifest: Manifest) -> int:
    """The number of rows in examples: 1, or the smallest compiled one of a model that takes no others."""
    return 1 if manifest.batching.no_emulation_reason is None else manifest.batching.sizes[0]


def links(manifest: Manifest) -> Mapping[str, str]:
    """The links of the spec, and where the model comes from."""
    urls = dict(manifest.model.urls)
    source = manifest.provenance.source.get("url", "")
    try:
        is_web = urlsplit(source).scheme == "https"
    except ValueError:
        is_web = False
    if is_web and source not in urls.values():
        urls.setdefault("Model source", source)
    return urls


def _input(tensor: Tensor, variable: str, rows: int) -> dict[str, str]:
    dtype = {"bool": "bool_", "bfloat16": "uint16"}.get(tensor.dtype, tensor.dtype)
    low = next((bounds.low for bounds in tensor.valid if bounds.columns is None), 0)
    high = next((bounds.high for bounds in tensor.valid if bounds.columns is None), 1)
    shape = _shape(tensor, rows)
    zeros = low <= 0 < high
    value = f"np.zeros({shape}, np.{dtype})" if zeros else f"np.full({shape}, {low:g}, np.{dtype})"
    count = tensor.row_elements * (rows if tensor.leading_per_row else 1)
    return {"variable": variable, "value": value, "c_type": tensor.c_type, "elements": str(count)}


def _shape(tensor: Tensor, rows: int) -> str:
    shape = tensor.shape_at(rows, None)
    return f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"


def _has_row_labels(tensor: Tensor) -> bool:
    """Whether the largest value of a row says which label it has."""
    return bool(tensor.labels) and len(tensor.shape) == 2 and tensor.batch_axis == 0


def _label_text(labels: Sequence[str]) -> str:
    shown = ", ".join(map(escape, labels[:_SHOWN_LABELS]))
    return shown if len(labels) <= _SHOWN_LABELS else f"{shown}, ... ({len(labels)} in all)"


def _classifiers(manifests: Sequence[Manifest]) -> Iterator[str]:
    """Of the list of classifiers that indexes accept, but for a wheel that none may accept."""
    yield from _CLASSIFIERS
    yield from (
        _LANGUAGES[interface]
        for interface in manifests[0].model.interfaces
        if interface in _LANGUAGES
    )
    yield from {_SYSTEMS[PLATFORMS[manifest.platform].system] for manifest in manifests}
    if not manifests[0].model.publish:
        yield "Private :: Do Not Upload"  # PyPI refuses what has it
