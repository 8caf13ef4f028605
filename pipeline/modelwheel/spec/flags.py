"""Flags for XLA: those that a spec may set, and fast arithmetic.

XLA and LLVM have hundreds of flags, and some write files, read them or load code: `xla_dump_to`, but also
`xla_backend_extra_options=-ir-dump-directory=...`. So a spec may set only flags on a list.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field, StrictBool, StrictStr, model_validator

from .fields import Mistake, Section, find_repeats, mistake, mistakes

# TensorFlow splits its flags at blanks and reads quotation marks; in CMSSW they even reach a shell.
FLAG_PATTERN = r"^--[a-z][a-z0-9_]*(=[A-Za-z0-9_.,:/+=-]*)?$"

_SWITCH = r"(=(true|false|0|1))?"
_LEVEL, _WIDTH, _NUMBER = r"=[0-3]", r"=(128|256|512)", r"=[0-9]{1,9}"
_WORDS = {
    _SWITCH: "true or false",
    _LEVEL: "a level from 0 to 3",
    _WIDTH: "128, 256 or 512",
    _NUMBER: "a number",
}
_ALLOWED_XLA = {
    "xla_allow_excess_precision": _SWITCH,
    "xla_backend_optimization_level": _LEVEL,
    "xla_cpu_copy_insertion_use_region_analysis": _SWITCH,
    "xla_cpu_disable_loop_unrolling": _SWITCH,
    "xla_cpu_disable_platform_dependent_math": _SWITCH,
    "xla_cpu_disable_slp_vectorizer": _SWITCH,
    "xla_cpu_enable_fast_math": _SWITCH,
    "xla_cpu_enable_fast_min_max": _SWITCH,
    "xla_cpu_enable_platform_dependent_math": _SWITCH,
    "xla_cpu_fast_math_honor_division": _SWITCH,
    "xla_cpu_fast_math_honor_functions": _SWITCH,
    "xla_cpu_fast_math_honor_infs": _SWITCH,
    "xla_cpu_fast_math_honor_nans": _SWITCH,
    "xla_cpu_optimize_for_size": _SWITCH,
    "xla_cpu_prefer_vector_width": _WIDTH,
    "xla_cpu_strict_dot_conv_math": _SWITCH,
    "xla_llvm_disable_expensive_passes": _SWITCH,
    "xla_llvm_enable_alias_scope_metadata": _SWITCH,
    "xla_llvm_enable_invariant_load_metadata": _SWITCH,
    "xla_llvm_enable_noalias_metadata": _SWITCH,
    "xla_llvm_force_inline_before_split": _SWITCH,
}
"""Flags that only change the generated code, and the patterns of their values."""
_ALLOWED_TF_XLA = {
    "tf_xla_cpu_global_jit": _SWITCH,
    "tf_xla_deterministic_cluster_names": _SWITCH,
    "tf_xla_max_cluster_size": _NUMBER,
    "tf_xla_min_cluster_size": _NUMBER,
}
_PROPOSE = "propose a flag that only changes generated code for spec/flags.py of modelwheel"

_REASONS = {
    "xla_cpu_multi_thread_eigen": "decides which steps the runtime sees",
    "xla_cpu_experimental_xnn": "makes steps that the runtime does not know",
    "xla_cpu_experimental_ynn": "makes steps that the runtime does not know",
    "xla_cpu_use_xnnpack": "makes steps that the runtime does not know",
    "xla_cpu_use_thunk_runtime": "decides what the compiler emits",
    "xla_cpu_max_isa": "depends on the CPU level; use `targets`",
    "xla_dump": "writes files while compiling; use --keep-work-dir",
    "xla_backend_extra_options": "passes any option to LLVM, which can write files",
    "tf_xla_persistent_cache": "writes files while compiling",
}
"""Beginnings of the names of flags that authors may look for, and why a spec must not set them."""


def flag_name(flag: str) -> str:
    """`xla_foo` of `--xla_foo=1`."""
    return flag.removeprefix("--").partition("=")[0]


def _check_form(flag: str) -> None:
    if not re.fullmatch(FLAG_PATTERN, flag):
        wrong = "must be a single flag without blanks, quotation marks or shell characters"
        raise mistake(
            wrong, "Write `--name=value`, one flag for each item of the list", code="MW116"
        )


def _check_allowed(flag: str, allowed: Mapping[str, str]) -> str:
    name = flag_name(flag)
    for beginning, reason in _REASONS.items():
        if name.startswith(beginning):
            raise mistake(f"{name} cannot be set in a spec: it {reason}", "Remove it", code="MW116")
    if name not in allowed:
        near = difflib.get_close_matches(name, allowed, n=3, cutoff=0.5)
        known = f"Near it are {', '.join(near)}" if near else "The list is in docs/refused.md"
        raise mistake(
            f"{name} is not a flag that a spec may set", f"{known}; {_PROPOSE}", code="MW116"
        )
    value = flag.removeprefix(f"--{name}")
    if not re.fullmatch(allowed[name], value):
        wrong = f"{name} cannot be set to {value.removeprefix('=') or 'nothing'!r}"
        raise mistake(wrong, f"Give it {_WORDS[allowed[name]]}", code="MW116")
    return flag


def _check_tf_xla_flag(flag: str) -> str:
    _check_form(flag)
    return _check_allowed(flag, _ALLOWED_TF_XLA)


def _check_xla_flag(flag: str) -> str:
    _check_form(flag)
    if not flag.startswith("--xla_"):
        hint = "Move it to tf_xla_flags" if flag.startswith("--tf_") else ""
        raise mistake(
            f"{flag_name(flag)} is not a flag of XLA: those begin with xla_", hint, code="MW116"
        )
    return _check_allowed(flag, _ALLOWED_XLA)


_TFCOMPILE_DEFAULTS = {
    "experimental_quantize": r"=(false|0)",
    "gen_name_to_index": r"(=(true|1))?",
    "gen_program_shape": r"=(false|0)",
    "mlir_components": r"=(None)?",
    "sanitize_dataflow": r"=(false|0)",
}
"""Flags of tfcompile itself whose value may only be what always holds here."""

_TFCOMPILE_INSTEAD = {
    "config": "Use source.config",
    "cpp_class": "Use compilation.cpp_class",
    "debug_info": "Remove it: messages name the nodes of the graph",
    "dump_fetch_nodes": "Use `modelwheel inspect`, which lists the outputs",
    "entry_point": "Remove it: functions are named after the model",
    "experimental_quantize": "Use package.weights_storage",
    "gen_name_to_index": "Remove it: the generated classes always have names",
    "gen_program_shape": "Remove it: GetArgName, arg_size and the C table describe the tensors",
    "graph": "Use source.path",
    "mlir_components": "Remove it: graphs are converted without MLIR",
    "out_": "Remove it: the command's --out decides where files are",
    "sanitize_": "Remove it: machine code has no instrumentation",
    "target_cpu": "Use targets, which takes CPU levels",
    "target_features": "Use targets, which takes CPU levels",
    "target_triple": "Use the command's --platform",
    "tf_xla_": "Move it to tf_xla_flags",
    "use_xla_nanort_runtime": "Remove it: the runtime is modelwheel's",
}
"""Beginnings of the names of flags of tfcompile that cannot be set, and what has their place."""


def _check_tfcompile_flag(flag: str) -> str:
    _check_form(flag)
    name = flag_name(flag)
    if name.startswith("xla_"):
        return _check_allowed(flag, _ALLOWED_XLA)
    pattern = _TFCOMPILE_DEFAULTS.get(name)
    if pattern is not None and re.fullmatch(pattern, flag.removeprefix(f"--{name}")):
        return flag
    for beginning, instead in _TFCOMPILE_INSTEAD.items():
        if name.startswith(beginning):
            raise mistake(f"{flag} of tfcompile cannot be set in a spec", instead, code="MW116")
    known = "Flags of XLA begin with xla_; docs/refused.md has the list"
    raise mistake(f"{name} is not a flag of tfcompile", known, code="MW116")


def _check_repeats(flags: tuple[str, ...]) -> tuple[str, ...]:
    if repeats := find_repeats(map(flag_name, flags), "{} is set twice"):
        raise mistakes(repeats)
    return flags


_Flag = Annotated[StrictStr, Field(max_length=512, json_schema_extra={"pattern": FLAG_PATTERN})]
_Repeats = AfterValidator(_check_repeats)
Flags = Annotated[
    tuple[Annotated[_Flag, AfterValidator(_check_tf_xla_flag)], ...],
    Field(max_length=128),
    _Repeats,
]
"""Flags for TensorFlow's conversion to XLA."""
XlaFlags = Annotated[
    tuple[Annotated[_Flag, AfterValidator(_check_xla_flag)], ...], Field(max_length=128), _Repeats
]
"""Flags for XLA itself."""

