"""The levels: one row each, and C++, CMake and the audit agree with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from modelwheel.audit.machine_code import aarch64
from modelwheel.levels import (
    LEVELS,
    Level,
    cmake_flags,
    cpu_level,
    default_levels,
    features_up_to,
    levels_of,
)
from modelwheel.packaging.template import template_directory
from modelwheel.platforms import ARCHITECTURES

SOURCES = template_directory() / "model" / "src"
EVERY_LEVEL = pytest.mark.parametrize("level", LEVELS.values(), ids=LEVELS)


def test_every_architecture_has_levels_and_defaults() -> None:
    assert {level.architecture for level in LEVELS.values()} == set(ARCHITECTURES)
    for architecture in ARCHITECTURES:
        assert levels_of(architecture)[0] == default_levels(architecture)[0]
        assert not levels_of(architecture)[0].features


def test_identifiers_are_those_of_c_and_differ() -> None:
    identifiers = [level.identifier for level in LEVELS.values()]
    assert len(set(identifiers)) == len(identifiers)
    assert all(re.fullmatch(r"[a-z]\w*", identifier, re.ASCII) for identifier in identifiers)


def test_a_row_with_a_misspelt_field_is_refused() -> None:
    row = LEVELS["armv8-a"].model_dump()
    assert Level.model_validate(row) == LEVELS["armv8-a"]
    with pytest.raises(ValidationError, match="marhc"):
        Level.model_validate({**row, "marhc": row["march"]})


# --- C++ ------------------------------------------------------------------------------------------


def test_cpu_level_cpp_knows_every_level_in_order() -> None:
    text = (SOURCES / "cpu_level.cpp").read_text()
    function = text.partition("bool cpu_supports(")[2]
    x86, _, arm = function.partition("#elif")
    assert names_in(x86) == [level.name for level in levels_of("x86_64")]
    assert names_in(arm) == [level.name for level in levels_of("aarch64")]


def names_in(code: str) -> list[str]:
    return re.findall(r'"([\w.+-]+)"', code)


@EVERY_LEVEL
def test_level_h_has_the_vectors_of_the_row(level: Level) -> None:
    assert constant("kVectorBytes", level) == level.vector_bytes
    assert constant("kVectorRegisters", level) == level.vector_registers


def constant(name: str, level: Level) -> int:
    """The value that level.h gives a constant, from the first #if that holds for the level's macros."""
    text = (SOURCES / "kernels" / "base" / "level.h").read_text()
    blocks = re.findall(r"^#if .*?^#endif", text, re.MULTILINE | re.DOTALL)
    (ladder,) = [block for block in blocks if f"{name} =" in block]
    macros = {f"__{feature.name}__" for feature in features_up_to(level)}
    macros.add(f"__{level.architecture}__")
    for condition, value in branches(ladder, name):
        if not condition or macros.intersection(re.findall(r"defined\((\w+)\)", condition)):
            return value
    raise AssertionError(ladder)


def branches(ladder: str, name: str) -> Iterator[tuple[str, int]]:
    pattern = rf"^#(?:el)?(?:if|se)(.*)\n.* {name} = (\d+);"
    for condition, value in re.findall(pattern, ladder, re.MULTILINE):
        yield condition, int(value)


# --- CMake ----------------------------------------------------------------------------------------


def test_cmake_sets_the_options_of_every_level() -> None:
    first, _, others = cmake_flags().partition("\nif(")
    set_first = dict(re.findall(r"^set\(LEVEL_FLAGS_(\w+) (.*)\)$", first, re.MULTILINE))
    assert set_first == {
        level.identifier: " ".join([f"-march={level.march}", *level.tuning])
        for level in LEVELS.values()
    }
    assert set_first["x86_64_v4"] == "-march=x86-64-v4 -mprefer-vector-width=512"
    old_gcc, _, zig = others.partition("\nif(")
    assert re.findall(r"FLAGS_(\w+)", old_gcc) == [
        level.identifier for level in LEVELS.values() if any(f.gcc for f in level.features)
    ]
    assert re.findall(r"FLAGS_(\w+)", zig) == list(set_first)


def test_old_gcc_gets_each_feature_by_its_option() -> None:
    lines = [line.strip() for line in cmake_flags().splitlines()]
    assert (
        "set(LEVEL_FLAGS_x86_64_v3 -march=x86-64 -mcx16 -msahf -mpopcnt -msse3 -mssse3 -msse4.1 "
        "-msse4.2 -mavx -mavx2 -mbmi -mbmi2 -mf16c -mfma -mlzcnt -mmovbe -mxsave)"
    ) in lines
    assert any(
        line.startswith("set(LEVEL_FLAGS_x86_64_v4 -march=x86-64 -mcx16 ")
        and line.endswith("-mavx512dq -mavx512vl -mprefer-vector-width=512)")
        for line in lines
    )


# --- the audit ------------------------------------------------------------------------------------


@EVERY_LEVEL
def test_the_disassemblers_know_every_feature(level: Level) -> None:
    if level.architecture == "aarch64":
        known = {name for _, name in aarch64._BEYOND} | {"FP16"}
    else:
        iced = pytest.importorskip("iced_x86")  # has wheels for x86-64 alone
        known = {*vars(iced.CpuidFeature)} | {"LAHF"}
    assert {feature.name for feature in (*level.features, *level.asked)} <= known


# --- this machine ---------------------------------------------------------------------------------


def flags_up_to(level: Level) -> str:
    return " ".join(flag for feature in features_up_to(level) for flag in feature.linux)


@EVERY_LEVEL
def test_linux_names_what_a_cpu_has(
    level: Level, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modelwheel.levels.machine", lambda: level.architecture)
    cpuinfo = tmp_path / "cpuinfo"
    word = "Features" if level.architecture == "aarch64" else "flags"
    cpuinfo.write_text(f"processor\t: 0\n{word}\t: fpu {flags_up_to(level)}\n")
    assert cpu_level(cpuinfo) == level


@pytest.mark.parametrize("missing", ["lahf_lm", "popcnt"])
def test_a_level_needs_all_levels_below(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modelwheel.levels.machine", lambda: "x86_64")
    cpuinfo = tmp_path / "cpuinfo"
    flags = flags_up_to(LEVELS["x86-64-v4"]).replace(missing, "")
    cpuinfo.write_text(f"flags : {flags}\n")
    assert cpu_level(cpuinfo) == LEVELS["x86-64"]


def test_without_a_description_the_lowest_level_counts(tmp_path: Path) -> None:
    assert cpu_level(tmp_path / "missing").features == ()
