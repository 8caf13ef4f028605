"""Compiling: a frozen graph becomes machine code and a program for one CPU level and batch size.

The work is done by `modelwheel.compiler.worker.compile`; here it is described.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..levels import Level
from ..platforms import Platform
from ..versions import TENSORFLOW_VERSION
from .freeze import CONFIG, GRAPH
from .jobs import Flags, Job
from .program import PROGRAM_VERSION

VERSION = 1
"""Raised when the same request gives other files; part of every key."""

OUTPUTS = ("kernels.o", "program.json", "constants.bin")
"""The kernels as an object file, the `Program` that calls them, and its constants."""

COMMON_XLA_FLAGS = (
    # Matrix products become steps of the program instead of kernels: the runtime has its own.
    "--xla_cpu_multi_thread_eigen=true",
    # Fusions of another library are steps that need this library at run time.
    "--xla_cpu_experimental_ynn_fusion_type=",
    # Loops over little data would become one kernel whose arguments XLA orders by a hash that
    # differs from process to process; as steps of the program they are the same in every build.
    "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=0",
)
"""What every program is compiled with."""


def xla_flags(level: Level, extra: Iterable[str] = ()) -> tuple[str, ...]:
    """The XLA_FLAGS of one CPU level; `extra` are the spec's, fast-math switches among them."""
    return (*COMMON_XLA_FLAGS, *level.xla_flags, *extra)


def cpp_class(identifier: str, batch: int | None, level: Level) -> str:
    """The class name from which XLA derives its symbols: unique within a wheel and beyond.

    Args:
        identifier: The model's name as an identifier.
        batch: The batch size; None where the signature has no batch axis.
        level: The CPU level.
    """
    rows = "" if batch is None else f"_b{batch}"
    return f"mw::{identifier}{rows}_{level.identifier}"


@dataclass(frozen=True)
class CompileRequest:
    """A request to compile one frozen graph for one CPU level of one platform."""

    platform: Platform
    level: Level
    cpp_class: str
    flags: Flags
    """All of them, as from `xla_flags`."""

    def params(self) -> dict[str, Any]:
        """The request as JSON holds it, apart from the flags, which are the worker's."""
        return {
            "triple": self.platform.triple,
            "cpu": self.level.llvm_cpu,
            "features": self.level.llvm_features,
            "cpp_class": self.cpp_class,
        }

    def key_inputs(self, graph: str, config: str) -> dict[str, Any]:
        """What the outputs depend on; the arguments are the hashes of the two files."""
        return {
            "version": VERSION,
            "program": PROGRAM_VERSION,
            "tensorflow": TENSORFLOW_VERSION,
            "graph": graph,
            "config": config,
            "xla_flags": list(self.flags.xla),
            "tf_xla_flags": list(self.flags.tf_xla),
            **self.params(),
        }

    def job(self, frozen: Path, out: Path) -> Job:
        """The job that writes `OUTPUTS` into `out`; `frozen` is the directory with the graph."""
        inputs = {"graph": frozen / GRAPH, "config": frozen / CONFIG}
        return Job("compile", self.params(), inputs, out, self.flags)
