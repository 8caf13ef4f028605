"""Features of Arm's instructions, by mnemonic and operands."""

from __future__ import annotations

import pytest

from modelwheel.audit.machine_code.aarch64 import UNKNOWN, decode, needs


@pytest.mark.parametrize(
    ("mnemonic", "operands", "feature"),
    [
        ("add", "x0, x1, x2", ""),
        ("fadd", "v0.4s, v1.4s, v2.4s", ""),
        ("fadd", "v0.8h, v1.8h, v2.8h", "FP16"),
        ("fcvt", "h0, s1", ""),  # the conversion is in Armv8.0-A, arithmetic is not
        ("fmul", "h0, h1, h2", "FP16"),
        ("b.eq", "#0x1000", ""),
        ("bc.eq", "#0x1000", "HBC"),
        ("ldaddal", "x0, x1, [x2]", "LSE"),
        ("casal", "w0, w1, [x2]", "LSE"),
        ("ldaxr", "w0, [x1]", ""),
        ("sdot", "v0.4s, v1.16b, v2.16b", "DOTPROD"),
        ("usdot", "v0.4s, v1.16b, v2.16b", "I8MM"),
        ("sqrdmlah", "v0.4s, v1.4s, v2.4s", "RDM"),
        ("crc32cb", "w0, w1, w2", "CRC"),
        ("pmull", "v0.8h, v1.8b, v2.8b", ""),
        ("pmull", "v0.1q, v1.1d, v2.1d", "AES"),
        ("add", "z0.s, z0.s, z1.s", "SVE"),
        ("ldr", "za[w12, 0], [x0]", "SME"),
        ("retaa", "", "PAC"),
        ("paciasp", "", ""),  # a hint: older CPUs do nothing
        ("frobnicate", "x0", UNKNOWN),
    ],
)
def test_features(mnemonic: str, operands: str, feature: str) -> None:
    assert needs(mnemonic, operands) == feature


def words(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "little") for value in values)


def test_addresses_are_put_together() -> None:
    # adrp x0, #0x2000; add x0, x0, #0x10; bl #0x1010; ret
    block = decode(words(0xB0000000, 0x91004000, 0x94000002, 0xD65F03C0), 0x1000)
    assert block.references == {0x2010, 0x1010}
    assert not block.falls_through


def test_an_unknown_word_does_not_stop_the_decoder() -> None:
    block = decode(words(0xFFFFFFFF, 0xD65F03C0), 0x1000)
    assert frozenset({UNKNOWN}) in block.uses
    assert not block.falls_through
