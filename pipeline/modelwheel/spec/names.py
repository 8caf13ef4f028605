"""Names of models, which become names of a distribution, a module, a class, a header and symbols."""

from __future__ import annotations

import keyword
import re
from contextlib import suppress
from functools import cache

from pydantic_core import PydanticCustomError

from .. import resources
from ..util.names import WINDOWS_DEVICES
from .fields import mistake

NAME_PATTERN = r"^[a-z][a-z0-9_-]{0,62}$"
NAMESPACE_PATTERN = r"^[A-Za-z][A-Za-z0-9_]*(::[A-Za-z][A-Za-z0-9_]*)*$"


def _words(text: str) -> list[str]:
    return text.split()


_C_KEYWORDS = _words("""
alignas alignof asm auto bool break case char const constexpr continue default do double else enum
extern false float for goto if inline int long nullptr register restrict return short signed sizeof
static static_assert struct switch thread_local true typedef typeof typeof_unqual union unsigned
void volatile while
""")
_CPP_KEYWORDS = _words("""
and and_eq bitand bitor catch char16_t char32_t char8_t class co_await co_return co_yield compl
concept consteval constinit const_cast decltype delete dynamic_cast explicit export friend mutable
namespace new noexcept not not_eq operator or or_eq private protected public reinterpret_cast
requires static_cast template this throw try typeid typename using virtual wchar_t xor xor_eq
""")
# `std` would hide the standard library inside the model's namespace; the others are macros with
# parameters, or of some compilers.
_TAKEN = _words("assert linux offsetof posix setjmp std unix")
_OURS = _words("modelwheel tfaot tfaot_model")
# In the generated C++ class and Python stub, these stand beside the names of inputs and outputs.
_BESIDE_TENSORS = frozenset(["Outputs", "evaluate", "self"])

# Headers of C, POSIX and common systems that other headers include: one of the same name, found first, would hide them.
_SYSTEM_HEADERS = frozenset(
    _words("""
aio alloca arpa assert byteswap complex cpio crt ctype dirent dlfcn elf endian err errno error fcntl features fenv float fmtmsg
fnmatch ftw getopt glob grp iconv intrin inttypes io iso646 langinfo libgen libintl limits link locale malloc math memory
memory_resource monetary mqueue net netdb nl_types obstack paths poll process pthread pwd regex resolv sched search semaphore setjmp
share signal spawn stat stdalign stdarg stdatomic stdbit stdbool stdckdint stddef stdint stdio stdlib stdnoreturn string strings
stropts syslog tar termios tgmath threads time trace uchar ulimit unistd utime utmp utmpx values wait wchar wctype windows winsock
wordexp
""")
)

_RESERVED = {
    **dict.fromkeys(_TAKEN, "is a name of the C and C++ standard libraries or compilers"),
    **dict.fromkeys(_OURS, "is a name of the runtime"),
    **dict.fromkeys(keyword.kwlist, "is a keyword of Python"),
    **dict.fromkeys(_CPP_KEYWORDS, "is a keyword of C++"),
    **dict.fromkeys(_C_KEYWORDS, "is a keyword of C"),
}


def check_model_name(name: str) -> str:
    """The name itself, if it is valid as the name of a distribution, a module and an identifier of C, C++ and Python.

    Raises:
        PydanticCustomError: It is not valid; the message says why and proposes another name.
    """
    if not re.fullmatch(NAME_PATTERN, name):
        wrong = (
            "may contain only lower-case letters, digits, '-' and '_', must start with a letter, and "
            "may be at most 63 characters long"
        )
        raise mistake(wrong, _propose(name), code="MW118")
    # C++ reserves names with two underscores ([lex.name]), and PEP 503 merges repeated ones.
    if re.search(r"[_-]{2}|[_-]$", name):
        raise mistake(
            "must not end with - or _, nor have two of them in a row", _propose(name), code="MW118"
        )
    identifier = to_identifier(name)
    if reason := _reserved(identifier):
        raise mistake(f"'{name}' {reason}", f"Try '{name}-model'", code="MW118")
    if identifier in WINDOWS_DEVICES:
        raise mistake(
            f"'{name}' is a device on Windows, not a file", f"Try '{name}-model'", code="MW118"
        )
    if re.search(r"_bs\d+$", identifier):
        wrong = f"'{name}' ends like the name of the class for one batch size"
        raise mistake(wrong, "Remove the number at the end", code="MW118")
    return name


@cache
def _macros() -> tuple[frozenset[str], re.Pattern[str]]:
    rows = resources.read("macros.toml")
    # None of a family ends with `_`: the names that `to_tensor_identifier` makes are in none.
    return frozenset(rows["names"].split()), re.compile(rf"(?:{'|'.join(rows['families'])})(?<!_)")


def _reserved(identifier: str) -> str:
    """Why an identifier cannot be used in C, C++ and Python alike; empty if it can."""
    names, families = _macros()
    if identifier in names or families.fullmatch(identifier):
        return "is a macro of the C and C++ standard libraries"
    return _RESERVED.get(identifier, "")


def to_tensor_identifier(name: str) -> str:
    """The name of an input or output as an identifier of C, C++ and Python, as similar to it as possible.

    It can stand alone, as the name of a parameter or of a member of a class: it is not a keyword, nor a
    macro of the standard libraries, nor a name of the class itself.
    """
    identifier = re.sub(r"[^A-Za-z0-9_]", "_", name)
    if not re.match(r"[A-Za-z_]", identifier):
        identifier = f"_{identifier}"
    # Reserved for compilers ([lex.name]), which predefine many: `__FILE__`, `_Bool`.
    if re.match(r"_[A-Z_]", identifier) and identifier.strip("_"):
        identifier = f"x{identifier}"
    while _reserved(identifier) or identifier in _BESIDE_TENSORS:
        identifier = f"{identifier}_"
    return identifier


