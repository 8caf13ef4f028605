"""The places of headers, library and build files, for C and C++ programs that use the model."""

from __future__ import annotations

import os.path  # not pathlib: importing that would take longer than everything else here
import sys

_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_NAME = os.path.basename(_PACKAGE)

_LIBRARIES = {
    "win32": (f"{_NAME}.dll",),
    "darwin": ("lib", f"lib{_NAME}.dylib"),
}


def get_include() -> str:
    """The directory for `#include <...>`."""
    return _find("include")


def get_library() -> str:
    """The shared library of the model."""
    return os.path.join(_PACKAGE, *_LIBRARIES.get(sys.platform, ("lib", f"lib{_NAME}.so")))


def get_library_dir() -> str:
    """The directory that a linker searches."""
    return os.path.join(_PACKAGE, "lib")


def get_cmake_dir() -> str:
    """The directory for CMake's `find_package`: its variable `<package>_DIR`."""
    return _find("lib", "cmake", _NAME)


def get_pkgconfig_dir() -> str:
    """The directory for `PKG_CONFIG_PATH`."""
    return _find("lib", "pkgconfig")


def _find(*parts: str) -> str:
    path = os.path.join(_PACKAGE, *parts)
    if not os.path.isdir(path):
        message = f"{_NAME} has no headers: package.interfaces of its spec leaves out C"
        raise FileNotFoundError(message)
    return path
