"""A model for CMSDIST: its `tfaot-model-NAME.spec`, the configuration that this names, and the line of the list of models.

The .spec ends in `## INCLUDE tfaot-compile`, which runs `cms_tfaot_compile` on `%{aot_config}`, in the unpacked
`%{aot_source}` if there is one.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from ..errors import SpecError, UsageError
from ..request import SMALLEST_BATCH
from ..spec import GitSource, Spec
from ..util.files import find_checkout, write_atomically
from .tool import default_tool_name

MODELS_FILE = "tfaot-models.file"
"""CMSDIST's list of models."""

_DATA_OWNER = "https://github.com/cms-data/"
"""Where CMSDATA's repositories are; each is a package `data-NAME` of CMSDIST."""

_DATA_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*(-[A-Za-z0-9]+)+")
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./+-]+")
"""A path that neither the shell nor RPM reads as anything else."""


@dataclass(frozen=True)
class Exported:
    """The files that were written, and the tasks that are left."""

    spec_file: Path
    config: Path | None
    """The configuration to put into the repository; None if the spec is it already."""
    config_place: str
    """Where the repository must have it."""
    repository: str
    line: str
    """Of the list of models."""
    listed: bool
    """Whether the list of models has the line now: it was in the same directory."""


def export_cmsdist(
    spec: Spec, out: Path, *, data: str | None, aot_config: str | None, branch: str
) -> Exported:
    """Writes what CMSDIST needs to build a model.

    Args:
        spec: The model.
        out: Where to write: any directory, or a checkout of CMSDIST.
        data: The repository of CMSDATA that has the model; None if the spec names it.
        aot_config: Where that repository has the configuration; None for beside the model.
        branch: The branch that has the commit of the spec; CMSDIST's addresses name one.

    Raises:
        SpecError: CMSDIST cannot fetch what the spec names.
        UsageError: A value cannot be written into a .spec.
    """
    origin = spec.source
    repository = _data_repository(spec, data)
    if repository is None and not isinstance(origin, GitSource):
        raise SpecError(
            f"{spec.path}: the model comes from {spec.origin.title}, which CMSDIST cannot fetch; name the repository of CMSDATA "
            "that has it: --data SUBSYSTEM-PACKAGE"
        )
    if "!" in spec.model.version:
        raise SpecError(
            f"{spec.path}: model.version: RPM has no {spec.model.version!r}; remove the epoch"
        )
    writes_config = isinstance(origin, GitSource)
    place = _plain("--aot-config", aot_config or _place_of_config(spec))
    name = default_tool_name(spec)
    text = _spec_text(spec, name, repository, place, _plain("--branch", branch))
    out.mkdir(parents=True, exist_ok=True)
    spec_file = out / f"{name}.spec"
    write_atomically(spec_file, text.encode())
    config = None
    if writes_config:
        config = out / f"{name}.aot_config.yaml"
        write_atomically(config, aot_config_text(spec, place).encode())
    line = f"Requires: {name}"
    return Exported(
        spec_file,
        config,
        place,
        repository or (origin.git if isinstance(origin, GitSource) else ""),
        line,
        _list_model(out / MODELS_FILE, line),
    )


def _data_repository(spec: Spec, data: str | None) -> str | None:
    """The name of the repository of CMSDATA that has the model; None if none has."""
    if data is not None:
        name = data.removeprefix("data-")
        if not _DATA_NAME.fullmatch(name):
            raise UsageError(
                f"--data: {data!r} is not a repository of CMSDATA; write it like RecoTauTag-TrainingFiles"
            )
        return name
    if isinstance(spec.source, GitSource) and spec.source.git.startswith(_DATA_OWNER):
        return spec.source.git.removeprefix(_DATA_OWNER).rstrip("/").removesuffix(".git")
    return None


