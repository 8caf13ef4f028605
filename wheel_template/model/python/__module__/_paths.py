"""Where headers, library and build files lie, for programs that use the model from C or C++."""

from __future__ import annotations

import sys
from pathlib import Path

_PACKAGE = Path(__file__).parent
_NAME = _PACKAGE.name

_LIBRARIES = {"win32": f"{_NAME}.dll", "darwin": f"lib/lib{_NAME}.dylib"}


def get_include() -> str:
    """The directory for `#include <...>`."""
    return str(_PACKAGE / "include")


def get_library() -> str:
    """The shared library of the model."""
    return str(_PACKAGE / _LIBRARIES.get(sys.platform, f"lib/lib{_NAME}.so"))


def get_library_dir() -> str:
    """The directory that a linker searches."""
    return str(_PACKAGE / "lib")


def get_cmake_dir() -> str:
    """The directory for CMake's `find_package`: its variable `<package>_DIR`."""
    return str(_PACKAGE / "lib" / "cmake" / _NAME)


def get_pkgconfig_dir() -> str:
    """The directory for `PKG_CONFIG_PATH`."""
    return str(_PACKAGE / "lib" / "pkgconfig")
