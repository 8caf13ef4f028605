"""What `modelwheel inspect` shows to people: the model card, what the file holds, and where that is from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markdown import Markdown
from rich.markup import escape
from rich.table import Column, Table

from ...assembly.manifest import Manifest
from ...provenance.replay import Link
from ...signature import Tensor
from ...wheelfile.contents import Contents
from .tables import make_console

_STATES = {"ok": "[green]ok[/]", "broken": "[red]broken[/]", "unchecked": "[yellow]unchecked[/]"}


def print_contents(contents: Contents) -> None:
    """Model card, manifests, bills of materials and files."""
    console = make_console(stderr=False)
    _print_card(console, contents.metadata.description or "")
    for manifest in contents.manifests:
        console.print(_manifest_table(manifest))
    for name, sbom in contents.sboms.items():
        console.print(f"\n[bold]{_safe(name)}[/]")
        console.print(_sbom_table(sbom))
    console.print(f"\n[bold]{len(contents.files)} files[/]")
    console.print(_file_table(contents))


def print_links(links: Sequence[Link]) -> None:
    """Every link of the chain, and how many hold."""
    console = make_console(stderr=False)
    table = Table("link", "", Column("found", overflow="fold"))
    for link in links:
        table.add_row(link.name, _STATES[link.state], _safe(link.found))
    console.print(table)
    count = {state: sum(link.state == state for link in links) for state in _STATES}
    console.print(
        f"{count['ok']} links hold, {count['broken']} are broken, "
        f"{count['unchecked']} could not be checked here"
    )


def _print_card(console: Console, text: str) -> None:
    text = _plain(text)
    if console.is_terminal:
        console.print(Markdown(text, hyperlinks=False))
    else:
        console.print(text, markup=False)


def _manifest_table(manifest: Manifest) -> Table:
    table = Table(show_header=False, title=None)
    for name, value in _summary(manifest).items():
        table.add_row(name, _safe(value))
    return table


def _summary(manifest: Manifest) -> dict[str, str]:
    origin, sizes, compiler = manifest.provenance, manifest.sizes, manifest.compiler
    source = {key: value for key, value in origin.source.items() if key != "tree_sha256"}
    return {
        "model": f"{manifest.model.name} {manifest.model.version}, for {manifest.platform}",
        "licence": f"{manifest.model.license}; weights: {manifest.model.weights_license or 'not stated'}",
        "inputs": _tensors(manifest.signature.inputs),
        "outputs": _tensors(manifest.signature.outputs),
        "batch sizes": _batches(manifest),
        "CPU levels": ", ".join(manifest.levels),
        "size": f"weights {sizes.weights:,} + machine code {sizes.machine_code:,} bytes; "
        f"the SavedModel had {sizes.saved_model:,}",
        "tolerance": _tolerances(manifest),
        "compiled by": f"TensorFlow {compiler.tensorflow}, modelwheel {compiler.modelwheel}",
        "source": "\n".join(f"{key} {value}" for key, value in source.items()),
        "SavedModel": f"tree SHA-256 {origin.tree_sha256}, signature {origin.signature_key}",
        "spec": f"SHA-256 {origin.spec_sha256}",
    }


def _tensors(tensors: Iterable[Tensor]) -> str:
    return "\n".join(f"{t.name}: {t.dtype} {_shape(t)}" for t in tensors)


def _shape(tensor: Tensor) -> str:
    k = tensor.leading_per_row
    batch = "batch" if k == 1 else f"batch * {k}"
    return f"[{', '.join(batch if extent is None else str(extent) for extent in tensor.shape)}]"


def _batches(manifest: Manifest) -> str:
    batching = manifest.batching
    sizes = ", ".join(map(str, batching.sizes))
    if not manifest.signature.batched:
        return "the shapes are fixed"
    reason = batching.no_emulation_reason
    return (
        f"{sizes} ({f'no others: {reason}' if reason else f'others composed, {batching.strategy}'})"
    )


def _tolerances(manifest: Manifest) -> str:
    tolerances = manifest.verification.tolerances.items()
    return "\n".join(
        f"{name}: {t.atol:g} + {t.rtol:g} of the largest value" for name, t in tolerances
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
        table.add_row(*map(_safe, map(str, cells)))
    return table


def _file_table(contents: Contents) -> Table:
    table = Table(Column("file", overflow="fold"), Column("bytes", justify="right"), "SHA-256")
    for name, file in sorted(contents.files.items()):
        table.add_row(_safe(name), f"{file.size:,}", f"{file.sha256[:16]}...")
    return table


def _plain(text: str) -> str:
    """Text without what a terminal would obey: a file that is looked at is not to be trusted yet."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )


def _safe(text: str) -> str:
    return escape(_plain(text))
