"""The project of a model: the rendered template around the files that its manifests name.

These files are machine code for one or several platforms, weights, generated C++ and the reference sample. Any
PEP 517 frontend can build the project; it needs a C++ compiler, but neither TensorFlow nor modelwheel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from pprint import pformat

from ..accuracy import COLUMNS, Truth, notes_on, truth_lines
from ..assembly.manifest import Manifest
from ..errors import WheelError
from ..levels import LEVELS
from ..platforms import PLATFORMS
from ..signature import Signature, Tensor
from ..util.files import digest_file
from ..util.markdown import escape, table
from ..util.words import shape_text
from ..versions import RUNTIME_MINIMUM, RUNTIME_REQUIREMENT
from .readme import readme_context
from .runtime import NEEDED_SDIST
from .template import SOURCE_DATE_EPOCH, model_template, render

MANIFEST_FILE = "manifest.json"


def render_project(project: Path) -> None:
    """Renders the template around the files of a model, into the same directory.

    Args:
        project: A directory with a `manifest.json` for each platform and the files that these list.

    Raises:
        WheelError: A file is missing or does not match the manifest.
    """
    manifests = load_manifests(project)
    for manifest in manifests:
        require_files(manifest, project)
    model = manifests[0].model
    render(model_template(model.bindings, model.interfaces), project_context(manifests), project)


def load_manifests(project: Path) -> list[Manifest]:
    """Reads the manifests of all platforms of a project, sorted by platform.

    Raises:
        WheelError: There is no manifest, or one cannot be read.
    """
    paths = sorted(project.glob(f"platforms/*/{MANIFEST_FILE}"))
    if not paths:
        raise WheelError(
            f"{project} has no platforms/*/{MANIFEST_FILE}; name a directory that "
            "`modelwheel compile` made"
        )
    return [Manifest.load(path) for path in paths]


def require_files(manifest: Manifest, project: Path) -> None:
    for file in manifest.files:
        path = project / file.path
        if not path.is_file() or digest_file(path).sha256 != file.sha256:
            raise WheelError(
                f"{path} is missing or is not the file that {MANIFEST_FILE} names; "
                "build the model again"
            )


def project_context(manifests: Sequence[Manifest]) -> dict[str, object]:
    manifest = manifests[0]  # the model is the same in all of them
    model = manifest.model
    return {
        **model.model_dump(mode="json"),
        "license": model.whole_license,
        "needed": NEEDED_SDIST,
        "code_license": model.license,
        "batch_sizes": list(manifest.batching.sizes),
        "batched": manifest.signature.batched,
        "evaluator": manifest.verification.evaluator,
        "error_factor": f"{manifest.verification.error_factor:g}",
        "exact": manifest.verification.truth.missing is None,
        "accuracy": _accuracy(manifest.verification.truth),
        "no_emulation_reason": manifest.batching.no_emulation_reason,
        "lengths": list(manifest.signature.lengths),
        "inputs": [_tensor(tensor) for tensor in manifest.signature.inputs],
        "outputs": [_tensor(tensor) for tensor in manifest.signature.outputs],
        "state": [_tensor(tensor) for tensor in manifest.signature.state],
        "order": _order(manifest.signature),
        "valid": _valid(manifest.signature.inputs),
        "levels": _levels_text(manifests),
        "platforms": [_platform(one) for one in manifests],
        "source_date_epoch": SOURCE_DATE_EPOCH,
        "labels": _labels(manifest.signature.outputs),
        **readme_context(manifests),
        "requirements": list(model.requirements),
        "runtime_minimum": RUNTIME_MINIMUM,
        "runtime_requirement": RUNTIME_REQUIREMENT,
    }


_ORDERS = {
    "model": "the model's own",
    "natural": "that of their names, as the model's files have none: numbers in names count as numbers",
    "sorted": "that of their names as plain text",
}


def _order(signature: Signature) -> str:
    """The rule that orders inputs and outputs; empty if there is one of each."""
    if max(len(signature.inputs), len(signature.outputs)) < 2:
        return ""
    return f"Calls take inputs and return outputs in this order, which is {_ORDERS[signature.ordered_by]}."


def _valid(inputs: Iterable[Tensor]) -> str:
    """The bounds of inputs and their special values, by name, as Python writes them."""
    values = {
        tensor.name: (
            [(bounds.low, bounds.high, bounds.columns) for bounds in tensor.valid],
            tensor.special,
        )
        for tensor in inputs
        if tensor.valid
    }
    return pformat(values, width=90, sort_dicts=False)


def _labels(outputs: Iterable[Tensor]) -> str:
    """The labels of outputs by name, as Python writes them."""
    labels = {tensor.name: tensor.labels for tensor in outputs if tensor.labels}
    return pformat(labels, width=90, sort_dicts=False)


def _platform(manifest: Manifest) -> dict[str, object]:
    return {
        "name": manifest.platform,
        "level_identifiers": [LEVELS[level].identifier for level in manifest.levels],
        "weights": manifest.weights,
    }


def _levels_text(manifests: Sequence[Manifest]) -> str:
    """`x86-64, x86-64-v3`; grouped by architecture if there are several."""
    levels = {PLATFORMS[m.platform].architecture: ", ".join(m.levels) for m in manifests}
    if len(levels) == 1:
        return next(iter(levels.values()))
    return "; ".join(f"{architecture}: {names}" for architecture, names in levels.items())


def _accuracy(truth: Truth) -> str:
    """The known errors, as the table that reports and pages show, with its notes."""
    lines = list(truth_lines(truth))
    notes = "".join(f"\n{escape(note)}\n" for note in notes_on(truth))
    return f"{table(COLUMNS, lines) if lines else ''}{notes}".strip()


def _tensor(tensor: Tensor) -> dict[str, object]:
    return {
        **tensor.model_dump(mode="json"),
        "c_type": tensor.c_type,
        "row_elements": tensor.row_elements,
        "row_bytes": tensor.row_bytes,
        "shape_text": shape_text(tensor.shape, tensor.leading_per_row, tensor.extents),
        "valid_text": tensor.valid_text,
    }
