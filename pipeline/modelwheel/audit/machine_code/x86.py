"""x86-64 machine code: the CPU features that each instruction needs, and the addresses it refers to.

iced-x86 knows the CPUID features of every instruction form. Capstone's groups are not enough: FMA, POPCNT,
LZCNT, VNNI, VBMI and half of AVX-512 have none, so they would pass for the baseline.
"""

from __future__ import annotations

from functools import cache
from typing import cast

import iced_x86 as iced

from .code import Block, Use

ALIGNMENT = 1
"""Instructions may start at any byte."""

UNKNOWN = frozenset({"unknown encoding"})
"""Stands for data in the code, or an instruction newer than the decoder (APX, AVX10)."""

_BASELINE_NAMES = """
INTEL8086 INTEL8086_ONLY INTEL186 INTEL286 INTEL386 INTEL486 X64 FPU FPU287 FPU387 CMOV CX8 MMX SSE SSE2
FXSR CLFSH CPUID TSC SYSCALL PAUSE MULTIBYTENOP
"""
_BASELINE = frozenset(_BASELINE_NAMES.split())
"""Features of every x86-64 CPU (psABI, table 3.1), in iced's names."""

_HARMLESS = {
    "TZCNT": "older CPUs run it as BSF; compilers emit it where both are the same: the operand is not zero",
    "XGETBV": "cpu_level.cpp uses it after CPUID has reported OSXSAVE",
    "ENDBR64": "older CPUs run it as a NOP; Intel had reserved the encoding",
}
"""Instructions beyond the baseline that are allowed everywhere, each with the reason."""

_LEVEL_2_ONLY = frozenset({iced.Code.LAHF, iced.Code.SAHF})
"""The first 64-bit CPUs lacked them in 64-bit code; iced reports them as 8086 instructions."""

_FEATURES = {value: name for name, value in vars(iced.CpuidFeature).items() if name.isupper()}
_MNEMONICS = {value: name for name, value in vars(iced.Mnemonic).items() if name.isupper()}

_JUMPS = (iced.FlowControl.CONDITIONAL_BRANCH, iced.FlowControl.UNCONDITIONAL_BRANCH)
_ENDS = (
    iced.FlowControl.UNCONDITIONAL_BRANCH,
    iced.FlowControl.INDIRECT_BRANCH,
    iced.FlowControl.RETURN,
    iced.FlowControl.EXCEPTION,
)
_CALLS = (iced.FlowControl.CALL, iced.FlowControl.INDIRECT_CALL)
_PADDING = frozenset(
    code for name, code in vars(iced.Code).items() if name.startswith(("NOP", "INT3"))
) | {iced.Code.ADD_RM8_R8}
"""Padding between functions. Zero bytes decode as `add [rax], al`, with which no function ends."""


@cache
def _needs(code: int) -> frozenset[str]:
    """The features beyond the baseline that one instruction form needs."""
    if code == iced.Code.INVALID:
        return UNKNOWN
    if code in _LEVEL_2_ONLY:
        return frozenset({"LAHF"})
    instruction = iced.Instruction.create(cast("iced.Code_", code))
    if _MNEMONICS[instruction.mnemonic] in _HARMLESS:
        return frozenset()
    return frozenset(_FEATURES[f] for f in instruction.cpuid_features()) - _BASELINE


def decode(content: bytes, address: int) -> Block:
    """Decodes code: the features it needs and the addresses it refers to."""
    block, last = Block(), None
    for instruction in iced.Decoder(64, content, ip=address):
        code = instruction.code
        block.asks_for_features |= instruction.mnemonic == iced.Mnemonic.CPUID
        if features := _needs(code):
            start = instruction.ip - address
            if code == iced.Code.INVALID and not content[start:].strip(b"\0"):
                break  # the zero bytes after a function end in half an instruction
            if features in block.uses:
                block.uses[features].count += 1
            else:
                text = _text(instruction, content[start : start + 8])
                block.uses[features] = Use(instruction.ip, text)
        # Position-independent code names every address relative to the instruction pointer, so no other
        # operand matters.
        flow = instruction.flow_control
        # First, because `jmp [rip + slot]` goes through the GOT: unlike for other indirect jumps,
        # the target is known, and the function can still be split.
        if instruction.is_ip_rel_memory_operand:
            block.references.add(instruction.ip_rel_memory_address)
        elif flow != iced.FlowControl.NEXT:
            _follow(block, instruction, flow)
        if code not in _PADDING:
            last = flow
    block.falls_through = last is not None and last not in _ENDS
    block.calls_last = last in _CALLS
    return block


def _follow(block: Block, instruction: iced.Instruction, flow: int) -> None:
    if flow in _JUMPS:
        block.jumps.add(instruction.near_branch_target)
    elif flow == iced.FlowControl.CALL:
        block.references.add(instruction.near_branch_target)
    elif flow == iced.FlowControl.INDIRECT_BRANCH:
        block.jumps_indirectly = True


def _text(instruction: iced.Instruction, content: bytes) -> str:
    if instruction.code == iced.Code.INVALID:
        return f"bytes {content.hex(' ')}"
    return iced.Formatter(iced.FormatterSyntax.INTEL).format(instruction)
