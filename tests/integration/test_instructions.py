"""The gate for instruction sets, on real libraries with a mistake each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import audited
from tests.support.audited import (
    LEVELS,
    Recipe,
    ask,
    compile_extension,
    compile_library,
    make_wheel,
    violations,
)

TAGS = {
    "linux-x86_64": "py3-none-manylinux_2_17_x86_64",
    "linux-aarch64": "py3-none-manylinux_2_17_aarch64",
    "macos-arm64": "py3-none-macosx_11_0_arm64",
    "macos-x86_64": "py3-none-macosx_10_15_x86_64",
    "windows-amd64": "py3-none-win_amd64",
}


def judge(recipe: Recipe, directory: Path) -> list[str]:
    """What the gate refuses in a library that is compiled in some way."""
    library = compile_library(recipe, directory)
    wheel = make_wheel(directory, library, platform=recipe.platform, tag=TAGS[recipe.platform])
    return violations("instruction sets", wheel)


def code(*values: int) -> str:
    """Some bytes as an assembler statement."""
    return f'__asm__ volatile(".byte {",".join(map(str, values))}")'


def word(value: int) -> str:
    """An instruction of Arm's."""
    return f'__asm__ volatile(".inst {value}")'


VPADDD = code(0xC5, 0xFD, 0xFE, 0xC0)
"""vpaddd ymm0, ymm0, ymm0: AVX2."""


@pytest.mark.parametrize("platform", TAGS)
@pytest.mark.parametrize("stripped", [True, False])
def test_code_that_keeps_to_its_levels_is_accepted(
    platform: str, stripped: bool, tmp_path: Path
) -> None:
    recipe = Recipe(platform, link=("-s",) if stripped else ())
    library = compile_library(recipe, tmp_path)
    wheel = make_wheel(tmp_path, library, platform=platform, tag=TAGS[platform])
    assert ask("instruction sets", wheel) == []


@pytest.mark.parametrize("platform", ["linux-x86_64", "macos-x86_64", "windows-amd64"])
def test_a_level_compiled_for_a_higher_one_is_found(platform: str, tmp_path: Path) -> None:
    found = judge(Recipe(platform, cpus=("x86_64", "x86_64_v3", "x86_64_v3")), tmp_path)
    assert found
    for sentence in found[:-1]:
        assert "runs on the level x86-64 " in sentence
        assert "(AVX)" in sentence or "(FMA)" in sentence or "(AVX2)" in sentence
        assert "first at 0x" in sentence


@pytest.mark.parametrize("platform", ["linux-x86_64", "macos-x86_64", "windows-amd64"])
def test_a_file_of_no_level_compiled_for_one_is_found(platform: str, tmp_path: Path) -> None:
    found = judge(Recipe(platform, cpus=("x86_64_v3", "x86_64", "x86_64_v3")), tmp_path)
    assert found
    assert all("model_tiny_sum runs on every CPU but has" in sentence for sentence in found)
    assert any(": vmulps ymm" in sentence or ": vfmadd" in sentence for sentence in found)


def test_symbols_name_the_function_where_there_are_any(tmp_path: Path) -> None:
    recipe = Recipe(cpus=("x86_64", "x86_64_v3", "x86_64_v3"), link=())
    assert any(
        "multiply runs on the level x86-64" in sentence for sentence in judge(recipe, tmp_path)
    )


CALLS = {
    "a call": "helper()",
    "its address": "pointer = helper; pointer()",
    "a table": "table[n & 1]()",
}


def helper(statement: str, call: str) -> dict[str, str]:
    """A function with that statement, and how it is called."""
    table = {"TABLE": "1"} if call == "a table" else {}
    return {"HELPER": statement, "CODE": CALLS[call], **table}


