"""The compiler flags of one CPU level: common ones, the level's and the spec's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..levels import Level
from ..spec import Spec
from ..spec.tune_lock import TuneLock

COMMON_XLA_FLAGS = (
    # Matrix products become thunks of the program instead of kernels: the runtime has its own.
    "--xla_cpu_multi_thread_eigen=true",
    # Fusions of another library would be thunks that need this library at run time.
    "--xla_cpu_experimental_ynn_fusion_type=",
    # Loops over little data would become one kernel whose arguments XLA orders by a hash that
    # differs from process to process; as thunks of the program they are the same in every build.
    "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=0",
)
"""XLA_FLAGS of every program. They decide the machine code: changing one changes every wheel."""


@dataclass(frozen=True)
class Flags:
    """Compiler flags of a job: a process reads them once, so each set needs its own process."""

    xla: tuple[str, ...] = ()
    tf_xla: tuple[str, ...] = ()

    def environment(self) -> dict[str, str]:
        """The variables in which the compiler finds them."""
        return {"XLA_FLAGS": " ".join(self.xla), "TF_XLA_FLAGS": " ".join(self.tf_xla)}


def xla_flags(level: Level, extra: Iterable[str] = ()) -> tuple[str, ...]:
    """The XLA_FLAGS of one CPU level; `extra` are the tuned ones and the spec's, fast-math switches among them."""
    # The order is part of the keys of compile steps and of manifests.
    return (*COMMON_XLA_FLAGS, *level.xla_flags, *extra)


def compiler_flags(spec: Spec, level: Level, tuned: TuneLock) -> Flags:
    """All compiler flags of a spec at one CPU level, with those that `modelwheel tune` has found."""
    # XLA takes the last value of a flag.
    extra = (*tuned.xla_flags.get(level.name, ()), *spec.xla_flags())
    return Flags(xla_flags(level, extra), spec.compilation.tf_xla_flags)
