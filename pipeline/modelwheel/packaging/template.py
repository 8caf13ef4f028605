"""Renders `wheel_template/`, from whose overlays every project is put together.

An overlay is a directory of files with their places in a project. A project is the union of some overlays:

| overlay | files of |
|---|---|
| `common/` | every project |
| `wheel/` | every project that wheels are built from |
| `bindings/` | every project with a Python extension: the pybind11 code |
| `model/` | every model: the library and its headers |
| `package/` | the Python package of every model |
| `extension/` | models with an extension of their own (`package.bindings: extension`) |
| `shared/` | models that use the extension of modelwheel-runtime (`package.bindings: shared`) |
| `cmssw/` | models for CMSSW (`package.interfaces`) |
| `pybind11/` | models that pybind11 modules of others use (`package.interfaces`) |
| `runtime/` | the package modelwheel-runtime |
| `objects/` | the object files that extensions have in common |
| `kernels/` | the object files of kernels, which are the same for all models |
| `bundle/` | bundles of a model, which have no Python |
| `bazel/` | the repository of Bazel's rules, which compile a model in the build |
| `profile/` | the program that times each step of a model |

No two overlays of one project have a file in the same place.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeAlias

from ..store.keys import action_key
from ..util.files import digest_file
from ..util.remembering import Remembered, mark_of
from .facts import template_facts
from .languages import FILTERS

if TYPE_CHECKING:
    import jinja2

SOURCE_DATE_EPOCH = 315532800
"""1980-01-01, the earliest date in a zip file: the bytes of a wheel do not depend on the time of the build."""

MODEL_OVERLAYS: Mapping[str, tuple[str, ...]] = {
    "extension": ("common", "wheel", "bindings", "model", "package", "extension"),
    "shared": ("common", "wheel", "model", "package", "shared"),
}
"""The overlays of a model's project, for each value of `package.bindings`."""

INTERFACE_OVERLAYS: Mapping[str, tuple[str, ...]] = {
    "cmssw": ("cmssw",),
    "pybind11": ("pybind11",),
}
"""More overlays of a model's project, for values of `package.interfaces`; those of all others are always there."""

RUNTIME_OVERLAYS = ("common", "wheel", "bindings", "runtime")
"""The overlays of the package modelwheel-runtime."""

OBJECTS_OVERLAYS = ("common", "wheel", "bindings", "objects")
"""The overlays of what all extensions have in common."""

BUNDLE_OVERLAYS = ("common", "model", "bundle")
"""The overlays of a model's bundle."""

KERNELS_OVERLAYS = ("common", "model", "kernels")
"""The overlays with the kernels that are the same for all models; `kernels_template` has what they are made from."""

BAZEL_OVERLAYS = ("bazel",)
"""The overlays of the repository with Bazel's rules."""

PROFILE_OVERLAYS = ("common", "bindings", "model", "profile")
"""The overlays of the program that times each step of a model; of the bindings it has the pool of threads."""

Template: TypeAlias = Mapping[PurePosixPath, Path]
"""The unrendered files of a project, by their places in it."""


@cache
def template_directory() -> Path:
    """`wheel_template/`: in the installed package, or in the checkout."""
    package = Path(__file__).parents[1]
    installed = package / "wheel_template"
    return installed if installed.is_dir() else package.parents[1] / "wheel_template"


def model_template(bindings: str, interfaces: Collection[str]) -> Template:
    """The template of a model's project, for the values of `package.bindings` and `package.interfaces`."""
    return combine_overlays((*MODEL_OVERLAYS[bindings], *_interface_overlays(interfaces)))


def bundle_template(interfaces: Collection[str]) -> Template:
    """The template of a model's bundle, for one value of `package.interfaces`: without those for Python."""
    native = [interface for interface in interfaces if interface != "pybind11"]
    return combine_overlays((*BUNDLE_OVERLAYS, *_interface_overlays(native)))


def kernels_template() -> Template:
    """The template of the project that compiles kernels: without what knows a model."""
    return _kernels_template(template_directory())