@pytest.mark.parametrize("platform", ["linux-x86_64", "macos-x86_64", "windows-amd64"])
@pytest.mark.parametrize("call", CALLS)
def test_whatever_leads_to_it_is_followed(platform: str, call: str, tmp_path: Path) -> None:
    recipe = Recipe(platform, defines=helper(VPADDD, call))
    (sentence,) = judge(recipe, tmp_path)
    assert "runs on every CPU" in sentence
    assert "has 1 instruction beyond that (AVX2), first at 0x" in sentence
    assert ": vpaddd ymm0,ymm0,ymm0; compile its source for the right level" in sentence
    if call == "a call":
        assert "(called by model_tiny_run)" in sentence


@pytest.mark.parametrize("call", ["a call", "its address"])
def test_what_levels_share_keeps_to_the_lowest(call: str, tmp_path: Path) -> None:
    high = {"LEVEL_CODE": CALLS[call]}
    assert judge(Recipe(defines={"HELPER": VPADDD}, high=high), tmp_path) == []
    (sentence,) = judge(Recipe(defines={"HELPER": VPADDD}, low=high, high=high), tmp_path)
    assert "runs on the level x86-64 (called by the function at 0x" in sentence


def test_what_nothing_refers_to_is_judged_as_well(tmp_path: Path) -> None:
    (sentence,) = judge(Recipe(defines={"HELPER": VPADDD}, link=()), tmp_path)
    assert "helper is unreachable, so it must run on every CPU, but has" in sentence


BEYOND = {
    "AVX512_VNNI": code(0x62, 0xF2, 0x75, 0x48, 0x50, 0xC2),  # vpdpbusd zmm0, zmm1, zmm2
    "AMX_TILE": code(0xC4, 0xE2, 0x78, 0x49, 0xC0),  # tilerelease
    "AMX_INT8": code(0xC4, 0xE2, 0x53, 0x5E, 0xC4),  # tdpbssd tmm0, tmm4, tmm5
    "AVX_VNNI": code(0xC4, 0xE2, 0x75, 0x50, 0xC2),  # {vex} vpdpbusd ymm0, ymm1, ymm2
    "AVX512F": code(0x62, 0xF1, 0x75, 0x48, 0xFE, 0xC2),  # vpaddd zmm0, zmm1, zmm2
    "SSE4A": code(0xF2, 0x0F, 0x79, 0xC1),  # insertq xmm0, xmm1
    "SHA": code(0x0F, 0x38, 0xC8, 0xC1),  # sha1nexte xmm0, xmm1
}


@pytest.mark.parametrize("feature", BEYOND)
def test_instructions_beyond_the_highest_level_are_found(feature: str, tmp_path: Path) -> None:
    (sentence,) = judge(Recipe(high={"LEVEL_CODE": BEYOND[feature]}), tmp_path)
    assert "runs on the level x86-64-v3 but has" in sentence
    assert feature in sentence


APART = """__asm__ volatile("jmp 1f; .pushsection .text.unlikely; 1: call helper@PLT; jmp 2f; .popsection; 2:")"""
"""A call as compilers put one that hardly ever happens: in a part of the function that is elsewhere."""


