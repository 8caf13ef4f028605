"""From manifests and their files to a project that any PEP 517 frontend can build, and to a wheel.

The project is `wheel_template/` with its `.in` files rendered, plus what the manifests name: machine
code of one or several platforms, constants, generated C++ and the reference sample. Building it needs
a C++ compiler, but neither TensorFlow nor this package.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal, TypeAlias

from ..assembly.manifest import Manifest
from ..errors import WheelError
from ..levels import LEVELS
from ..platforms import PLATFORMS
from ..signature import Tensor
from ..store.store import action_key
from ..util.files import digest_file
from ..util.process import ProcessError, run
from ..versions import RUNTIME

if TYPE_CHECKING:
    import jinja2

SOURCE_DATE_EPOCH = 315532800
"""1980-01-01, the earliest date that a zip file can hold: nothing in a wheel depends on when it is built."""

MANIFEST_FILE = "manifest.json"

_SAID_LINES = 30

_STEERING = re.compile(r"(C|CXX|CPP|LD|ASM)FLAGS|SKBUILD_\w+|CMAKE_(?!BUILD_PARALLEL_LEVEL$)\w+")
"""Variables that would change what is built; only CC and CXX, which are part of the key, may."""

_PARTS = {
    "cmake/extension.cmake": "extension",
    "cmake/model_extension.cmake": "extension",
    "python/__module__/_core.py": "shared",
    "python/__module__/_core.pyi.in": "extension",
    "runtime": RUNTIME,
    "src/bindings": "extension",
    "src/bindings.cpp": "extension",
}
"""What in `wheel_template/` is not for every model, but for one value of `package.bindings` or for the runtime."""

Template: TypeAlias = Mapping[PurePosixPath, Path]
"""Files by their place in a project, which is to be rendered as they are."""

_LIBRARY = re.compile(r"/lib/libmodel_\w+\.(so|dylib)$|/model_\w+\.dll$")


def template_directory() -> Path:
    """`wheel_template/`, as installed beside this module or as it lies in a checkout."""
    installed = Path(__file__).parents[1] / "wheel_template"
    return installed if installed.is_dir() else Path(__file__).parents[3] / "wheel_template"


def model_template(bindings: str) -> Template:
    """The files that a model's project is made from, for one value of `package.bindings`."""
    return {
        name: path
        for name, path in list_template(template_directory())
        if all(of == bindings for part, of in _PARTS.items() if name.is_relative_to(part))
    }