@cache
def _kernels_template(root: Path) -> Template:
    own = {place for place, _ in _listed(root / "kernels")}
    shared = {
        PurePosixPath("cmake", name)
        for name in ("kernels.cmake", "language.cmake", "levels.cmake.in")
    }
    directory = PurePosixPath("src/kernels")
    return {
        place: path
        for place, path in _combined(root, KERNELS_OVERLAYS).items()
        if place in own | shared or directory in place.parents
    }


def _interface_overlays(interfaces: Collection[str]) -> Iterator[str]:
    yield from (name for key in interfaces for name in INTERFACE_OVERLAYS.get(key, ()))


def combine_overlays(names: tuple[str, ...]) -> Template:
    """The files of several overlays, by their places in a project."""
    return _combined(template_directory(), names)


@cache
def _combined(root: Path, names: tuple[str, ...]) -> Template:
    return {place: path for name in names for place, path in _listed(root / name)}


def list_overlay(name: str) -> Sequence[tuple[PurePosixPath, Path]]:
    """The files of one overlay, each with its place in a project."""
    return _listed(template_directory() / name)


@cache
def _listed(root: Path) -> tuple[tuple[PurePosixPath, Path], ...]:
    # Once for each process: keys and what is rendered later then have the same files. Their contents may change.
    return tuple(
        (PurePosixPath(path.relative_to(root)), path)
        for path in sorted(root.rglob("*"))
        # Tests leave byte code in a checkout, which must not change keys or get into wheels.
        if path.is_file() and "__pycache__" not in path.parts
    )


def template_digest(template: Template) -> str:
    """A hash over all files of a template, and the facts in them; part of the keys of what is made from it."""
    return _digests.get(
        tuple(template.values()),
        lambda: (
            mark_of(map(str, template.values())),
            json.dumps(template_facts(), sort_keys=True),
            tuple(template),
        ),
        lambda: action_key("template", **_digested(template)),
    )


_digests: Remembered[str] = Remembered()


def describe_template(template: Template) -> dict[str, dict[str, Any]]:
    """The files that the hash of a template stands for, by that hash."""
    return {template_digest(template): _digested(template)}


def _digested(template: Template) -> dict[str, Any]:
    files = {str(place): digest_file(path).sha256 for place, path in template.items()}
    return {"files": files, "facts": template_facts()}


def render(template: Template, context: Mapping[str, object], project: Path) -> None:
    """Renders a template into a directory.

    Files `.in` are rendered with the values in `context`, files `.inc` are only included by these, and all
    others are copied.
    """
    environment = _environment(template)
    for place, path in template.items():
        if place.suffix != ".inc":
            _render_file(environment, path, place, context, project)


def _render_file(
    environment: jinja2.Environment,
    path: Path,
    place: PurePosixPath,
    context: Mapping[str, object],
    project: Path,
) -> None:
    for values in _expansions(str(place), context):
        target = project / _replace_placeholders(str(place), values)
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.suffix == ".in":
            text = environment.get_template(str(place)).render(values)
            target.with_suffix("").write_text(text, encoding="utf-8")
        else:
            shutil.copyfile(path, target)


def _expansions(name: str, context: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """The context itself, or one for each batch size or platform if the name has a placeholder for these.

    None for a header that the model does not have.
    """
    if "__cpp_header__" in name:
        if context["cpp_header"]:
            yield context
    elif "__batch__" in name:
        sizes = context["batch_sizes"]
        assert isinstance(sizes, list)
        for size in sizes:
            yield {**context, "batch": size}
    elif "__platform__" in name:
        platforms = context["platforms"]
        assert isinstance(platforms, list)
        for platform in platforms:
            yield {**context, "platform": platform["name"], **platform}
    else:
        yield context


def _replace_placeholders(name: str, values: Mapping[str, object]) -> str:
    for key in ("module", "name", "identifier", "batch", "platform", "cpp_header"):
        if key in values:
            name = name.replace(f"__{key}__", str(values[key]))
    return name


def _environment(template: Template) -> jinja2.Environment:
    import jinja2

    # The rendered files are C, CMake, TOML and Markdown, so every value is escaped by the filter of its language.
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(
            lambda place: template[PurePosixPath(place)].read_text("utf-8")
        ),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS)
    environment.globals.update(template_facts())
    return environment
