"""The value of `--additional-flags`: options of `saved_model_cli aot_compile_cpu` that can be obeyed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import UsageError
from ..levels import LEVELS
from ..platforms import PLATFORMS
from ..spec.levels import suggest_level

_OPTION = "--additional-flags"

_SAME_ARCHITECTURES = {"amd64": "x86_64", "x86-64": "x86_64", "arm64": "aarch64"}

_DECIDED_ELSEWHERE = {
    "dir": "model.saved_model of the configuration names the model",
    "signature_def_key": "model.serving_key of the configuration names the signature",
    "output_prefix": "--output-directory and model.name of the configuration name the files",
    "cpp_class": "compilation.namespace and model.name of the configuration name the class",
    "tag_set": "source.tags of the configuration names the tags",
    "checkpoint_path": "the model's own variables are compiled in",
    "variables_to_feed": "the model's own variables are compiled in",
}


@dataclass(frozen=True)
class Target:
    """The target of a compilation."""

    platform: str | None = None
    """The name of a platform; None for this machine."""
    level: str | None = None
    """The only CPU level; None for those of the configuration."""


def parse_flags(text: str) -> Target:
    """The settings that additional flags ask for.

    >>> parse_flags("--target_triple aarch64-unknown-linux-gnu")
    Target(platform='linux-aarch64', level=None)

    Raises:
        UsageError: There is a flag, or a value of one, that cannot be obeyed.
    """
    platform = level = None
    for name, value in _pairs(text):
        if name == "target_triple":
            platform = _platform_of(value)
        elif name == "target_cpu":
            level = _level_of(value)
        elif name == "multithreading":
            if value.lower() not in ("f", "false", "0"):  # as saved_model_cli reads it
                raise UsageError(
                    f"{_OPTION}: --multithreading {value} cannot be obeyed: a compiled model has no threads of its "
                    "own; remove it, and let the program set the number of threads"
                )
        elif name in _DECIDED_ELSEWHERE:
            raise UsageError(f"{_OPTION}: remove --{name}; {_DECIDED_ELSEWHERE[name]}")
        else:
            known = "--target_triple, --target_cpu or --multithreading"
            raise UsageError(f"{_OPTION}: --{name} cannot be obeyed; give {known}, or remove it")
    return Target(platform, level)


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """The flags with their values: `--name value` and `--name=value`, with one dash or two."""
    try:
        words = iter(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"{_OPTION}: {error} in {text!r}; close the quotation") from None
    for word in words:
        if not word.startswith("-"):
            raise UsageError(f"{_OPTION}: {word!r} is not a flag; write --NAME=VALUE")
        name, assigned, value = word.lstrip("-").partition("=")
        if not assigned:
            value = next(words, "")
        if not value:
            raise UsageError(f"{_OPTION}: --{name} has no value; write --{name}=VALUE")
        yield name, value


def _platform_of(triple: str) -> str:
    architecture, *rest = triple.split("-")
    architecture = _SAME_ARCHITECTURES.get(architecture, architecture)
    known = [platform.architecture for platform in PLATFORMS.values() if platform.system == "linux"]
    if "linux" not in rest or any(part.startswith("musl") for part in rest):
        raise UsageError(
            f"{_OPTION}: --target_triple {triple} is not Linux with glibc, on which scram runs; "
            "write it like x86_64-unknown-linux-gnu"
        )
    if architecture not in known:
        raise UsageError(
            f"{_OPTION}: --target_triple {triple}: nothing is compiled for {architecture!r}; choose from "
            f"{', '.join(known)}",
            code="MW204",
        )
    return f"linux-{architecture}"


def _level_of(cpu: str) -> str:
    for level in LEVELS.values():
        if cpu in (level.name, level.march):
            return level.name
    raise UsageError(
        f"{_OPTION}: --target_cpu {cpu} is not a CPU level that models are compiled for; {suggest_level(cpu)}",
        code="MW204",
    )
