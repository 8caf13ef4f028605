"""Features and references of x86-64 instructions, from their bytes."""

from __future__ import annotations

import pytest

pytest.importorskip("iced_x86", reason="has wheels for x86-64 alone")

from modelwheel.audit.machine_code.x86 import UNKNOWN, decode


@pytest.mark.parametrize(
    ("code", "features"),
    [
        ("48 01 d8", set()),  # add rax, rbx
        ("0f 58 c1", set()),  # addps: SSE is in the baseline
        ("f3 48 0f b8 c1", {"POPCNT"}),
        ("66 0f 38 00 c1", {"SSSE3"}),  # pshufb
        ("9f", {"LAHF"}),  # of the 8086, but not of every 64-bit CPU
        ("c5 fd fe c0", {"AVX2"}),  # vpaddd ymm
        ("c4 e2 f5 b8 c2", {"FMA"}),  # vfmadd231pd ymm
        ("f3 0f bd c1", {"LZCNT"}),
        ("62 f1 7d 48 fe c0", {"AVX512F"}),  # vpaddd zmm
        ("f3 0f bc c1", set()),  # tzcnt: runs as bsf on older CPUs
        ("0f 01 d0", set()),  # xgetbv: cpu_level.cpp checks for it
        ("f3 0f 1e fa", set()),  # endbr64
    ],
)
def test_features(code: str, features: set[str]) -> None:
    uses = decode(bytes.fromhex(code), 0x1000).uses
    assert {name for names in uses for name in names} == features


def test_unknown_bytes_are_reported() -> None:
    (use,) = decode(bytes.fromhex("06 90"), 0x1000).uses.items()  # PUSH ES is not in 64-bit mode
    assert use[0] == UNKNOWN
    assert use[1].text.startswith("bytes 06")


def test_references_and_ends() -> None:
    # lea rax, [rip+0x10]; call 0x2000; ret
    block = decode(bytes.fromhex("48 8d 05 10 00 00 00 e8 f4 0f 00 00 c3"), 0x1000)
    assert block.references == {0x1017, 0x2000}
    assert (block.falls_through, block.calls_last) == (False, False)
    call = decode(bytes.fromhex("e8 fb 0f 00 00 90 90"), 0x1000)  # the padding does not count
    assert (call.falls_through, call.calls_last) == (True, True)
