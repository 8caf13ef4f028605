"""The step that compiles the kernels which are the same for all models."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from ...packaging.kernels import (
    KIND,
    CompiledKernel,
    build_kernels,
    kernel_inputs,
    kernel_keys,
    kernels_list,
    kernels_settings,
)
from ...packaging.template import describe_template, kernels_template
from ...platforms import host_platform
from ...store.keys import action_key
from ...store.records import Record
from ...store.store import Store
from .base import LocalStep, Records, Workspace
from .model import ModelStep

_COMPILING = Lock()
"""Models of one build that need the same kernels compile them once."""


@dataclass(frozen=True)
class KernelsStep(ModelStep, LocalStep):
    """Brings the object files of a model's kernels for this machine together, and compiles those that are missing.

    Each has a record of its own in the store, which every model that needs it uses.
    """

    kind = "kernels"

    @property
    def lineage(self) -> str:
        # Another model may have had the same kernels compiled.
        return self.kind

    @property
    def needs(self) -> tuple[str, ...]:
        return (f"{self.request.name}/project",)

    def key_inputs(self, store: Store, records: Records) -> Mapping[str, Any]:
        keys = kernel_keys(self._listed(store, records))
        return {"kernels": {kernel.name: key for kernel, key in keys.items()}}

    def meanings(
        self,
        store: Store,
        records: Records,
        files: Callable[[], Mapping[str, str]],  # noqa: ARG002
    ) -> Mapping[str, Mapping[str, Any]]:
        return {
            **describe_template(kernels_template()),
            **{
                action_key(KIND, **inputs): inputs
                for inputs in kernel_inputs(self._listed(store, records)).values()
            },
        }

    def _listed(self, store: Store, records: Records) -> tuple[CompiledKernel, ...]:
        """The kernels that the project's code calls, for each level."""
        here = host_platform()
        listed = store.read_bytes(records[self.needs[0]], kernels_list(here.name)).decode()
        return tuple(
            CompiledKernel(level.identifier, kernel)
            for level in self.request.levels_of(here)
            for kernel in listed.split()
        )

    def run(self, workspace: Workspace, out: Path) -> None:
        store = workspace.store
        keys = kernel_keys(self._listed(store, workspace.records))
        with _COMPILING:
            records = {kernel: store.lookup(key) for kernel, key in keys.items()}
            missing = [kernel for kernel, record in records.items() if record is None]
            records |= _compile(missing, keys, store)
        for record in records.values():
            assert record is not None
            store.materialize(record, out)


def _compile(
    kernels: Collection[CompiledKernel], keys: Mapping[CompiledKernel, str], store: Store
) -> dict[CompiledKernel, Record]:
    """Compiles kernels and keeps each in the store.

    Two builds that need the same at once both compile it, to the same bytes.
    """
    with store.scratch() as scratch:
        build_kernels(kernels, scratch)
        return {
            kernel: store.publish(
                keys[kernel],
                scratch / kernel.name,
                {"step": kernel.name, "kind": KIND, "inputs": inputs},
            )
            for kernel, inputs in kernel_inputs(kernels).items()
        }


def linked_kernels(step: ModelStep, workspace: Workspace, out: Path) -> Mapping[str, str]:
    """Settings with which a build backend links the result of `KernelsStep`."""
    directory = out.with_name(f"{out.name}-kernels")
    record = workspace.records[f"{step.request.name}/{KernelsStep.kind}"]
    workspace.store.materialize(record, directory, link=True)
    return kernels_settings(directory)