def list_template(root: Path) -> Iterator[tuple[PurePosixPath, Path]]:
    """All files below a directory of the template, by their names relative to it."""
    for path in sorted(root.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield PurePosixPath(path.relative_to(root)), path


def template_digest(template: Template) -> str:
    """A hash over all files of a template; part of the keys of what is made from it."""
    files = {str(name): digest_file(path).sha256 for name, path in template.items()}
    return action_key("template", files=files)


def render_project(project: Path) -> None:
    """Renders the template around the files of a model, into the same directory.

    Args:
        project: A directory with a `manifest.json` for each platform and the files that they list.

    Raises:
        WheelError: A file is missing or is not what the manifest says.
    """
    manifests = load_manifests(project)
    for manifest in manifests:
        _require_files(manifest, project)
    render(model_template(manifests[0].model.bindings), _context(manifests), project)


def render(template: Template, context: Mapping[str, object], project: Path) -> None:
    """Renders a template into a directory.

    Files `.in` are rendered with the values in `context`; `.inc` are parts of these and no files of
    their own; others are copied as they are.
    """
    for name, path in template.items():
        if name.suffix != ".inc":
            _render_file(path, name, context, project)


def load_manifests(project: Path) -> list[Manifest]:
    """The manifests of all platforms of a project, in the order of their names.

    Raises:
        WheelError: There is none, or one cannot be read.
    """
    paths = sorted(project.glob(f"platforms/*/{MANIFEST_FILE}"))
    if not paths:
        raise WheelError(
            f"{project} has no platforms/*/{MANIFEST_FILE}; name a directory that "
            "`modelwheel compile` made"
        )
    return [Manifest.load(path) for path in paths]


def _require_files(manifest: Manifest, project: Path) -> None:
    for file in manifest.files:
        path = project / file.path
        if not path.is_file() or digest_file(path).sha256 != file.sha256:
            raise WheelError(
                f"{path} is missing or is not the file that {MANIFEST_FILE} names; "
                "build the model again"
            )


def build_environment(bindings: str = "extension") -> dict[str, str]:
    """What a wheel depends on besides its project: the compiler, the build tools, Python if it has an extension."""
    tools = {name: version(name) for name in ("cmake", "ninja", "scikit-build-core")}
    if bindings == "extension":
        tools["python"] = sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag
        tools["pybind11"] = version("pybind11")
    return {
        "platform": sysconfig.get_platform(),
        "cc": _compiler_version("CC", "cc"),
        "cxx": _compiler_version("CXX", "c++"),
        **tools,
    }


def _compiler_version(variable: str, default: str) -> str:
    command = shlex.split(os.environ.get(variable) or default)
    return run([*command, "--version"]).text.partition("\n")[0]


def _render_file(
    path: Path, name: PurePosixPath, context: Mapping[str, object], project: Path
) -> None:
    for values in _expansions(str(name), context):
        target = project / _replace_placeholders(str(name), values)
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.suffix == ".in":
            text = _environment().from_string(path.read_text(encoding="utf-8")).render(values)
            target.with_suffix("").write_text(text, encoding="utf-8")
        else:
            shutil.copyfile(path, target)


def _expansions(name: str, context: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """The context itself, or one for each batch size or platform where the name asks for that."""
    if "__batch__" in name:
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
    for key in ("module", "name", "identifier", "batch", "platform"):
        if key in values:
            name = name.replace(f"__{key}__", str(values[key]))
    return name


def _environment() -> jinja2.Environment:
    import jinja2

    # What is rendered is C, CMake, TOML, Markdown: each value is escaped by the filter of its language.
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template_directory()),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(_FILTERS)
    return environment


def _quote_toml(text: str) -> str:
    """A TOML basic string (also valid JSON)."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in escaped) + '"'


def _one_comment_line(text: str) -> str:
    """Text that stays inside a C or C++ comment: no line end, no comment end, no trigraph."""
    return " ".join(text.split()).replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?")


_FILTERS: dict[str, Callable[[str], str]] = {"toml": _quote_toml, "comment": _one_comment_line}


def _context(manifests: Sequence[Manifest]) -> dict[str, object]:
    manifest = manifests[0]  # what they say of the model is the same
    model = manifest.model
    return {
        **model.model_dump(mode="json"),
        "license": model.whole_license,
        "code_license": model.license,
        "batch_sizes": list(manifest.batching.sizes),
        "batched": manifest.signature.batched,
        "no_emulation_reason": manifest.batching.no_emulation_reason,
        "inputs": [_tensor(tensor) for tensor in manifest.signature.inputs],
        "outputs": [_tensor(tensor) for tensor in manifest.signature.outputs],
        "levels": _levels_text(manifests),
        "platforms": [_platform(one) for one in manifests],
        "source_date_epoch": SOURCE_DATE_EPOCH,
        "requirements": list(model.requirements),
    }


def _platform(manifest: Manifest) -> dict[str, object]:
    return {
        "name": manifest.platform,
        "level_identifiers": [LEVELS[level].identifier for level in manifest.levels],
        "weights": manifest.weights,
    }


def _levels_text(manifests: Sequence[Manifest]) -> str:
    """`x86-64, x86-64-v3`; by architecture where there are several."""
    levels = {PLATFORMS[m.platform].architecture: ", ".join(m.levels) for m in manifests}
    if len(levels) == 1:
        return next(iter(levels.values()))
    return "; ".join(f"{architecture}: {names}" for architecture, names in levels.items())


def _tensor(tensor: Tensor) -> dict[str, object]:
    return {
        **tensor.model_dump(mode="json"),
        "c_type": tensor.c_type,
        "row_elements": tensor.row_elements,
        "row_bytes": tensor.row_bytes,
        "shape_text": _shape_text(tensor),
    }


def _shape_text(tensor: Tensor) -> str:
    """`[batch, 8, 8]`; `[batch * 3, 2]` where every row gives three."""
    k = tensor.leading_per_row
    batch = "batch" if k == 1 else f"batch * {k}"
    return f"[{', '.join(batch if e is None else str(e) for e in tensor.shape)}]"


def build_wheel(project: Path, out: Path) -> Path:
    """Builds the wheel of a rendered project with the tools of this environment.

    Args:
        project: What `render_project` wrote.
        out: An existing directory for the wheel.

    Raises:
        WheelError: The compiler or the build backend failed; the message ends with what it said.
    """
    return build_distribution("wheel", project, out)


def build_distribution(
    kind: Literal["sdist", "wheel"],
    project: Path,
    out: Path,
    *,
    python: str = sys.executable,
    environment: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
) -> Path:
    """Asks the build backend of a project for a distribution.

    Args:
        kind: What to build.
        project: A project with a `pyproject.toml`.
        out: An existing directory for it.
        python: The Python that runs the backend; its environment must have what the project requires.
        environment: Variables beyond those of the caller.
        settings: Settings of the backend.

    Raises:
        WheelError: The build backend failed.
    """
    import build

    def run_backend(
        cmd: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None
    ) -> None:
        variables = {
            **{name: value for name, value in os.environ.items() if not _STEERING.fullmatch(name)},
            **(extra_environ or {}),
            "SOURCE_DATE_EPOCH": str(SOURCE_DATE_EPOCH),
            "LC_ALL": "C.UTF-8",
            **(environment or {}),
        }
        run(cmd, cwd=Path(cwd) if cwd else None, env=variables)

    try:
        builder = build.ProjectBuilder(project, python, run_backend)
        missing = builder.check_dependencies(kind) if python == sys.executable else set()
        if missing:
            names = ", ".join(sorted(" -> ".join(chain) for chain in missing))
            raise WheelError(f"building a {kind} needs {names}; install modelwheel anew")
        return Path(builder.build(kind, out, dict(settings or {})))
    except (build.BuildException, build.BuildBackendException, ProcessError) as error:
        said = _explain(error.exception if hasattr(error, "exception") else error)
        raise WheelError(f"building the {kind} of {project.name} failed: {said}") from error


def _explain(error: Exception) -> str:
    """The message of an error, and what the compiler said: Ninja passes that on to standard output."""
    _, failed, rest = getattr(error, "output", "").partition("\nFAILED: ")
    lines = f"FAILED: {rest}".splitlines()[:_SAID_LINES] if failed else []
    return "\n".join([str(error), *lines])


@dataclass(frozen=True)
class WheelSizes:
    """Where the bytes of a wheel go."""

    wheel: int
    """The file itself, compressed."""
    library: int
    """The shared library as installed."""
    weights: int
    machine_code: int

    @property
    def runtime(self) -> int:
        """What the library holds besides weights and XLA's code."""
        return self.library - self.weights - self.machine_code


def read_sizes(wheel: Path, manifest: Manifest) -> WheelSizes:
    """The sizes of a built wheel; `manifest` is the one inside it."""
    with zipfile.ZipFile(wheel) as archive:
        library = max(
            item.file_size for item in archive.infolist() if _LIBRARY.search(item.filename)
        )
    return WheelSizes(
        wheel.stat().st_size, library, manifest.sizes.weights, manifest.sizes.machine_code
    )