TfcompileFlags = Annotated[
    tuple[Annotated[_Flag, AfterValidator(_check_tfcompile_flag)], ...],
    Field(max_length=128),
    _Repeats,
]
"""Flags as tfcompile's command line has them."""


class FastMath(Section):
    """Relaxations of IEEE arithmetic that XLA's CPU compiler may use; all are off by default."""

    enable: StrictBool = Field(
        default=False,
        description="Allow reordering of sums and products; needed for the four below.",
    )
    ignore_nans: StrictBool = Field(default=False, description="Assume that no value is NaN.")
    ignore_infs: StrictBool = Field(default=False, description="Assume that no value is infinite.")
    approximate_division: StrictBool = Field(
        default=False, description="Divide by multiplying with an approximate reciprocal."
    )
    approximate_functions: StrictBool = Field(
        default=False, description="Use approximations of elementary functions."
    )
    fast_min_max: StrictBool = Field(
        default=False,
        description="Let minimum and maximum not pass on NaN; independent of `enable`.",
    )

    @model_validator(mode="after")
    def _check_enabled(self) -> FastMath:
        useless = [name for name in _NEED_ENABLE if getattr(self, name) and not self.enable]
        if useless:
            wrong = "has no effect without `enable: true`"
            raise mistakes(
                Mistake(wrong, "Add it or remove this", (name,), code="MW116") for name in useless
            )
        return self

    def xla_flags(self) -> tuple[str, ...]:
        """Every flag of XLA that relaxes arithmetic on CPUs, each set explicitly.

        XLA's defaults changed between versions, so none is relied on.
        """
        values = {
            "xla_cpu_enable_fast_math": self.enable,
            "xla_cpu_fast_math_honor_nans": not self.ignore_nans,
            "xla_cpu_fast_math_honor_infs": not self.ignore_infs,
            "xla_cpu_fast_math_honor_division": not self.approximate_division,
            "xla_cpu_fast_math_honor_functions": not self.approximate_functions,
            "xla_cpu_enable_fast_min_max": self.fast_min_max,
        }
        return tuple(f"--{name}={str(value).lower()}" for name, value in values.items())


_NEED_ENABLE = ("ignore_nans", "ignore_infs", "approximate_division", "approximate_functions")
