"""Gate: file name, metadata and binaries agree on the platform and the Python."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import PurePosixPath

from ...errors import EnvironmentProblemError
from ...platforms import PLATFORMS, SYSTEMS, extension_suffix
from ...versions import RUNTIME
from ..formats.binary import Binary
from ..opened import OpenedWheel
from ..platform_tag import PlatformTag
from .finding import GateFinding

_GLIBC, _MUSL = ("libc.so.6", "ld-linux"), ("libc.so", "libc.musl-")
"""The name, and the beginning of the name, of libraries that only one C library has."""


def check(wheel: OpenedWheel) -> Iterator[GateFinding]:
    """Compares the tags with metadata, manifest, extension suffix and binaries."""
    yield from _check_metadata(wheel)
    known = [tag for tag in wheel.platforms if tag is not None]
    if len(known) != len(wheel.platforms):
        names = ", ".join(sorted({tag.platform for tag in wheel.tags}))
        yield GateFinding(
            wheel.name, f"has a platform tag that modelwheel does not support ({names})"
        )
    for tag in _strictest(known):
        yield from _check_platform(wheel, tag)
    yield from _check_extension(wheel, known)
    yield from _check_shape(wheel)


def _check_metadata(wheel: OpenedWheel) -> Iterator[GateFinding]:
    place = f"{wheel.dist_info}/WHEEL"
    written, named = set(wheel.wheel_metadata.get_all("Tag", [])), {str(tag) for tag in wheel.tags}
    if written != named:
        yield GateFinding(
            place,
            f"has the tags {_list(written)}, but the file name has {_list(named)}; rename wheels with "
            "`python -m wheel tags`, which changes both",
        )
    if wheel.wheel_metadata.get("Root-Is-Purelib", "").strip().lower() != "false":
        yield GateFinding(
            place, "must have `Root-Is-Purelib: false`, as the wheel contains machine code"
        )


def _list(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "(none)"


def _strictest(tags: list[PlatformTag]) -> Iterator[PlatformTag]:
    """The strictest tag of each kind: a wheel may have `manylinux_2_17` and its alias `manylinux2014`."""
    kinds = {(tag.system, tag.architecture, tag.libc) for tag in tags}
    for kind in sorted(kinds):
        same = (tag for tag in tags if (tag.system, tag.architecture, tag.libc) == kind)
        yield min(same, key=lambda tag: (tag.version, tag.name))


def _check_platform(wheel: OpenedWheel, tag: PlatformTag) -> Iterator[GateFinding]:
    if tag.system == "linux" and not tag.libc:
        yield GateFinding(
            wheel.name,
            f"has the tag {tag.name}, which guarantees nothing about the C library and which PyPI "
            "rejects; run `auditwheel repair`, as `modelwheel wheel` does",
            "note",
        )
    if wheel.manifest is not None:
        made = PLATFORMS.get(wheel.manifest.platform)
        if made is None or (made.system, made.architecture) != (tag.system, tag.architecture):
            yield GateFinding(
                f"{wheel.module}/_manifest.json",
                f"is for {wheel.manifest.platform}, but the wheel has the tag "
                f"{tag.name}; build the wheel for the platform of its machine code",
            )
    for binary in wheel.binaries:
        yield from _check_binary(binary, tag)


def _check_binary(binary: Binary, tag: PlatformTag) -> Iterator[GateFinding]:
    expected = SYSTEMS[tag.system].binary_format
    if (binary.format, binary.machine) != (expected, tag.architecture):
        yield GateFinding(
            binary.member,
            f"is {binary.format} for {binary.machine}, but the wheel has the tag {tag.name}, which "
            f"requires {expected} for {tag.architecture}; compile it for that target",
        )
    elif tag.system == "macos":
        yield from _check_macos(binary, tag)
    elif tag.libc:
        yield from _check_libc(binary, tag)


def _check_macos(binary: Binary, tag: PlatformTag) -> Iterator[GateFinding]:
    # Tags have no patch level, so 10.15.7 counts as 10.15.
    wanted, promised = binary.minimum_system[:2], tag.version
    if not wanted:
        yield GateFinding(
            binary.member, "does not declare the oldest macOS that it runs on; link it with -target"
        )
    elif wanted > promised:
        yield GateFinding(
            binary.member,
            f"requires macOS {_dotted(wanted)}, but the wheel has the tag {tag.name}; build it with "
            f"MACOSX_DEPLOYMENT_TARGET={_dotted(promised)}",
        )


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _check_libc(binary: Binary, tag: PlatformTag) -> Iterator[GateFinding]:
    foreign = _MUSL if tag.libc == "glibc" else _GLIBC
    for name in binary.libraries:
        if name in foreign or name.startswith(foreign[1]):
            yield GateFinding(
                binary.member,
                f"requires {name}, which systems with {tag.libc} do not have, but the wheel has the tag "
                f"{tag.name}; compile it for {tag.libc}",
            )
    if tag.libc == "glibc":
        yield from _check_versions(binary, tag)
    elif any(imported.version.startswith("GLIBC_") for imported in binary.imports):
        yield GateFinding(
            binary.member,
            "requires symbols of glibc, which musl does not have; compile it for musl",
        )


def _check_versions(binary: Binary, tag: PlatformTag) -> Iterator[GateFinding]:
    """Compares symbol versions with auditwheel's policy for the tag."""
    policy = _policy(tag)
    if policy is None:
        yield GateFinding(
            binary.member, f"was not checked, as auditwheel has no policy for {tag.name}", "note"
        )
        return
    beyond: dict[str, list[str]] = defaultdict(list)
    for imported in binary.imports:
        # GLIBC_PRIVATE is in no policy, so it is refused, too.
        kind, _, version = imported.version.rpartition("_")
        if kind and version not in policy.get(kind, ()):
            beyond[imported.version].append(imported.name)
    for version, names in sorted(beyond.items()):
        some = ", ".join(sorted(names)[:3]) + (", ..." if len(names) > 3 else "")
        yield GateFinding(
            binary.member,
            f"requires {version} ({some}), which {tag.name} does not guarantee; link it in an older "
            "image or with zig, or let `auditwheel repair` choose the tag",
        )


