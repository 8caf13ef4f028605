"""The output of `modelwheel inspect`: the model card, the contents of a file, and their origin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markdown import Markdown
from rich.table import Column, Table

from ...accuracy import COLUMNS, Truth, notes_on, truth_lines
from ...assembly.manifest import Manifest
from ...model.fusions.registry import Replaced
from ...model.quantization import Quantization
from ...provenance.replay import Link
from ...signature import Tensor
from ...util.text import one_line, safe_lines
from ...util.words import count, shape_text, size_text
from ...wheelfile.contents import Contents
from .console import OUT, plain, plain_lines

_STATES = {"ok": "[green]ok[/]", "broken": "[red]broken[/]", "unchecked": "[yellow]unchecked[/]"}


def print_contents(contents: Contents) -> None:
    """Manifests, bills of materials and files, then the text that an index shows."""
    for manifest in contents.manifests:
        OUT.print(_manifest_table(manifest))
        _print_truth(manifest.verification.truth)
    for name, sbom in contents.sboms.items():
        OUT.print(f"\n[bold]{plain(name)}[/]")
        OUT.print(_sbom_table(sbom))
    OUT.print(f"\n[bold]{count(len(contents.files), 'file')}[/]")
    OUT.print(_file_table(contents))
    if description := contents.metadata.description:
        OUT.print("\n[bold]README[/]")
        _print_card(OUT, description)


def print_links(links: Sequence[Link]) -> None:
    """Every link of the chain from the file to the commit of the model, and how many are verified."""
    table = Table("link", "", Column("found", overflow="fold"))
    for link in links:
        table.add_row(link.name, _STATES[link.state], plain(link.found))
    OUT.print(table)
    numbers = {state: sum(link.state == state for link in links) for state in _STATES}
    OUT.print(
        f"{numbers['ok']} links verified, {numbers['broken']} broken, "
        f"{numbers['unchecked']} could not be checked here"
    )


def _print_card(console: Console, text: str) -> None:
    text = safe_lines(text)
    if console.is_terminal:
        # A hyperlink could hide another address behind its text, and the file may be anybody's.
        console.print(Markdown(text, hyperlinks=False))
    else:
        console.print(text, markup=False)


def _manifest_table(manifest: Manifest) -> Table:
    table = Table(show_header=False, title=None)
    for name, value in _summary(manifest).items():
        table.add_row(name, plain_lines(value))
    return table


def _print_truth(truth: Truth) -> None:
    """The errors of the reference itself."""
    table = Table(*COLUMNS)
    for cells in truth_lines(truth):
        table.add_row(*map(plain, cells))
    if table.rows:
        OUT.print(table)
    for note in notes_on(truth):
        OUT.print(plain(note))


def _summary(manifest: Manifest) -> dict[str, str]:
    origin, sizes, compiler = manifest.provenance, manifest.sizes, manifest.compiler
    source = {key: value for key, value in origin.source.items() if key != "tree_sha256"}
    return {
        "model": f"{manifest.model.name} {manifest.model.version}, for {manifest.platform}",
        "licence": f"{manifest.model.license}; weights: {manifest.model.weights_license or 'not stated'}",
        "inputs": _tensors(manifest.signature.inputs),
        "outputs": _tensors(manifest.signature.outputs),
        "batch sizes": _batches(manifest),
        **_lengths(manifest),
        "CPU levels": ", ".join(manifest.levels),
        "size": f"weights {size_text(sizes.weights)} + machine code {size_text(sizes.machine_code)}; "
        f"the model has {size_text(sizes.saved_model)}",
        **_storage(manifest),
        "reference": f"computed by {one_line(manifest.verification.evaluator)}",
        "tolerance": _tolerances(manifest),
        "compiled by": f"TensorFlow {compiler.tensorflow}, modelwheel {compiler.modelwheel}",
        **_fusions(compiler.fusions),
        **_quantization(compiler.quantization),
        "source": "\n".join(one_line(f"{key} {value}") for key, value in source.items()),
        "model files": f"tree SHA-256 {origin.tree_sha256}, signature {origin.signature_key}",
        "spec": f"SHA-256 {origin.spec_sha256}",
    }


def _storage(manifest: Manifest) -> dict[str, str]:
    expanded = manifest.sizes.expanded_weights
    if expanded is None:
        return {}
    return {
        "weights": f"stored as {manifest.model.weights_storage}, {size_text(expanded)} in memory"
    }


def _fusions(fusions: Sequence[Replaced]) -> dict[str, str]:
    shown = (
        one_line(f"{fusion.name}: {count(fusion.calls, 'call')}, by {fusion.provider}")
        for fusion in fusions
    )
    return {"replaced": "\n".join(shown)} if fusions else {}


def _quantization(found: Quantization | None) -> dict[str, str]:
    if found is None:
        return {}
    layers = count(len(found.layers), "layer")
    left = f", {len(found.left)} left in float32" if found.left else ""
    errors = (f"{one_line(name)}: error {error:g}" for name, error in found.errors.items())
    changed = f"{found.changed_decisions:g} of the decisions of {count(found.rows, 'row')} changed"
    return {found.type: "\n".join([f"{layers}{left}", changed, *errors])}


def _tensors(tensors: Iterable[Tensor]) -> str:
    return "\n".join(
        f"{one_line(t.name)}: {t.dtype} {shape_text(t.shape, t.leading_per_row, t.extents)}"
        for t in tensors
    )


def _batches(manifest: Manifest) -> str:
    batching = manifest.batching
    sizes = ", ".join(map(str, batching.sizes))
    if not manifest.signature.batched:
        return "the shapes are fixed"
    reason = batching.no_emulation_reason
    return f"{sizes} ({f'no others: {reason}' if reason else f'others are split into these, {batching.strategy}'})"


def _lengths(manifest: Manifest) -> dict[str, str]:
    lengths = ", ".join(map(str, manifest.signature.lengths))
    return {"lengths": f"{lengths} (inputs of others are padded to the next)"} if lengths else {}


def _tolerances(manifest: Manifest) -> str:
    tolerances = manifest.verification.tolerances.items()
    return "\n".join(
        f"{one_line(name)}: {t.atol:g} + {t.rtol:g} of the largest value" for name, t in tolerances
    )


def _sbom_table(sbom: Mapping[str, Any]) -> Table:
    table = Table("component", "version", "type", "licence", Column("", overflow="fold"))
    for component in sbom.get("components", ()):
        licenses = [entry.get("expression", "") for entry in component.get("licenses", ())]
        cells = (
            component.get("name", ""),
            component.get("version", ""),
            component.get("type", ""),
            ", ".join(licenses),
            component.get("description", ""),
        )
        table.add_row(*map(plain, cells))
    return table


def _file_table(contents: Contents) -> Table:
    table = Table(Column("file", overflow="fold"), Column("bytes", justify="right"), "SHA-256")
    for name, file in sorted(contents.files.items()):
        table.add_row(plain(name), f"{file.size:,}", f"{file.sha256[:16]}...")
    return table
