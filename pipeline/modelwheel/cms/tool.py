"""A compiled model as a tool of scram: object files, headers and a tool file, where cms-tfaot has them."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from ..errors import UsageError, WheelError
from ..platforms import Platform, host_platform
from ..spec import Spec
from ..util.files import write_atomically
from ..util.processes.process import ProcessError, run
from .headers import ENTRY, flatten_headers

UNFILLED_BASE = "@TOOL_BASE@"
"""What CMSDIST replaces by the place of the tool."""

_XLA_OBJECT = re.compile(r"_b(\d+)(_n\d+)?\.o")
"""How the names of XLA's object files end: batch size and length."""

_TOOL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*([-_][A-Za-z0-9]+)*")


def default_tool_name(spec: Spec) -> str:
    """`tfaot-model-test-simple` for the model `test_simple`."""
    return f"tfaot-model-{spec.model.name.replace('_', '-')}"


def check_tool_name(name: str) -> str:
    """The name itself, of a directory, a file and (in capitals) a variable of scram.

    Raises:
        UsageError: It is not such a name.
    """
    if not _TOOL_NAME.fullmatch(name):
        raise UsageError(
            f"--tool-name: {name!r} must be letters, digits, single - and _, and start with a letter"
        )
    return name


def default_tool_base(out: Path) -> str:
    """The place of a tool as scram reads it: below `$CMSSW_BASE` if it is in there, else absolute.

    Raises:
        UsageError: scram would read a variable in the path.
    """
    place = in_release_area(out)
    if "$" in place.removeprefix("$CMSSW_BASE/"):
        raise UsageError(
            f"scram would read a variable in {place}; choose an --output-directory without $"
        )
    return place


def in_release_area(path: Path) -> str:
    """`$CMSSW_BASE/...` for a path in the release area of the environment, else the path."""
    area = os.environ.get("CMSSW_BASE")
    if area:
        with suppress(ValueError):
            return f"$CMSSW_BASE/{path.relative_to(Path(area).absolute()).as_posix()}"
    return path.as_posix()


@dataclass(frozen=True)
class Tool:
    """The files that are written, and where."""

    spec: Spec
    name: str
    """Of the tool: of its file, and of the directory in `#include`."""
    base: str
    """Where scram finds `lib` and `include`."""
    directory: Path
    """The output directory."""
    nested: bool
    """Whether `lib/` and `include/NAME/` are made; else all files are in the directory itself, as CMSDIST expects."""

    @property
    def file(self) -> Path:
        """The tool file."""
        return self.directory / f"{self.name}.xml"

    @property
    def headers(self) -> Path:
        """The directory of the headers."""
        return self.directory / "include" / self.name if self.nested else self.directory

    @property
    def objects(self) -> Path:
        """The directory of the object files."""
        return self.directory / "lib" if self.nested else self.directory


def write_tool(tool: Tool, bundle: Path, platform: Platform) -> None:
    """Writes a tool from a bundle that has a library for one platform.

    Headers and objects of an earlier compilation of the same tool are removed.

    Raises:
        WheelError: The object files cannot be linked.
    """
    identifier = tool.spec.identifier
    for directory in (tool.headers, tool.objects):
        directory.mkdir(parents=True, exist_ok=True)
    earlier = re.compile(rf"{identifier}(_bs\d+)?\.[ho]")
    for path in (*tool.headers.glob("*.h"), *tool.objects.glob("*.o")):
        if earlier.fullmatch(path.name):
            path.unlink()
    flat = flatten_headers(bundle / "include", f"tfaot-model-{tool.spec.model.name}")
    for name, content in flat.items():
        write_atomically(tool.headers / name, content)
    objects = [path.name for path in _link_objects(bundle, tool.objects, identifier, platform)]
    write_atomically(tool.file, _tool_file(tool, objects))


def _link_objects(bundle: Path, out: Path, identifier: str, platform: Platform) -> Iterator[Path]:
    """`NAME_bsN.o` with XLA's code of each batch size, and `NAME.o` with what they share."""
    linker, archiver = _binutils(platform)
    (library,) = (bundle / "lib" / platform.name).glob("*.a")
    by_batch: dict[int, list[Path]] = defaultdict(list)
    for path in sorted((bundle / "platforms" / platform.name / "objects").glob("*.o")):
        if (match := _XLA_OBJECT.search(path.name)) is not None:
            by_batch[int(match[1])].append(path)
    rest = out / f".{identifier}.a"
    shutil.copyfile(library, rest)
    try:
        own = [path.name for paths in by_batch.values() for path in paths]
        run([*archiver, "d", rest, *own])
        for batch, paths in sorted(by_batch.items()):
            yield _link(linker, out / f"{identifier}_bs{batch}.o", paths)
        whole = ("--whole-archive", rest, "--no-whole-archive")
        yield _link(linker, out / f"{identifier}.o", whole)
    except ProcessError as error:
        raise WheelError(
            f"linking the object files of {identifier} failed: {error}", code="MW601"
        ) from error
    finally:
        rest.unlink(missing_ok=True)


def _link(linker: Sequence[str], target: Path, inputs: Iterable[str | Path]) -> Path:
    run([*linker, "-r", "-o", target, *inputs])
    return target


def _binutils(platform: Platform) -> tuple[Sequence[str], Sequence[str]]:
    """The linker and the archiver for a platform: this machine's own, zig's for others."""
    if platform == host_platform():
        return ("ld",), ("ar",)
    zig = (sys.executable, "-m", "ziglang")  # of the extra `cross`, which cross-compiling needs
    return (*zig, "ld.lld"), (*zig, "ar")


def _tool_file(tool: Tool, objects: Sequence[str]) -> bytes:
    variable = f"{tool.name.upper().replace('-', '_')}_BASE"
    version = tool.spec.model.version
    root = ET.Element("tool", name=tool.name, version=version, revision="1")
    client = ET.SubElement(root, "client")
    places = {variable: tool.base, "LIBDIR": f"${variable}/lib", "INCLUDE": f"${variable}/include"}
    for name, default in places.items():
        ET.SubElement(client, "environment", name=name, default=default)
    for name in objects:
        ET.SubElement(root, "flags", LDFLAGS=f"${variable}/lib/{name}")
    ET.indent(root)
    return f"{ET.tostring(root, encoding='unicode')}\n".encode("ascii", "xmlcharrefreplace")


def next_steps(tool: Tool, batch_sizes: Iterable[int]) -> str:
    """The last lines of `cms_tfaot_compile --dev`."""
    spec = tool.spec
    name, namespace = spec.identifier, spec.compilation.namespace
    sizes = ",".join(map(str, batch_sizes))
    return (
        f"\n{'-' * 80}\n"
        f"\nsuccessfully AOT compiled model '{name}' for batch sizes: {sizes}\n"
        "\n  1. register it to scram:\n"
        f"     > scram setup {in_release_area(tool.file)}\n"
        "\n  2. 'use' the tool in your BuildFile.xml:\n"
        f'     <use name="{tool.name}"/>\n'
        "\n  3. include the following header in your code:\n"
        f'     #include "{tool.name}/{ENTRY}"\n'
        "\n  4. create an AOT model instance via:\n"
        f"     auto model = tfaot::Model<{namespace}::{name}>();\n"
    )
