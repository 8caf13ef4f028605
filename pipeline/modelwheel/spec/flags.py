"""Flags for XLA: those that a spec may set, those that it must not, and fast arithmetic."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, StrictBool, StrictStr, model_validator

from .fields import Mistake, Section, find_repeats, mistake, mistakes

# TensorFlow splits its flags at blanks and reads quotation marks; in CMSSW they even reach a shell.
FLAG_PATTERN = r"^--[a-z][a-z0-9_]*(=[A-Za-z0-9_.,:/+=-]*)?$"

_OWNED = {
    "xla_cpu_multi_thread_eigen": "decides which steps the runtime sees",
    "xla_cpu_experimental_xnn": "makes steps that the runtime does not know",
    "xla_cpu_experimental_ynn": "makes steps that the runtime does not know",
    "xla_cpu_use_xnnpack": "makes steps that the runtime does not know",
    "xla_cpu_use_thunk_runtime": "decides what the compiler emits",
    "xla_cpu_max_isa": "depends on the CPU level; use `targets`",
    "xla_dump": "writes files while compiling; use --keep-work-dir",
}
"""Beginnings of the names of flags that a spec must not set, and why."""


def flag_name(flag: str) -> str:
    """`xla_foo` of `--xla_foo=1`."""
    return flag.removeprefix("--").partition("=")[0]


def _check_flag(flag: str) -> str:
    if not re.fullmatch(FLAG_PATTERN, flag):
        wrong = "must be a single flag without blanks, quotation marks or shell characters"
        raise mistake(wrong, "Write `--name=value`, one flag for each item of the list")
    for beginning, reason in _OWNED.items():
        if flag_name(flag).startswith(beginning):
            raise mistake(f"{flag_name(flag)} cannot be set in a spec: it {reason}", "Remove it")
    return flag


def _check_xla_flag(flag: str) -> str:
    _check_flag(flag)
    if not flag.startswith("--xla_"):
        hint = "Move it to tf_xla_flags" if flag.startswith("--tf_") else ""
        raise mistake(f"{flag_name(flag)} is not a flag of XLA: those begin with xla_", hint)
    return flag


def _check_repeats(flags: tuple[str, ...]) -> tuple[str, ...]:
    if found := find_repeats(map(flag_name, flags), "{} is set twice"):
        raise mistakes(found)
    return flags


_Flag = Annotated[StrictStr, Field(max_length=512, json_schema_extra={"pattern": FLAG_PATTERN})]
_Repeats = AfterValidator(_check_repeats)
Flags = Annotated[
    tuple[Annotated[_Flag, AfterValidator(_check_flag)], ...], Field(max_length=128), _Repeats
]
"""Flags for TensorFlow's conversion to XLA."""
XlaFlags = Annotated[
    tuple[Annotated[_Flag, AfterValidator(_check_xla_flag)], ...], Field(max_length=128), _Repeats
]
"""Flags for XLA itself."""


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
            raise mistakes(Mistake(wrong, "Add it or remove this", (name,)) for name in useless)
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
