"""A model whose inputs and outputs have other names or another order than in its files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from ...model.inspection import SignatureInfo, TensorInfo
from ...model.renames import arrange, rename
from ...spec.interface import InterfaceOrder

if TYPE_CHECKING:
    from .base import Arrays, LoadedModel, SignatureGraph, StaticShapes

_T = TypeVar("_T")


def renamed(loaded: LoadedModel, names: Mapping[str, str], order: InterfaceOrder) -> LoadedModel:
    """The model with new names and this order; the model itself if it has them already."""
    return RenamedModel(loaded, names, order) if names or order != "model" else loaded


@dataclass(frozen=True)
class RenamedModel:
    """A loaded model with new names and an order of the spec's."""

    loaded: LoadedModel
    names: Mapping[str, str]
    """By those in the model."""
    order: InterfaceOrder = "model"

    @property
    def info(self) -> SignatureInfo:
        """See `LoadedModel`."""
        return rename(arrange(self.loaded.info, self.order), self.names)

    @property
    def evaluator(self) -> str:
        """See `LoadedModel`."""
        return self.loaded.evaluator

    def __call__(self, inputs: Arrays) -> Arrays:
        """See `LoadedModel`."""
        renamed = {
            tensor.name: inputs[self._new(tensor.name)] for tensor in self.loaded.info.inputs
        }
        return self._rename(self.loaded(renamed), self.info.outputs)

    def graph(self, shapes: StaticShapes, keep: Collection[str] = ()) -> SignatureGraph:
        """See `LoadedModel`."""
        inputs = self.loaded.info.inputs
        graph = self.loaded.graph({t.name: shapes[self._new(t.name)] for t in inputs}, keep)
        return replace(
            graph,
            feeds=self._rename(graph.feeds, self.info.inputs),
            fetches=self._rename(graph.fetches, self.info.outputs),
        )

    def _new(self, name: str) -> str:
        return self.names.get(name, name)

    def _rename(self, values: Mapping[str, _T], tensors: Sequence[TensorInfo]) -> dict[str, _T]:
        by_name = {self._new(name): value for name, value in values.items()}
        return {tensor.name: by_name[tensor.name] for tensor in tensors}
