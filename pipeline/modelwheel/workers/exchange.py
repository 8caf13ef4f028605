"""The directories through which files go to a worker and come back; both ends distrust the other's.

A worker sees two directories of its own: `inputs`, which it cannot write, and `scratch`, the only one
that it can. Each job has one directory in either. The store, the caller's files and what other
workers do stay out of its sight.
"""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..errors import UnsupportedModelError
from ..util.files import copy_exactly
from ..util.names import UnsafePathError
from ..util.removal import remove_tree
from ..util.trees import open_file, open_tree
from .endings import WorkerError
from .jobs import Job


@dataclass(frozen=True)
class Staged:
    """A job whose files are where a worker sees them."""

    job: Job
    inputs: Path
    scratch: Path


class Exchange:
    """The directories of one worker.

    Args:
        directory: Created here, for this worker alone.
    """

    def __init__(self, directory: Path) -> None:
        self.inputs, self.scratch = directory / "inputs", directory / "scratch"
        for path in (self.inputs, self.scratch):
            path.mkdir(parents=True)

    def stage(self, job: Job, number: int) -> Staged:
        """Makes the inputs of a job visible; a missing one is for the job to report.

        Raises:
            UnsupportedModelError: A model has something else than regular files, or unsafe names.
        """
        inputs, scratch = self.inputs / str(number), self.scratch / str(number)
        inputs.mkdir()
        scratch.mkdir()
        seen = {name: inputs / name for name, _ in job.inputs}
        for name, path in job.inputs:
            if path.is_dir():
                _give_tree(path, seen[name])
            elif path.is_file():
                _give(path, seen[name])
        staged = job.model_copy(
            update={"inputs": job.inputs.model_copy(update=seen), "out": scratch}
        )
        return Staged(staged, inputs, scratch)

    def take(self, job: Job, staged: Staged, max_bytes: int | None) -> None:
        """Copies the outputs that the job declares, and nothing else, to where its client wants them.

        Raises:
            WorkerError: One is missing, too large or not a regular file.
            OSError: The disk is full.
        """
        for name in job.request.OUTPUTS:
            try:
                with open_file(staged.scratch, name) as source:
                    size = os.fstat(source.fileno()).st_size
                    if max_bytes is not None and size > max_bytes:
                        raise WorkerError(
                            f"the output {name} of the step has {size} bytes, more than the "
                            f"{max_bytes} that it may have"
                        )
                    with (job.out / name).open("xb") as target:
                        copy_exactly(source, target, size)
            except FileNotFoundError:
                raise WorkerError(f"internal error: {job.kind} did not write {name}") from None
            except (UnsafePathError, OSError, EOFError) as error:
                if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
                    raise  # not the output's fault
                raise WorkerError(
                    f"the output {name} of {job.kind} cannot be taken: {error}"
                ) from None

    def remove(self, number: int) -> None:
        """Removes the files of a job, whatever it left."""
        for parent in (self.inputs, self.scratch):
            path = parent / str(number)
            if path.is_symlink():
                path.unlink()
            remove_tree(path)


def _give_tree(source: Path, target: Path) -> None:
    target.mkdir()
    try:
        for name, _ in open_tree(source):
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            _give(source / name, path)
    except UnsafePathError as error:
        raise UnsupportedModelError(f"the model's files are refused: {error}") from None


def _give(source: Path, target: Path) -> None:
    """A hard link, because weights are large and there are many jobs; a copy on another file system."""
    with suppress(OSError, NotImplementedError):
        os.link(source, target, follow_symlinks=False)
        return
    shutil.copyfile(source, target)