def _place_of_config(spec: Spec) -> str:
    """The configuration beside the model; the spec itself if it is in a checkout of the repository."""
    if isinstance(spec.source, GitSource):
        path = PurePosixPath(spec.source.path)
        name = f"{path.stem}_aot_config.yaml" if spec.source.is_file else "aot_config.yaml"
        return str(path.parent / name)
    checkout = find_checkout(spec.directory)
    if checkout is None:
        raise SpecError(
            f"{spec.path}: it is not in a checkout of a repository; say where the repository has it: --aot-config PATH"
        )
    return (spec.directory / spec.path.name).relative_to(checkout).as_posix()


def _plain(option: str, text: str) -> str:
    if not _PLAIN_PATH.fullmatch(text) or text.startswith(("/", "-")):
        raise UsageError(
            f"{option}: {text!r} must be relative, of letters, digits and . _ / + - alone: it is written into a .spec"
        )
    return posixpath.normpath(text)


def _spec_text(spec: Spec, name: str, repository: str | None, place: str, branch: str) -> str:
    head = f"### RPM external {name} {spec.model.version}\n"
    tail = "\n## INCLUDE tfaot-compile\n"
    if repository is not None:
        # data-build-github.file of CMSDIST puts a repository there, and sets that variable.
        variable = f"DATA_{repository.upper().replace('-', '_')}_ROOT"
        root = f"${variable}/{repository.replace('-', '/')}/data"
        return (
            f"{head}\nBuildRequires: data-{repository}\n\n%define aot_config {root}/{place}\n{tail}"
        )
    assert isinstance(spec.source, GitSource)
    address = spec.source.git
    if not address.startswith("https://") or "%" in address or "?" in address:
        raise SpecError(
            f"{spec.path}: source.git: CMSDIST fetches plain https:// addresses alone; use one, or name the "
            "repository of CMSDATA that has the model: --data SUBSYSTEM-PACKAGE"
        )
    return (
        f"{head}\n"
        f"%define tag {spec.source.commit}\n"
        f"%define branch {branch}\n"
        "%define aot_source %{n}-%{realversion}\n"
        f"Source: git+{address}?obj=%{{branch}}/%{{tag}}&export=%{{aot_source}}"
        "&output=/%{n}-%{realversion}-%{tag}.tgz\n"
        f"\n%define aot_config {place}\n{tail}"
    )


def aot_config_text(spec: Spec, place: str) -> str:
    """The configuration of a model for its own repository: `source` names what is beside it there.

    It is one of CMS's unless the model is not a SavedModel, or the spec says more than those can.

    Args:
        spec: The model, from a commit of that repository.
        place: Where the repository has the configuration.
    """
    assert isinstance(spec.source, GitSource)
    fields: dict[str, Any] = spec.model_dump(mode="json", exclude_unset=True)
    source = fields.pop("source")
    # A name of C++, and the sizes: cms-tfaot needs both in the file.
    fields["model"]["name"] = spec.identifier
    fields.setdefault("compilation", {}).setdefault("batch_sizes", list(SMALLEST_BATCH))
    package = fields.pop("package", {})  # all else there is about wheels
    computing = {key: package[key] for key in ("weights_storage", "compute") if key in package}
    if computing:
        fields["package"] = computing
    directory = posixpath.dirname(place) or "."
    options = {key: source[key] for key in source if key not in ("git", "commit", "sha256", "path")}
    if options or spec.source.is_file or spec.verify.samples or spec.package.compute:
        for key in {"feeds", "fetches"} & options.keys():
            options[key] = dict(options[key])
        root = posixpath.relpath(".", directory)
        fields["source"] = {"directory": root, "path": spec.source.path, **options}
    else:
        fields["model"]["saved_model"] = f"./{posixpath.relpath(spec.source.path, directory)}"
    return yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=100)


def _list_model(path: Path, line: str) -> bool:
    """Adds the line to CMSDIST's list of models, if that is there."""
    if not path.is_file():
        return False
    lines = path.read_text(encoding="utf-8").splitlines()
    if line not in lines:
        # The last condition of the list leaves models out where there is no TensorFlow to compile them.
        end = max((n for n, text in enumerate(lines) if text == "%endif"), default=len(lines))
        lines.insert(end, line)
        write_atomically(path, ("\n".join(lines) + "\n").encode())
    return True
