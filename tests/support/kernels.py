"""The hand-written kernels as tests compile them: every header, what is rendered for them, and a source with all of them."""

from __future__ import annotations

import re
from pathlib import Path

from modelwheel.dtypes import ElementType
from modelwheel.packaging.template import template_directory
from modelwheel.thresholds import header

SOURCES = template_directory() / "model" / "src"
"""What sources name headers from: `kernels/gemm/gemm.h`."""
KERNELS = SOURCES / "kernels"
HEADERS = sorted(path.relative_to(SOURCES).as_posix() for path in KERNELS.rglob("*.h"))
COMPILED = sorted(KERNELS.rglob("*.cpp"))
"""What is compiled by itself, for each element type."""
TESTS = Path(__file__).parents[1] / "cpp" / "kernels"


def include_options(directory: Path) -> tuple[str, str]:
    """Options of a compiler with which it finds all headers, in the template and rendered into a directory."""
    rendered = directory / "kernels" / "base" / "thresholds.h"
    rendered.parent.mkdir(parents=True, exist_ok=True)
    rendered.write_text(f"{header()}\n", encoding="utf-8")
    return f"-I{SOURCES}", f"-I{directory}"


def named_instances() -> list[str]:
    """What the C++ tests name by KERNEL_INSTANCES: functions, where T stands for every element type."""
    return [
        instances
        for path in sorted(TESTS.glob("*.cpp"))
        for instances in re.findall(
            r"^KERNEL_INSTANCES\(([^;]+?)\)$", path.read_text("utf-8"), re.MULTILINE
        )
    ]


def write_instances(path: Path) -> None:
    """Writes a source that keeps every kernel for every element type, and nothing else."""
    types = sorted({element.kernel_type for element in ElementType} - {"bool"})
    functions, calls = [], []
    for number, instances in enumerate(named_instances()):
        every = re.search(r"\bT\b", instances) is not None
        head = "template <class T> void" if every else "inline void"
        functions.append(f"{head} keep_{number}() {{ keep({instances}); }}")
        calls += [f"  keep_{number}<{t}>();" for t in types] if every else [f"  keep_{number}();"]
    lines = [
        *(f'#include "{name}"' for name in HEADERS),
        f'#include "{(TESTS / "methods.h").as_posix()}"',
        "namespace modelwheel::MODELWHEEL_LEVEL {",
        'template <class One> void keep_one(One *one) { asm volatile("" : : "r"(one)); }',
        "template <class... Each> void keep(Each *...each) { (keep_one(each), ...); }",
        *functions,
        "void keep_everything();",
        "void keep_everything() {",
        *calls,
        "}",
        "}",
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
