"""Gate: no CPU meets an instruction that it lacks.

Code that only the entries of a CPU level lead to may use what that level has; everything else keeps to what
every CPU of the platform has. What leads where is read from the machine code itself (`levels.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from ...errors import EnvironmentProblemError
from ...levels import LEVELS, features_up_to
from ...platforms import PLATFORMS, SYSTEMS
from ..formats.binary import Binary
from ..machine_code.code import Code, Function, Use
from ..machine_code.levels import Place, assign, find_entries
from ..opened import OpenedWheel
from .finding import GateFinding

_OF_CLANGS_RUNTIME = frozenset({"SVE (cntd)", "MTE (stg)", "SME"})
"""In extensions with LLVM's runtime in them: the unwinder asks for the length of vectors, or clears the tags
of a frame, where the tables of that frame say so; `__arm_za_disable` asks first whether there is SME."""

_MOST = 5
"""Functions of one binary that are told apart; the others are counted."""


def check(wheel: OpenedWheel) -> Iterator[GateFinding]:
    """The model's library by its levels; the extension at the baseline."""
    for binary in wheel.binaries:
        role = wheel.role(binary)
        if role == "other":
            continue
        decoder = _decoder(binary.machine)
        if decoder is None:
            yield GateFinding(
                binary.member, f"is for {binary.machine}, which cannot be disassembled here", "note"
            )
            continue
        code = Code(binary.image, decoder.decode, decoder.ALIGNMENT)
        if role == "library":
            yield from _check_library(wheel, binary, code)
        else:
            places = {function.address: _ANYWHERE for function in code.functions}
            yield from _report(binary, code, places, _OF_CLANGS_RUNTIME)


_ANYWHERE = Place("", ())


def _decoder(machine: str) -> ModuleType | None:
    try:
        if machine == "x86_64":
            from ..machine_code import x86

            return x86
        if machine == "aarch64":
            from ..machine_code import aarch64

            return aarch64
    except ImportError as error:
        raise EnvironmentProblemError(
            f"auditing machine code for {machine} needs {error.name}: "
            'pip install "modelwheel[release]" on an x86-64 machine'
        ) from None
    return None


def _check_library(wheel: OpenedWheel, binary: Binary, code: Code) -> Iterator[GateFinding]:
    manifest = wheel.manifest
    if manifest is None:
        return
    levels, sizes = manifest.levels, manifest.batching.sizes
    entries = find_entries(binary.image, levels, sizes)
    for level in levels:
        if sum(entry.level == level for entry in entries) != len(sizes):
            yield GateFinding(
                binary.member,
                f"has no table of the code for {level}, though the manifest names that level; its "
                "instructions cannot be judged: build it with this modelwheel",
            )
            return
    yield from _report(binary, code, assign(code, entries, levels, f"{wheel.module}_"))


def allowed(level: str, binary: Binary) -> frozenset[str]:
    """CPU features that code of a level may use; with no level, those of code that every CPU may run."""
    of_system = {
        feature
        for platform in PLATFORMS.values()
        if platform.architecture == binary.machine
        and SYSTEMS[platform.system].binary_format == binary.format
        for feature in platform.cpu_features
    }
    of_level = {feature.name for feature in features_up_to(LEVELS[level])} if level else set()
    return frozenset(of_system | of_level)


def _report(
    binary: Binary, code: Code, places: dict[int, Place], also: frozenset[str] = frozenset()
) -> Iterator[GateFinding]:
    wrong = [
        (function, place, use, features)
        for function in code.functions
        for place in (places.get(function.address),)
        for features, use in function.block.uses.items()
        if not features <= also | allowed(place.level if place else "", binary)
        and not _has_alternative(function, features)
    ]
    for function, place, use, features in wrong[:_MOST]:
        text = _sentence(code, function, place, use, features)
        yield GateFinding(binary.member, text)
    if len(wrong) > _MOST:
        yield GateFinding(binary.member, f"holds {len(wrong) - _MOST} more such functions")


def _has_alternative(function: Function, features: frozenset[str]) -> bool:
    """Whether it is one of libgcc's functions that ask for LSE atomics and else use exclusive loads."""
    return features == {"LSE"} and function.block.loads_exclusively


def _sentence(
    code: Code, function: Function, place: Place | None, use: Use, features: frozenset[str]
) -> str:
    name, needed = _name(code, function.address), " and ".join(sorted(features))
    count = "an instruction" if use.count == 1 else f"{use.count} instructions"
    if "unknown encoding" in features:
        what = f"holds {count} that no decoder knows, first at {use.address:#x} ({use.text})"
        return f"{name} {what}: data among the code, or newer than every level; {_MEND}"
    what = f"holds {count} beyond that ({needed}), first at {use.address:#x}: {use.text}"
    return f"{name} {_why(code, place)} but {what}; {_MEND}"


_MEND = "compile what it comes from for its level (cmake/levels.cmake)"


def _why(code: Code, place: Place | None) -> str:
    if place is None:
        return "belongs to no CPU level, as nothing refers to it,"
    level = f"the level {place.level}" if place.level else "every CPU"
    through = [_name(code, address) for address in place.route[:-1]][-3:]
    return f"runs on {level}" + (f" (called by {' from '.join(through[::-1])})" if through else "")


def _name(code: Code, address: int) -> str:
    image = code.image
    return image.entries.get(address) or image.names.get(address) or f"the function at {address:#x}"
