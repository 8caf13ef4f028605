"""AArch64 machine code: the features beyond Armv8-A that each instruction needs, and the addresses it refers to.

Capstone disassembles, but its instruction groups do not cover LSE, FP16 and SVE. Features are derived from
mnemonic and operands instead, following the Arm Architecture Reference Manual (DDI 0487): all mnemonics of
Armv8.0-A are listed here, and any other mnemonic is beyond it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

import capstone

from .code import Block, Use

ALIGNMENT = 4
"""The size of every instruction, in bytes."""

UNKNOWN = "unknown encoding"
"""Stands for data in the code, or an instruction newer than the decoder."""

_BASE_MNEMONICS = """
abs adc adcs add addhn addhn2 addp adds addv adr adrp and ands asr at b bfc bfi bfxil bic bics bif
bit bl blr br brk bsl cbnz cbz ccmn ccmp cinc cinv clrex cls clz cmeq cmge cmgt cmhi cmhs cmle cmlt
cmn cmp cmtst cneg cnt csel cset csetm csinc csinv csneg dc dmb dsb dup eon eor ext extr fabd fabs
facge facgt fadd faddp fccmp fccmpe fcmeq fcmge fcmgt fcmle fcmlt fcmp fcmpe fcsel fcvt fcvtas fcvtau
fcvtl fcvtl2 fcvtms fcvtmu fcvtn fcvtn2 fcvtns fcvtnu fcvtps fcvtpu fcvtxn fcvtxn2 fcvtzs fcvtzu fdiv
fmadd fmax fmaxnm fmaxnmp fmaxnmv fmaxp fmaxv fmin fminnm fminnmp fminnmv fminp fminv fmla fmls fmov
fmsub fmul fmulx fneg fnmadd fnmsub fnmul frecpe frecps frecpx frinta frinti frintm frintn frintp
frintx frintz frsqrte frsqrts fsqrt fsub hint hlt hvc ic ins isb ld1 ld1r ld2 ld2r ld3 ld3r ld4 ld4r
ldar ldarb ldarh ldaxp ldaxr ldaxrb ldaxrh ldnp ldp ldpsw ldr ldrb ldrh ldrsb ldrsh ldrsw ldtr ldtrb
ldtrh ldtrsb ldtrsh ldtrsw ldur ldurb ldurh ldursb ldursh ldursw ldxp ldxr ldxrb ldxrh lsl lsr madd
mla mls mneg mov movi movk movn movz mrs msr msub mul mvn mvni neg negs ngc ngcs nop not orn orr pmul
pmull pmull2 prfm prfum raddhn raddhn2 rbit ret rev rev16 rev32 rev64 ror rshrn rshrn2 rsubhn rsubhn2
saba sabal sabal2 sabd sabdl sabdl2 sadalp saddl saddl2 saddlp saddlv saddw saddw2 sbc sbcs sbfiz
sbfx scvtf sdiv sev sevl shadd shl shll shll2 shrn shrn2 shsub sli smaddl smax smaxp smaxv smc smin
sminp sminv smlal smlal2 smlsl smlsl2 smnegl smov smsubl smulh smull smull2 sqabs sqadd sqdmlal
sqdmlal2 sqdmlsl sqdmlsl2 sqdmulh sqdmull sqdmull2 sqneg sqrdmulh sqrshl sqrshrn sqrshrn2 sqrshrun
sqrshrun2 sqshl sqshlu sqshrn sqshrn2 sqshrun sqshrun2 sqsub sqxtn sqxtn2 sqxtun sqxtun2 srhadd sri
srshl srshr srsra sshl sshll sshll2 sshr ssra ssubl ssubl2 ssubw ssubw2 st1 st2 st3 st4 stlr stlrb
stlrh stlxp stlxr stlxrb stlxrh stnp stp str strb strh sttr sttrb sttrh stur sturb sturh stxp stxr
stxrb stxrh sub subhn subhn2 subs suqadd svc sxtb sxth sxtw sys sysl tbl tbnz tbx tbz trn1 trn2 tst
uaba uabal uabal2 uabd uabdl uabdl2 uadalp uaddl uaddl2 uaddlp uaddlv uaddw uaddw2 ubfiz ubfx ucvtf
udf udiv uhadd uhsub umaddl umax umaxp umaxv umin uminp uminv umlal umlal2 umlsl umlsl2 umnegl umov
umsubl umulh umull umull2 uqadd uqrshl uqrshrn uqrshrn2 uqshl uqshrn uqshrn2 uqsub uqxtn uqxtn2
urecpe urhadd urshl urshr ursqrte ursra ushl ushll ushll2 ushr usqadd usra usubl usubl2 usubw usubw2
uxtb uxth uzp1 uzp2 wfe wfi xtn xtn2 yield zip1 zip2
"""
_BASE = frozenset(_BASE_MNEMONICS.split())

_HINT_MNEMONICS = """
autia1716 autiasp autiaz autib1716 autibsp autibz bti csdb dgh esb pacia1716 paciasp paciaz
pacib1716 pacibsp pacibz psb tsb xpaclri
"""
_HINTS = frozenset(_HINT_MNEMONICS.split())
"""Encodings of HINT: CPUs that do not know them run them as NOP, by definition (DDI 0487, C6.2)."""

_BEYOND = (
    (r"(cas|swp)(a|l|al)?[bhp]?$|casp(a|l|al)?$", "LSE"),
    (r"(ld|st)(add|clr|eor|set|smax|smin|umax|umin)(a|l|al)?[bh]?$", "LSE"),
    (r"sqrdml[as]h$", "RDM"),
    (r"crc32", "CRC"),
    (r"[su]dot$", "DOTPROD"),
    (r"fml[as]l2?$", "FHM"),
    (r"ldapu?r|stlur", "RCPC"),
    (r"fjcvtzs$", "JSCVT"),
    (r"fcmla$|fcadd$", "FCMA"),
    (r"frint(32|64)", "FRINTTS"),
    (r"aes|pmull", "AES"),
    (r"sha(1|256)", "SHA2"),
    (r"sha512|eor3$|rax1$|xar$|bcax$", "SHA3"),
    (r"cfinv$|rmif$|setf|[ax]+flag$", "FLAGM"),
    (r"bf|bfcvt", "BF16"),
    (r"(s|u|us)mmla$|(us|su)dot$", "I8MM"),
    (r"(pac|aut|xpac|ret|br|blr|ldr|eret)[abdghi]", "PAC"),
    # `cntd` and `stg` come before the patterns that match them, too: extensions may use these two
    # alone (gates/instructions.py).
    (r"cntd$", "SVE (cntd)"),
    (r"(cnt|rd|add)[bhwvp]l?$|addpl$", "SVE"),
    (r"stg$", "MTE (stg)"),
    (r"(st|stz|ld)2?gm?$|stgp$|irg$|gmi$|addg$|subg$|subps?$", "MTE"),
    (r"smst(art|op)$|(add|rd)s[vp]l$", "SME"),
)
"""Features beyond Armv8.0-A by patterns of mnemonics; the first match counts. Levels and platforms use the
same names."""

_SCALABLE = re.compile(r"\b(z\d|p\d+(/|\.|,|\b))")
_MATRIX = re.compile(r"\bza\b|\bza\[")
_HALF = re.compile(r"\bh\d|\.[48]h|\.h\[")
_HALF_CONVERSIONS = frozenset(("fcvt", "fcvtl", "fcvtl2", "fcvtn", "fcvtn2"))
_FLOAT = re.compile(r"f|[su]cvtf$")


@cache
def _needs_by_mnemonic(mnemonic: str) -> str:
    plain = mnemonic.partition(".")[0]
    # First, because some patterns of _BEYOND also match base mnemonics (`bfi`, `ldrb`).
    if plain in _BASE or plain in _HINTS:
        return ""
    return next((name for pattern, name in _BEYOND if re.match(pattern, plain)), UNKNOWN)


def needs(mnemonic: str, operands: str) -> str:
    """The feature that an instruction needs; empty for Armv8.0-A itself."""
    if _MATRIX.search(operands):
        return "SME"
    if _SCALABLE.search(operands):
        return "SVE"
    if mnemonic.startswith("pmull") and ".1q" in operands:
        return "AES"
    if mnemonic == "bc" or mnemonic.startswith("bc."):
        return "HBC"
    # Only arithmetic on halves is FP16: Armv8.0-A converts between half and single precision, and
    # integers have lanes of 16 bits, too (`add v0.8h, ...`).
    features = _needs_by_mnemonic(mnemonic)
    if features or mnemonic in _HALF_CONVERSIONS or not _FLOAT.match(mnemonic):
        return features
    return "FP16" if _HALF.search(operands) else ""


_ADDRESS = re.compile(r"#(0x[0-9a-f]+|\d+)$")
_ADDED = re.compile(r"x\d+, (x\d+), #(0x[0-9a-f]+|\d+)$")
_LOADED = re.compile(r"x\d+, \[(x\d+)(?:, #(0x[0-9a-f]+|\d+))?\]$")
_READING = ("st", "c", "t", "b")
"""Prefixes of mnemonics that do not write to their first operand: stores, comparisons, branches."""

_ENDS = frozenset(("b", "br", "ret", "eret", "brk", "udf", "hlt"))
_CALLS = frozenset(("bl", "blr"))
_NEEDS = cache(needs)


class _Addresses:
    """Addresses that code computes from a page (`adrp`) and an offset (`add` or `ldr`).

    Compilers usually emit one right after the other. Basic blocks may be laid out in another order than
    they run, so every offset that is added to a register is also combined with every page that the register
    ever holds.
    """

    def __init__(self) -> None:
        self.certain: set[int] = set()
        self._held: dict[str, int] = {}
        self._pages: dict[str, set[int]] = defaultdict(set)
        self._offsets: dict[str, set[int]] = defaultdict(set)

    def see(self, mnemonic: str, operands: str) -> None:
        """Records one instruction."""
        if mnemonic == "adrp":
            register, _, page = operands.partition(", ")
            self._held[register] = int(page[1:], 0)
            self._pages[register].add(self._held[register])
            return
        if mnemonic in ("add", "ldr"):
            self._add((_ADDED if mnemonic == "add" else _LOADED).match(operands))
        # Some with these prefixes do write (`csel`, `bic`). A stale page that is kept only adds an
        # edge too many. The first letter is replaced because writing w0 changes x0.
        if self._held and not mnemonic.startswith(_READING):
            self._held.pop("x" + operands.partition(",")[0][1:], None)

    def _add(self, match: re.Match[str] | None) -> None:
        if match:
            offset = int(match[2] or "0", 0)
            self._offsets[match[1]].add(offset)
            if match[1] in self._held:
                self.certain.add(self._held[match[1]] + offset)

    def candidates(self) -> Iterator[int]:
        """All combinations of pages and offsets."""
        for register, pages in self._pages.items():
            for page in pages:
                yield from (page + offset for offset in self._offsets[register])


def decode(content: bytes, address: int) -> Block:
    """Decodes code: the features it needs and the addresses it refers to."""
    block, addresses, last = Block(), _Addresses(), ""
    for position, mnemonic, operands in _disassemble(content, address):
        need = _NEEDS(mnemonic, operands) if mnemonic else UNKNOWN
        if need:
            use = block.uses.setdefault(
                frozenset({need}), Use(position, f"{mnemonic} {operands}".strip(), 0)
            )
            use.count += 1
        addresses.see(mnemonic, operands)
        if mnemonic in ("bl", "adr"):
            block.references.add(_address(operands))
        elif mnemonic[:1] in "bct" and (mnemonic == "b" or mnemonic[:2] in ("b.", "cb", "tb")):
            # Table lookups in vectors, not branches.
            if mnemonic not in ("tbl", "tbx"):
                block.jumps.add(_address(operands))
        elif mnemonic == "br":
            block.jumps_indirectly = True
        elif mnemonic.startswith(("ldxr", "ldaxr", "ldxp", "ldaxp")):
            block.loads_exclusively = True
        # Padding follows functions: nop does not count, and zeros decode as udf, which is an end.
        if mnemonic != "nop":
            last = mnemonic
    block.references |= addresses.certain
    block.candidates.update(addresses.candidates())
    block.falls_through = last not in _ENDS
    block.calls_last = last in _CALLS
    return block


def _address(operands: str) -> int:
    match = _ADDRESS.search(operands)
    return int(match[1], 0) if match else 0


_ADDSVL, _ADDSVL_MASK = 0x04205800, 0xFFE0F800
"""Encoding and mask of ADDSVL (SME), which Capstone 5 does not know."""

_WINDOW = 1 << 16
"""Bytes disassembled at a time: after an unknown instruction Capstone starts again with a copy of the rest."""


def _disassemble(content: bytes, address: int) -> Iterator[tuple[int, str, str]]:
    """Address, mnemonic and operands of every word; an empty mnemonic where it is not an instruction."""
    disassembler = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)
    offset = 0
    while offset < len(content):
        # A window is a multiple of four bytes, so no instruction is cut.
        end = min(offset + _WINDOW, len(content))
        for position, size, mnemonic, operands in disassembler.disasm_lite(
            content[offset:end], address + offset
        ):
            yield position, mnemonic, operands
            offset = position - address + size
        # Capstone stops at a word that it does not know: report the word, and go on after it.
        if offset < end:
            word = content[offset : offset + 4]
            known = int.from_bytes(word, "little") & _ADDSVL_MASK == _ADDSVL
            yield address + offset, "addsvl" if known else "", f"bytes {word.hex(' ')}"
            offset += 4
