"""How many threads an evaluation may use."""

from __future__ import annotations

import operator
import os
from math import ceil
from pathlib import Path


def resolve(threads: int | None) -> int:
    """A number of threads; None stands for all CPUs that this process may use.

    Raises:
        TypeError: It is not an integer.
        ValueError: It is below 1.
    """
    if threads is None:
        return usable_cpus()
    try:
        count = operator.index(threads)
    except TypeError:
        raise TypeError(f"threads must be an int or None, got {type(threads).__name__}") from None
    if count < 1:
        raise ValueError(f"threads must be at least 1, got {count}; None uses all CPUs")
    return count


def usable_cpus() -> int:
    """The CPUs in this process's affinity mask, or fewer if its control group has a quota of CPU time (Linux)."""
    has_mask = hasattr(os, "sched_getaffinity")
    cpus = len(os.sched_getaffinity(0)) if has_mask else os.cpu_count() or 1
    quota = _quota(Path("/proc/self"), Path("/sys/fs/cgroup"))
    return max(1, min(cpus, ceil(quota))) if quota is not None else cpus


def _quota(process: Path, groups: Path) -> float | None:
    """CPUs' worth of time, the least of all control groups that a process is in; None without a limit."""
    try:
        lines = (process / "cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    found = []
    for _, controllers, path in (line.split(":", 2) for line in lines):
        if controllers == "":  # version 2: https://docs.kernel.org/admin-guide/cgroup-v2.html
            root = groups
        elif "cpu" in controllers.split(","):
            root = groups / "cpu"
        else:
            continue
        group = root / path.lstrip("/")
        found += [_read_quota(one) for one in (group, *group.parents) if one.is_relative_to(root)]
    return min((quota for quota in found if quota is not None), default=None)


def _read_quota(group: Path) -> float | None:
    """Of one control group; None if it has no limit, or is not visible in this container."""
    try:
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text(encoding="ascii").split()
        else:
            quota, period = (
                (group / f"cpu.cfs_{name}_us").read_text(encoding="ascii").strip()
                for name in ("quota", "period")
            )
    except OSError:
        return None
    return None if quota in ("max", "-1") else float(quota) / float(period)