@pytest.mark.parametrize("feature", ["AVX512_VNNI", "AMX_TILE", "AMX_INT8"])
@pytest.mark.parametrize("call", [CALLS["a call"], APART])
@pytest.mark.parametrize("asks", [False, True])
def test_what_a_level_asks_the_cpu_for_is_accepted(
    asks: bool, call: str, feature: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AVX512-VNNI and AMX are beside the highest level: its code may have them, if it asks for them."""
    monkeypatch.setitem(audited.LEVELS, "x86_64", ("x86-64", "x86-64-v4"))
    used = {"LEVEL_CODE": f"{call}; {BEYOND[feature]}"}
    asked = {"HELPER": code(0x0F, 0xA2) if asks else code(0x90)}
    recipe = Recipe(cpus=("x86_64", "x86_64", "x86_64_v4"), defines=asked, high=used)
    found = judge(recipe, tmp_path)
    assert len(found) == (0 if asks else 1)
    assert all(feature in sentence for sentence in found)


def test_what_no_decoder_knows_is_found(tmp_path: Path) -> None:
    apx = code(0xD5, 0x19, 0x01, 0xC0)  # add r24, r16: a REX2 prefix
    (sentence,) = judge(Recipe(high={"LEVEL_CODE": apx}), tmp_path)
    assert "that no decoder knows, first at 0x" in sentence
    assert "(bytes d5 19 01 c0" in sentence


HARMLESS = {
    "xgetbv": code(0x0F, 0x01, 0xD0),
    "tzcnt": code(0xF3, 0x0F, 0xBC, 0xC0),
    "endbr64": code(0xF3, 0x0F, 0x1E, 0xFA),
    "pause": code(0xF3, 0x90),
    "cpuid": code(0x0F, 0xA2),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_every_cpu_may_meet_is_accepted(name: str, tmp_path: Path) -> None:
    assert judge(Recipe(defines={"CODE": HARMLESS[name]}), tmp_path) == []


ARM = {
    "LSE": word(0xB8210002),  # ldadd w1, w2, [x0]
    "SVE": word(0x04A10000),  # add z0.s, z0.s, z1.s
    "FP16": word(0x4E421420),  # fadd v0.8h, v1.8h, v2.8h
    "DOTPROD": word(0x4E829420),  # sdot v0.4s, v1.16b, v2.16b
    "PAC": word(0xD65F0BFF),  # retaa
    "AES": word(0x4E285820),  # aesmc v0.16b, v1.16b
}


@pytest.mark.parametrize("feature", ARM)
def test_extensions_of_armv8_are_found(feature: str, tmp_path: Path) -> None:
    found = judge(Recipe("linux-aarch64", defines={"CODE": ARM[feature]}), tmp_path)
    assert len(found) == 1
    assert (
        f"model_tiny_run runs on every CPU but has 1 instruction beyond that ({feature})"
        in found[0]
    )


def test_arm_levels_have_what_their_names_say(tmp_path: Path) -> None:
    for feature in ("FP16", "DOTPROD", "LSE"):
        recipe = Recipe("linux-aarch64", high={"LEVEL_CODE": ARM[feature]})
        assert judge(recipe, tmp_path) == []
    (sentence,) = judge(Recipe("linux-aarch64", high={"LEVEL_CODE": ARM["SVE"]}), tmp_path)
    assert f"runs on the level {LEVELS['aarch64'][1]} but" in sentence


@pytest.mark.parametrize("call", CALLS)
def test_arm_code_is_followed_as_well(call: str, tmp_path: Path) -> None:
    recipe = Recipe("linux-aarch64", defines=helper(ARM["SVE"], call))
    (sentence,) = judge(recipe, tmp_path)
    assert "runs on every CPU" in sentence


def test_macs_have_more_than_the_oldest_cpus(tmp_path: Path) -> None:
    assert judge(Recipe("macos-arm64", defines={"CODE": ARM["LSE"]}), tmp_path) == []
    assert len(judge(Recipe("macos-arm64", defines={"CODE": ARM["SVE"]}), tmp_path)) == 1
    pshufb = code(0x66, 0x0F, 0x38, 0x00, 0xC1)  # SSSE3
    assert judge(Recipe("macos-x86_64", defines={"CODE": pshufb}), tmp_path) == []
    assert len(judge(Recipe("macos-x86_64", defines={"CODE": VPADDD}), tmp_path)) == 1


def test_a_library_without_the_tables_cannot_be_judged(tmp_path: Path) -> None:
    (sentence,) = judge(Recipe(defines={"HIGH": '"x86-64-v9"'}), tmp_path)
    assert "has no dispatch table for x86-64-v3, although the manifest lists that level" in sentence


def test_extensions_keep_to_the_baseline(tmp_path: Path) -> None:
    library = compile_library(Recipe(), tmp_path)
    also = f"__attribute__((constructor)) static void also(void) {{ {VPADDD}; }}"
    wheel = make_wheel(tmp_path, library, compile_extension(library, tmp_path, also=also))
    (sentence,) = violations("instruction sets", wheel)
    assert sentence.startswith("model_tiny/_core.cpython-311-x86_64-linux-gnu.so: ")
    assert "(AVX2)" in sentence
