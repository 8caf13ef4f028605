"""Loads the model of a wheel without installing it."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import EnvironmentProblemError, UsageError, WheelError
from ..util.text import one_line
from ..wheelfile.wheel import Wheel as WheelFile
from ..wheelfile.wheel import open_wheel

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ..store.records import Record
    from ..store.store import Store

_FORMAT = "1"
"""Of what the store keeps of a wheel."""

_ONE_LOADS = threading.Lock()


class Model(Protocol):
    """A compiled model, as in an installed wheel. Its own class has the names of its inputs and outputs."""

    @property
    def inputs(self) -> tuple[Any, ...]:
        """Name, element type and shape of each input, in the order of a call."""

    @property
    def outputs(self) -> tuple[Any, ...]:
        """Name, element type and shape of each output."""

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """Compiled batch sizes, ascending."""

    @property
    def levels(self) -> tuple[str, ...]:
        """CPU levels that there is code for, lowest first."""

    @property
    def level(self) -> str:
        """The CPU level in use."""

    @property
    def version(self) -> str:
        """The version of the model."""

    def __call__(self, /, *args: ArrayLike, **kwargs: Any) -> Any:
        """Evaluates the model: arrays by position or name, with the dtypes and shapes of `inputs`.

        Returns:
            An array, or a dict of arrays by name if there are several outputs.

        Raises:
            TypeError: An input is missing, unknown, or has the wrong element type.
            ValueError: An input has the wrong shape.
        """

    def predict(self, inputs: Mapping[str, ArrayLike], *, out: Any = None) -> Any:
        """A call with inputs by name."""

    def bind(self, /, *args: NDArray[Any], **kwargs: Any) -> Any:
        """A call that reads and writes the same arrays each time."""


def load(
    wheel: str | os.PathLike[str],
    *,
    level: str | None = None,
    threads: int | None = 1,
    check_values: bool = False,
) -> Model:
    """The model of a wheel, without installing it.

    The wheel is unpacked once into the store, and imported under a private name: `sys.path` and installed packages
    stay as they are, and several versions of a model may be loaded side by side. As with `pip install`, code of the
    wheel runs in this process: load wheels that you trust.

    Args:
        wheel: A `.whl` file for this Python and platform, or a `modelwheel.Wheel`.
        level: The CPU level; by default the highest that this CPU supports.
        threads: The most threads that share one call; None for as many as there are CPUs.
        check_values: Whether calls raise ValueError for inputs that are not finite or not valid.

    Returns:
        The model: called with arrays of shape `(rows, ...)`, of the element types in `Model.inputs`.

    Raises:
        WheelError: The file is damaged, is not the wheel of a model, or is for another Python or platform.
        EnvironmentProblemError: Its package modelwheel-runtime is not installed.
        UsageError: The CPU level is unknown, or this CPU lacks it.
    """
    path = Path(wheel)
    if not path.is_file():
        raise WheelError(f"there is no wheel {one_line(path)}; build it, or correct the path")
    opened = open_wheel(path)
    module = _import(opened)
    try:
        model: Model = module.Model(level, threads=threads, check_values=check_values)
    except ValueError as error:
        raise UsageError(one_line(error)) from error
    return model


def _import(wheel: WheelFile) -> ModuleType:
    _require_fit(wheel)
    digest = hashlib.sha256(wheel.path.read_bytes()).hexdigest()
    package = wheel.manifest.model.module
    # Libraries are found by the first part of the name; a package of that name need not be there.
    name = f"{package}.loaded_{digest[:16]}"
    with _ONE_LOADS:
        if name not in sys.modules:
            directory = _unpack(wheel, digest, package)
            sys.modules[name] = _execute(name, directory / package, wheel)
        return sys.modules[name]


def _require_fit(wheel: WheelFile) -> None:
    from packaging.tags import sys_tags

    if wheel.tags.isdisjoint(sys_tags()):
        python = f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"
        raise WheelError(
            f"{wheel.name} is not for this machine ({python}, {sys.platform}); build or download the one that is"
        )


def _execute(name: str, directory: Path, wheel: WheelFile) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        name, directory / "__init__.py", submodule_search_locations=[str(directory)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # its parts import each other by this name
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        for part in [part for part in sys.modules if part == name or part.startswith(f"{name}.")]:
            del sys.modules[part]
        if wheel.manifest.model.bindings == "shared":
            raise EnvironmentProblemError(one_line(error)) from error
        raise WheelError(f"{wheel.name} cannot be loaded: {one_line(error)}") from error
    return module


def _unpack(wheel: WheelFile, digest: str, package: str) -> Path:
    """The directory with the wheel's package; it stays until this process ends."""
    from ..store.keys import action_key

    store = _store()
    key = action_key("unpacked", sha256=digest, format=_FORMAT)
    record = store.lookup(key) or _publish(wheel, store, key, package)
    directory = store.keep_directory()
    store.materialize(record, directory, link=True)
    return directory


_stores: list[Store] = []


def _store() -> Store:
    """The store of all loads of this process: its directories are removed when the process ends."""
    if not _stores:
        from .settings import open_store

        _stores.append(open_store())
    return _stores[0]


def _publish(wheel: WheelFile, store: Store, key: str, package: str) -> Record:
    with store.scratch() as out:
        for name, file in wheel.open_members():
            if name.startswith(f"{package}/"):
                target = out / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.read())
        _name_library(out / package, key)
        return store.publish(key, out, {"step": "unpacked"})


def _name_library(package: Path, key: str) -> None:
    """Gives the model's library a name of its own, by which the extension finds it.

    The loader of Linux takes a library for another one that is loaded under the same name: that of another version.
    """
    library = package / "lib" / f"lib{package.name}.so"
    extensions = list(package.glob("_core*.so"))
    if not library.is_file() or not extensions:  # other systems, and wheels with shared bindings
        return
    old = library.name.encode()
    # Of the same length, so that it fits into the place of the old one.
    new = b"lib" + key.encode()[: len(old) - 6].ljust(len(old) - 6, b"_") + b".so"
    pattern = re.compile(rb"(?<=\0)" + re.escape(old) + rb"(?=\0)")
    for file in (library, *extensions):
        content, replaced = pattern.subn(new, file.read_bytes())
        if not replaced:
            raise WheelError(f"{file.name} does not name {library.name}; build the wheel again")
        file.write_bytes(content)
    # The model's own functions look for it by the old name.
    library.with_name(new.decode()).write_bytes(library.read_bytes())