def _policy(tag: PlatformTag) -> dict[str, frozenset[str]] | None:
    """The allowed symbol versions by kind (`GLIBC`); None if auditwheel has no such policy."""
    try:
        from auditwheel.architecture import Architecture
        from auditwheel.libc import Libc
        from auditwheel.policy import WheelPolicies
    except ImportError:
        raise EnvironmentProblemError(
            'auditing manylinux wheels requires auditwheel: pip install "modelwheel[release]"',
            code="MW721",
        ) from None
    policies = WheelPolicies(libc=Libc.GLIBC, arch=Architecture(tag.architecture))
    try:
        return dict(policies.get_policy_by_name(tag.name).symbol_versions)
    except LookupError:
        return None


def _check_extension(wheel: OpenedWheel, platforms: list[PlatformTag]) -> Iterator[GateFinding]:
    extensions = wheel.binaries_of("extension")
    if not wheel.needs_extension:
        for binary in extensions:
            yield GateFinding(
                binary.member,
                "is for one version of Python, but the wheel has the tag py3-none; remove it, or "
                "put the version into the tag",
            )
        return
    if len(extensions) != 1:
        yield GateFinding(
            wheel.name, f"contains {len(extensions)} extensions _core instead of one for its Python"
        )
    for tag in wheel.tags:
        # Free-threaded Pythons differ in the ABI alone: cp313-cp313t.
        if tag.abi.removesuffix("t") != tag.interpreter:
            yield GateFinding(
                wheel.name, f"has the tag {tag}, whose interpreter and ABI do not match"
            )
    expected = {
        f"_core{_suffix(tag.abi, platform)}" for tag in wheel.tags for platform in platforms
    }
    for binary in extensions:
        name = PurePosixPath(binary.member).name
        if name not in expected:
            yield GateFinding(
                binary.member,
                f"has a name that this wheel's Python does not import: it looks for "
                f"{_list(expected)}; set PYTHON_MODULE_EXTENSION",
            )


def _suffix(abi: str, tag: PlatformTag) -> str:
    return extension_suffix(
        SYSTEMS[tag.system],
        python=abi.removeprefix("cp"),
        architecture=tag.architecture,
        libc=tag.libc,
        tag=tag.name,
    )


def _check_shape(wheel: OpenedWheel) -> Iterator[GateFinding]:
    if wheel.distribution == RUNTIME:
        return
    if not wheel.binaries_of("library"):
        yield GateFinding(
            wheel.name, f"does not contain the library of {wheel.module}; build the wheel again"
        )
    required = {r.name for r in wheel.contents.metadata.requires_dist or ()}
    if wheel.needs_extension == (RUNTIME in required):
        what = (
            f"requires {RUNTIME} in addition to its own extension"
            if wheel.needs_extension
            else f"does not require {RUNTIME}, although the wheel has no extension"
        )
        yield GateFinding(
            f"{wheel.dist_info}/METADATA", f"{what}; see package.bindings in the spec"
        )
