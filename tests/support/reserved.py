"""Names of tensors that mean something else in C, C++, Python or the generated files, and hostile ones."""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence

from modelwheel.assembly.manifest import Manifest
from modelwheel.model.frozen_signature import c_names
from modelwheel.signature import Signature, Tensor
from tests.support.hostile_text import ENCODABLE, FRAGMENTS
from tests.support.index_wheels import make_manifest

C_HEADERS = [
    "assert",
    "complex",
    "ctype",
    "errno",
    "fenv",
    "float",
    "inttypes",
    "iso646",
    "limits",
    "locale",
    "math",
    "setjmp",
    "signal",
    "stdalign",
    "stdarg",
    "stdbool",
    "stddef",
    "stdint",
    "stdio",
    "stdlib",
    "string",
    "tgmath",
    "time",
    "uchar",
    "wchar",
    "wctype",
]
"""The headers of C11 that C++ compilers accept."""

CXX_HEADERS = [
    "algorithm",
    "any",
    "array",
    "atomic",
    "barrier",
    "bit",
    "bitset",
    "charconv",
    "chrono",
    "codecvt",
    "compare",
    "complex",
    "concepts",
    "condition_variable",
    "deque",
    "exception",
    "execution",
    "filesystem",
    "forward_list",
    "fstream",
    "functional",
    "future",
    "initializer_list",
    "iomanip",
    "ios",
    "iostream",
    "iterator",
    "latch",
    "limits",
    "list",
    "locale",
    "map",
    "memory",
    "memory_resource",
    "mutex",
    "new",
    "numbers",
    "numeric",
    "optional",
    "ostream",
    "queue",
    "random",
    "ranges",
    "ratio",
    "regex",
    "scoped_allocator",
    "semaphore",
    "set",
    "shared_mutex",
    "source_location",
    "span",
    "sstream",
    "stack",
    "stdexcept",
    "stop_token",
    "streambuf",
    "string",
    "string_view",
    "syncstream",
    "system_error",
    "thread",
    "tuple",
    "type_traits",
    "typeindex",
    "typeinfo",
    "unordered_map",
    "unordered_set",
    "utility",
    "valarray",
    "variant",
    "vector",
    "version",
]

MACROS = [
    "NULL",
    "NAN",
    "EOF",
    "INFINITY",
    "M_PI",
    "BUFSIZ",
    "SIZE_MAX",
    "INT_MAX",
    "DBL_EPSILON",
    "I",
    "errno",
    "stdin",
    "stdout",
    "stderr",
    "complex",
    "unix",
    "linux",
    "SIGINT",
    "EINVAL",
    "PRIu64",
    "RAND_MAX",
    "assert",
    "isnan",
    "offsetof",
    "__FILE__",
    "__cplusplus",
    "__LINE__",
    "_GNU_SOURCE",
]

KEYWORDS = [
    "and",
    "or",
    "not",
    "xor",
    "and_eq",
    "bitand",
    "compl",
    "class",
    "template",
    "int",
    "float",
    "double",
    "bool",
    "true",
    "nullptr",
    "this",
    "operator",
    "namespace",
    "register",
    "restrict",
    "co_await",
    "char8_t",
    "_Bool",
    "_Complex",
    "__restrict",
]

OURS = [
    "Outputs",
    "Inputs",
    "Model",
    "evaluate",
    "run",
    "level",
    "name",
    "self",
    "modelwheel",
    "tfaot",
    "std",
    "data",
    "size",
    "count",
]

MANGLED = [
    *(
        "x",
        "X",
        "x/y",
        "x_y",
        "x.y",
        "x_y_2",
        "x y",
        "",
        "_",
        "1st",
        "_1st",
        "class_",
        "class",
        "größe",
    ),
    *(
        "feed_x",
        "fetch_x",
        "x_data",
        "0",
        "00",
        "NULL_",
        "M/SQRT1",
        "M-SQRT1",
        "M.SQRT1",
        "Label",
        "label",
    ),
]
"""Names that differ only in case, or that would become the same identifier."""

HOSTILE = [
    *FRAGMENTS.values(), ENCODABLE, "ends in \\", "ends in \\ ", "tri??/", "tri???/", "end */ of", "/* begin",
    "//", "*/\n#error x\n/*", "`", "``|`", " a ", "|", "\\|", "```\n# heading\n", "${HOME} @VERSION@ #{x}",
    '"""', "'''", "]]", "a;b", "%s%n", "\N{LEFT-TO-RIGHT OVERRIDE}x", "<!-- -->", "{{ name }}", "{% raw %}",
]  # fmt: skip

NAMES = tuple(
    dict.fromkeys(
        name.encode(errors="ignore").decode()
        for name in (*MACROS, *KEYWORDS, *OURS, *MANGLED, *HOSTILE, *keyword.kwlist)
    )
)


CHUNK = 32
"""Tensors of one model: compilers take long for a tuple of hundreds of types."""


def describe_all() -> tuple[Manifest, ...]:
    """Manifests of models `digits0`, `digits1`, ...: together their inputs and outputs have all names."""
    identifiers = dict(zip(NAMES, c_names(NAMES), strict=True))
    return tuple(
        describe(f"digits{number}", identifiers, NAMES[first : first + CHUNK])
        for number, first in enumerate(range(0, len(NAMES), CHUNK))
    )


def describe_one() -> Manifest:
    """A manifest of one model whose inputs and outputs have all names."""
    return describe("digits", dict(zip(NAMES, c_names(NAMES), strict=True)), NAMES)


def describe(model: str, identifiers: Mapping[str, str], names: Sequence[str]) -> Manifest:
    """A manifest of a model whose inputs and outputs both have these names."""
    tensors = tuple(
        Tensor(
            name=name, c_name=identifiers[name], dtype="float32", shape=(None, 2), leading_per_row=1
        )
        for name in names
    )
    described = make_manifest(model).model_copy(update={"levels": ("x86-64",)})
    return described.model_copy(update={"signature": Signature(inputs=tensors, outputs=tensors)})
