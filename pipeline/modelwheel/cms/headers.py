"""The headers of a model in one directory, all ending in `.h`: CMSDIST moves them by that name.

Includes between them name files beside them; those of the framework (`PhysicsTools/...`) stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

ENTRY = "model.h"
"""The header that plugins include."""

_INCLUDE = re.compile(r'^(\s*#\s*include\s+)[<"]([^>"]+)[>"]', re.MULTILINE)
_OF_FRAMEWORK = "PhysicsTools"


def flatten_headers(include: Path, directory: str) -> Mapping[str, bytes]:
    """The model's entry header and all that it includes, by the names that they have in one directory.

    Args:
        include: The headers of a bundle.
        directory: The directory there that has the entry header.
    """
    flat: dict[str, bytes] = {}
    waiting = [PurePosixPath(directory, ENTRY)]
    while waiting:
        header = waiting.pop()
        if _flat_name(header, directory) in flat:
            continue
        text = (include / header).read_text(encoding="utf-8")
        needed = [PurePosixPath(match[2]) for match in _INCLUDE.finditer(text)]
        own = {str(one): one for one in needed if _is_own(one, include)}
        waiting += own.values()

        def beside(match: re.Match[str], own: Mapping[str, PurePosixPath] = own) -> str:
            if match[2] not in own:
                return match[0]
            return f'{match[1]}"{_flat_name(own[match[2]], directory)}"'

        flat[_flat_name(header, directory)] = _INCLUDE.sub(beside, text).encode()
    return flat


def _is_own(header: PurePosixPath, include: Path) -> bool:
    return header.parts[0] != _OF_FRAMEWORK and (include / header).is_file()


def _flat_name(header: PurePosixPath, directory: str) -> str:
    r"""`modelwheel/buffer.hpp` becomes `modelwheel_buffer.h`, `tfaot-model-NAME/model.h` becomes `model.h`."""
    parts = header.parts[1:] if header.parts[0] == directory else header.parts
    return "_".join(parts).removesuffix(".hpp").removesuffix(".h") + ".h"
