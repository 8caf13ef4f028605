"""A preload of `dask worker` that declares another TensorFlow, for tests of what a build refuses."""

from __future__ import annotations

from distributed import Worker

from modelwheel.engine.cluster.declaration import NAME, declare


def dask_setup(worker: Worker) -> None:
    """Declares it."""
    content = declare().model_dump(mode="json") | {"tensorflow": "2.20.0", "host": "elsewhere"}
    worker.startup_information[NAME] = lambda _: content
