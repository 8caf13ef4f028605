"""Which operations of a model can be compiled, as `cmsml_check_aot_compatibility` shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..engine.check_models import inspect
from ..engine.new_spec import locate, reading_of_unknown
from ..errors import SpecError, UsageError
from ..model.readings import reading_of
from ..sandbox.choose import Sandbox
from ..source import fetch as source
from ..spec import load_spec
from ..spec.find import SPEC_SUFFIXES
from ..store.store import Store
from ..util.words import suggest
from ..workers.pool import WorkerPool

_TRIVIAL = ("Placeholder", "NoOp")
"""Operations that compute nothing."""


@dataclass(frozen=True)
class Compatibility:
    """The findings about one signature of a model."""

    operations: Sequence[tuple[str, bool]]
    """The operations that it uses, sorted, and whether each can be compiled."""

    @property
    def incompatible(self) -> Sequence[str]:
        """Operations that cannot be compiled."""
        return [name for name, compiled in self.operations if not compiled]

    @property
    def verdict(self) -> str:
        """In one line.

        >>> Compatibility([("Add", True), ("StringJoin", False)]).verdict
        'cpu: not compatible, 1 incompatible ops: StringJoin'
        """
        if not self.incompatible:
            return "cpu: all ops compatible"
        names = ", ".join(self.incompatible)
        return f"cpu: not compatible, {len(self.incompatible)} incompatible ops: {names}"


def check_model(path: Path, key: str | None, store: Store, sandbox: Sandbox) -> Compatibility:
    """Reads a model and looks its operations up.

    Args:
        path: The model, or the configuration that names it.
        key: The signature; None for that of the configuration, else `serving_default`.
        store: Keeps what was found.
        sandbox: Where the model is read.

    Raises:
        SourceError: There is no such model.
        SpecError: It has no such signature, or the configuration has mistakes.
    """
    if path.suffix in SPEC_SUFFIXES:
        spec = load_spec(path)
        fetched = source.fetch(spec.origin, store)
        reading = reading_of(spec.origin.holding(fetched.file), spec.interface_order)
        key = key or spec.model.serving_key
    else:
        fetched, origin = locate(path, store)
        reading, key = reading_of_unknown(origin), key or "serving_default"
    with store.scratch() as scratch, WorkerPool(scratch, 1, sandbox=sandbox) as pool:
        inspection = inspect(path.name, fetched, reading, store, pool)
    if inspection.signature(key) is None:
        keys = [signature.key for signature in inspection.signatures]
        raise SpecError(f"--serving-key: the model has no signature {key!r}; {suggest(key, keys)}")
    used = [use for use in inspection.ops if key in {*use.signatures, *use.beside}]
    return Compatibility(
        [(use.op, use.support in ("compiled", "frozen")) for use in used if use.op not in _TRIVIAL]
    )


def check_table_format(name: str) -> None:
    """Refuses a format that tabulate does not have.

    Raises:
        UsageError: It has no such format.
    """
    from tabulate import tabulate_formats

    if name not in tabulate_formats:
        raise UsageError(
            f"--table-format: unknown format {name!r}; {suggest(name, tabulate_formats)}"
        )


def show_table(operations: Sequence[tuple[str, bool]], table_format: str) -> str:
    """The table of operations with a column for the one device."""
    from tabulate import tabulate

    rows = [(name, "yes" if compiled else "NO") for name, compiled in operations]
    return tabulate(rows, headers=("Operation", "cpu"), tablefmt=table_format)
