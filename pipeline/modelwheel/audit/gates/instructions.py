"""Gate: no CPU runs an instruction that it does not have.

Code that is reachable only through the entries of a CPU level may use the features of that level. All other
code may use only what every CPU of the platform has. Reachability is computed from the machine code itself
(`levels.py`), and not from the objects that went into the library: only the finished wheel shows what the
linker merged, what came from the compiler's own libraries, and whether a lower level can call a function
that was compiled for a higher one.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from ...errors import EnvironmentProblemError
from ...levels import LEVELS, features_up_to
from ...platforms import PLATFORMS, SYSTEMS
from ...util.words import count
from ..formats.binary import Binary
from ..machine_code.code import Code, Function, Use
from ..machine_code.levels import Place, assign, find_entries
from ..opened import OpenedWheel
from .finding import GateFinding

_OF_CLANGS_RUNTIME = frozenset({"SVE (cntd)", "MTE (stg)", "SME"})
"""Allowed in extensions, which may contain LLVM's runtime: its unwinder reads the vector length or clears
memory tags only for frames whose tables say that they use them, and `__arm_za_disable` checks for SME
first."""

_MOST = 5
"""Functions of a binary that are reported one by one; the rest are counted."""


def check(wheel: OpenedWheel) -> Iterator[GateFinding]:
    """Checks the library level by level, and the extension against the baseline."""
    for binary in wheel.binaries:
        role = wheel.role(binary)
        if role == "other":
            continue
        decoder = _decoder(binary.machine)
        if decoder is None:
            yield GateFinding(
                binary.member,
                f"was not checked: it is for {binary.machine}, which modelwheel cannot disassemble",
                "note",
            )
            continue
        code = Code(binary.image, decoder.decode, decoder.ALIGNMENT)
        if role == "library":
            yield from _check_library(wheel, binary, code)
        else:
            # An extension has no levels: Python loads it on every CPU.
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
            f"auditing machine code for {machine} requires {error.name}: "
            'pip install "modelwheel[release]" on an x86-64 machine',
            code="MW721",
        ) from None
    return None


def _check_library(wheel: OpenedWheel, binary: Binary, code: Code) -> Iterator[GateFinding]:
    manifest = wheel.manifest
    if manifest is None:
        return
    levels = manifest.levels
    sizes = manifest.batching.sizes * max(1, len(manifest.signature.lengths))
    entries = find_entries(binary.image, levels, sizes)
    for level in levels:
        # Without its table a level's code would look unreachable, be held to the baseline, and give
        # many wrong findings.
        if sum(entry.level == level for entry in entries) != len(sizes):
            yield GateFinding(
                binary.member,
                f"has no dispatch table for {level}, although the manifest lists that level, so its "
                "instructions cannot be checked; build the wheel with this version of modelwheel",
            )
            return
    yield from _report(binary, code, assign(code, entries, levels, f"{wheel.module}_"))


def allowed(level: str, binary: Binary) -> frozenset[str]:
    """CPU features that code of a level may use; with no level, those of code that every CPU may run."""
    # By platform and not by architecture: every Mac has LSE or SSSE3, for example.
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
    # Unreachable code is held to the baseline, too: what seems unreachable may be called in a way that is
    # not understood.
    levels = {place.level for place in places.values()} | {""}
    permitted = {level: also | allowed(level, binary) for level in levels}
    wrong = [
        (function, place, use, features)
        for function in code.functions
        for place in (places.get(function.address),)
        for features, use in function.block.uses.items()
        if not features <= permitted[place.level if place else ""]
        and not _has_alternative(function, features)
        and not _is_asked_for(code, place, features - permitted[place.level if place else ""])
    ]
    # What every CPU runs first: there may be many more of a level.
    wrong.sort(key=lambda pair: bool(pair[1] and pair[1].level))
    for function, place, use, features in wrong[:_MOST]:
        text = _sentence(code, function, place, use, features)
        yield GateFinding(binary.member, text)
    if len(wrong) > _MOST:
        yield GateFinding(
            binary.member, f"contains {count(len(wrong) - _MOST, 'more such function')}"
        )


def _has_alternative(function: Function, features: frozenset[str]) -> bool:
    """Whether it is one of libgcc's outline atomics, which check for LSE and otherwise use exclusive loads."""
    return features == {"LSE"} and function.block.loads_exclusively


def _is_asked_for(code: Code, place: Place | None, features: frozenset[str]) -> bool:
    """Whether a level's code may ask the CPU for some features, and what leads to the function refers to code that does."""
    if place is None or not place.level:
        return False
    if not features <= {feature.name for feature in LEVELS[place.level].asked}:
        return False
    callers = (code.function_at(address) for address in place.route)
    called = (
        code.function_at(target)
        for caller in callers
        if caller is not None
        for part in (caller, *_unlikely_parts(code, caller))
        for target in part.block.references
    )
    return any(one is not None and one.block.asks_for_features for one in called)


def _unlikely_parts(code: Code, function: Function) -> Iterator[Function]:
    """Code that a function jumps to: compilers put what runs once, as a question to the CPU, apart from the rest."""
    for target in function.block.jumps:
        part = code.function_at(target)
        if part is not None and part is not function:
            yield part


def _sentence(
    code: Code, function: Function, place: Place | None, use: Use, features: frozenset[str]
) -> str:
    name, needed = _name(code, function.address), " and ".join(sorted(features))
    instructions = count(use.count, "instruction")
    if "unknown encoding" in features:
        what = (
            f"contains {instructions} that no decoder knows, first at {use.address:#x} ({use.text})"
        )
        return f"{name} {what}: data in the code, or newer than every level; {_FIX}"
    what = f"has {instructions} beyond that ({needed}), first at {use.address:#x}: {use.text}"
    return f"{name} {_why(code, place)} but {what}; {_FIX}"


_FIX = "compile its source for the right level (cmake/levels.cmake)"


def _why(code: Code, place: Place | None) -> str:
    if place is None:
        return "is unreachable, so it must run on every CPU,"
    level = f"the level {place.level}" if place.level else "every CPU"
    through = [_name(code, address) for address in place.route[:-1]][-3:]
    return f"runs on {level}" + (f" (called by {' from '.join(through[::-1])})" if through else "")


def _name(code: Code, address: int) -> str:
    image = code.image
    return image.entries.get(address) or image.names.get(address) or f"the function at {address:#x}"
