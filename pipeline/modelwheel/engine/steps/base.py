"""The base of every step: a pure function of its inputs, with a key, run by a worker or in this process."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ...packaging.template import Template, describe_template
from ...sandbox.choose import Sandbox
from ...store.keys import action_key
from ...store.records import Record
from ...store.store import Store
from ...workers.jobs import Job

Records = Mapping[str, Record]
"""Results of finished steps, by the step's name."""


@dataclass(frozen=True)
class Workspace:
    """The directories and tools of a step while it runs."""

    store: Store
    model: Path
    """The model, read-only."""
    records: Records
    sandbox: Sandbox
    """Where a wheel runs."""
    take_environment: Callable[[], Path | None] = lambda: None
    """Returns the Python of an environment with nothing but NumPy, if one was made ahead; each once."""


class Step(abc.ABC):
    """One step of one spec. Its key is a hash of everything that its result depends on."""

    kind: ClassVar[str]
    vital: ClassVar[bool] = False
    """Whether no other step of the spec is worth starting after this one failed."""
    optional: ClassVar[bool] = False
    """Whether the build goes on as if it had never been planned after it failed: it only decides what else is built."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The step's name, unique in a build."""

    @property
    def lineage(self) -> str:
        """The name that the step shares with its earlier ones: without the parts that only one version of a model has.

        Steps that know no model have one lineage for all of them.
        """
        return self.name

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the steps whose results it uses."""
        return ()

    @property
    def waits_for(self) -> tuple[str, ...]:
        """Names of further steps that must succeed before it starts; its result does not depend on theirs."""
        return ()

    @abc.abstractmethod
    def key_inputs(self, store: Store, records: Records) -> Mapping[str, Any]:
        """Everything that its result depends on, as JSON values by name; `records` has the results of `needs`."""

    @property
    def template(self) -> Template | None:
        """The template whose hash is among its inputs, if one is."""
        return None

    def meanings(
        self,
        store: Store,  # noqa: ARG002
        records: Records,  # noqa: ARG002
        files: Callable[[], Mapping[str, str]],  # noqa: ARG002
    ) -> Mapping[str, Mapping[str, Any]]:
        """The meanings of some hashes among the inputs, by the hash, in the form of `key_inputs`.

        Args:
            store: The store.
            records: The results of `needs`.
            files: Returns the SHA-256 of each file of the model.
        """
        return {} if self.template is None else describe_template(self.template)

    def key(self, store: Store, records: Records) -> str:
        """The key of its result; `records` has the results of `needs`."""
        return action_key(self.kind, **self.key_inputs(store, records))


class JobStep(Step):
    """A step that a worker process runs."""

    @abc.abstractmethod
    def job(self, workspace: Workspace, out: Path) -> Job:
        """The job that writes the result into the empty directory `out`."""


class LocalStep(Step):
    """A step that runs in this process."""

    @abc.abstractmethod
    def run(self, workspace: Workspace, out: Path) -> None:
        """Writes the result into the empty directory `out`."""
