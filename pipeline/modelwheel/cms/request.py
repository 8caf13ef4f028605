"""The request of `cms_tfaot_compile`: its configuration and flags."""

from __future__ import annotations

from pathlib import Path

from ..errors import SpecError, UsageError
from ..platforms import host_platform
from ..request import Request, make_request
from ..spec import Spec, load_spec
from ..spec.package import Interface
from .flags import Target, parse_flags

_INTERFACES: tuple[Interface, ...] = ("c", "cpp", "python", "cmssw")


def make_tool_request(config: Path, additional_flags: str) -> Request:
    """The request for a configuration of CMS, or for a spec of modelwheel.

    Raises:
        SpecError: The file is not there, or has mistakes.
        UsageError: A flag cannot be obeyed, or nothing can be compiled for this machine.
    """
    target = parse_flags(additional_flags)
    if not config.is_file():
        raise SpecError(f"--aot-config: there is no file {str(config)!r}")
    spec = _for_cmssw(load_spec(config))
    if spec.compilation.cpp_class is not None:
        raise SpecError(
            f"{config}: compilation.cpp_class: the classes of a tool are NAME_bsN in compilation.namespace; remove it, or "
            "build a bundle (modelwheel bundle)"
        )
    return make_request(spec, *_narrow(target), platforms=[_platform(target)])


def _for_cmssw(spec: Spec) -> Spec:
    """The spec with the headers that a tool needs, whatever its wheel has."""
    package = spec.package.model_copy(update={"interfaces": _INTERFACES})
    return spec.model_copy(update={"package": package})


def _narrow(target: Target) -> tuple[list[str], tuple[()]]:
    return ([target.level] if target.level else [], ())


def _platform(target: Target) -> str:
    if target.platform is not None:
        return target.platform
    here = host_platform()
    if here.system != "linux":
        raise UsageError(
            f"tools of scram are for Linux, and this is {here.name}; add "
            "--additional-flags=--target_triple=x86_64-unknown-linux-gnu"
        )
    return here.name