def _propose(name: str) -> str:
    proposal = _simplify(name)
    return f"Did you mean '{proposal}'?" if re.match(r"[a-z]", proposal) else ""


def _simplify(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:63].strip("-")


def derive_model_name(*names: str) -> str:
    """A valid name of a model, as similar as possible to the first of some names from which one can be made.

    >>> derive_model_name("ResNet 50 v1.5")
    'resnet-50-v1-5'
    >>> derive_model_name("1", "half_plus_two")
    'half_plus_two'
    """
    for name in names:
        simple = _simplify(name)
        for proposal in (name, simple, f"{simple[:57].strip('-')}-model"):
            with suppress(PydanticCustomError):
                return check_model_name(proposal)
    return "model"


def to_identifier(name: str) -> str:
    """A checked model name as an identifier of C, C++ and Python (`test_simple`)."""
    return name.replace("-", "_")


def to_distribution(name: str) -> str:
    """The normalised distribution name of a checked model name (PEP 503): `model-test-simple`."""
    return f"model-{name.replace('_', '-')}"


CPP_CLASS_PATTERN = NAMESPACE_PATTERN


def check_cpp_class(name: str) -> str:
    """The full name of a C++ class itself, such as `foo::bar::MatMulComp` or `MatMulComp`, if it is valid.

    Raises:
        PydanticCustomError: It is not valid; the message says why.
    """
    if not re.fullmatch(CPP_CLASS_PATTERN, name) or "__" in name:
        wrong = f"'{name}' is not the name of a C++ class that a program may define"
        raise mistake(
            wrong, "Write it like MatMulComp or foo::bar::MatMulComp, with single _", code="MW118"
        )
    *namespaces, own = name.split("::")
    if namespaces:
        check_namespace("::".join(namespaces))
    if (reason := _reserved(own)) and "Python" not in reason:
        raise mistake(f"'{own}' {reason}", "Choose another name", code="MW118")
    # Classes of several batch sizes get such names.
    if re.search(r"_bs\d+$", own):
        wrong = f"'{own}' ends like the name of the class for one batch size"
        raise mistake(wrong, "Remove the number at the end", code="MW118")
    return name


def find_taken(name: str, namespace: str, identifier: str) -> tuple[str, str] | None:
    """Why a class cannot have this checked full name in the headers of a model, and what to do; None if it can.

    Args:
        name: The full name of the class.
        namespace: Where the model's other classes are.
        identifier: Of the model.
    """
    parts, module = name.split("::"), f"model_{identifier}"
    if parts[0] == module or (len(parts) == 1 and name.startswith(f"{module}_")):
        return f"{parts[0]} is a name of the model's other headers", "Choose another name"
    if f"{namespace}::".startswith(f"{name}::"):
        return f"{name} is a namespace of the model's other classes", "Choose another name"
    if f"{name}::".startswith(f"{namespace}::{identifier}::"):
        return f"{namespace}::{identifier} is the model's own class", "Choose another name"
    return None


def check_cpp_header(path: str, field: str = "") -> str:
    """The place of a header below an `include` directory, such as `nets/matmul.h`, if it is valid.

    Args:
        path: A relative path with `/`.
        field: The field that would give another place, where the path is a default.

    Raises:
        PydanticCustomError: It is not valid; the message says why.
    """
    parts = path.split("/")
    elsewhere = f"{f'Set {field}: ' if field else 'Write '}nets/{parts[-1]}"
    if not all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", part) for part in parts):
        wrong = "the parts of a header's path may have letters, digits and _ . + - only"
        raise mistake(wrong, "Write it like nets/matmul.h", code="MW118")
    if not re.search(r"[^/]\.(h|hh|hpp|hxx)$", path):
        raise mistake(
            "a header ends with .h, .hh, .hpp or .hxx", "Write it like nets/matmul.h", code="MW118"
        )
    if len(parts) == 1 and parts[0].partition(".")[0].lower() in _SYSTEM_HEADERS:
        raise mistake(
            f"the header {path} would hide the system's header of that name",
            elsewhere,
            code="MW118",
        )
    if parts[0] in ("modelwheel", "PhysicsTools") or parts[0].startswith(
        "tfaot-model-" if len(parts) > 1 else "model_"
    ):
        raise mistake(f"{parts[0]} is a name of the model's other headers", elsewhere, code="MW118")
    return path


def check_namespace(namespace: str) -> str:
    """The C++ namespace itself, such as `tfaot_model` or `cms::models`, if it is valid.

    Raises:
        PydanticCustomError: It is not valid; the message says why.
    """
    if not re.fullmatch(NAMESPACE_PATTERN, namespace) or "__" in namespace:
        wrong = f"'{namespace}' is not a C++ namespace that a program may define"
        raise mistake(wrong, "Use letters, digits and single _, parts joined by `::`", code="MW118")
    for part in namespace.split("::"):
        reason = _reserved(part)
        # The default namespace is reserved among names of models; Python sees no namespace.
        if reason and part != "tfaot_model" and "Python" not in reason:
            raise mistake(f"'{part}' {reason}", "Choose another namespace", code="MW118")
    return namespace
