"""The section `package` of a spec: what goes into the wheel, and its metadata."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    Field,
    StrictBool,
    StrictStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from ..util.names import NameSet, UnsafePathError
from ..util.trees import read_below
from ..util.words import nearest_word
from .compute import ComputeSection
from .fields import Label, Line, Mistake, RelativePath, Section, mistake, mistakes, unique
from .sources.addresses import check_url

if TYPE_CHECKING:
    from typing_extensions import Self

Interface: TypeAlias = Literal["c", "cpp", "python", "cmssw", "pybind11"]
"""What a wheel can have headers and files for."""

WeightsStorage: TypeAlias = Literal["float32", "float16", "int8"]
"""How a library stores the weights that its code uses as float32 values."""

Program: TypeAlias = Literal["test", "benchmark"]
"""A program of a bundle."""

DEFAULT_INTERFACES: tuple[Interface, ...] = ("c", "cpp", "python")

_NEEDS: Mapping[Interface, Interface] = {"cpp": "c", "cmssw": "cpp", "pybind11": "cpp"}


def _check_interfaces(interfaces: tuple[Interface, ...]) -> tuple[Interface, ...]:
    if "python" not in interfaces:
        raise mistake("every wheel has the Python package", "Add python")
    for interface, needed in _NEEDS.items():
        if interface in interfaces and needed not in interfaces:
            raise mistake(f"{interface} uses the headers of {needed}", f"Add {needed}")
    # One order, so that neither the digest nor the wheel depends on the order in the file.
    known: tuple[Interface, ...] = (*DEFAULT_INTERFACES, "cmssw", "pybind11")
    return tuple(name for name in known if name in interfaces)


# For suggestions only; every SPDX expression is accepted.
_COMMON_LICENSES = (
    *("Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "MPL-2.0", "CC0-1.0"),
    *("GPL-2.0-only", "GPL-3.0-only", "GPL-3.0-or-later", "LGPL-3.0-or-later"),
    *("CC-BY-4.0", "CC-BY-SA-4.0", "CC-BY-NC-4.0"),
)


def _check_license(expression: str) -> str:
    from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

    try:
        return str(canonicalize_license_expression(expression))
    except InvalidLicenseExpression:
        nearest = nearest_word(expression, _COMMON_LICENSES)
        meant = f" (did you mean '{nearest}'?)" if nearest else ""
        hint = f"Use one from spdx.org/licenses or LicenseRef-NAME{meant}"
        raise mistake(f"'{expression}' is not an SPDX licence expression", hint) from None


def _check_keyword(keyword: str) -> str:
    if "," in keyword:
        raise mistake("a keyword must not contain a comma", "Make it two items of the list")
    return keyword


def _check_label(label: str) -> str:
    # Core metadata separates label and URL by a comma: `Project-URL: Homepage, https://...`.
    if "," in label:
        raise mistake("the label of a URL must not contain a comma", "Use another word")
    return label


UNKNOWN_LICENSE = "the licence of the weights is not stated, and `publish` refuses such wheels"
"""What is said of a spec without `weights_license`."""
STATE_LICENSE = (
    "set package.weights_license, such as CC-BY-4.0, or LicenseRef-NAME with the text in license_files; or "
    "`publish: false` for a model that is built and never released"
)
"""What to do then."""

License = Annotated[Line, AfterValidator(_check_license)]
_WebAddress = Annotated[
    StrictStr, Field(max_length=2048), AfterValidator(lambda url: check_url(url, ("https",)))
]


class PackageSection(Section):
    """Metadata of the wheel."""

    license: License = Field(
        default="Apache-2.0", description="Licence of the generated code, as an SPDX expression."
    )
    weights_license: License | None = Field(
        default=None,
        description="Licence of the weights, as an SPDX expression. Omitted: not known, and not published.",
    )
    publish: StrictBool = Field(
        default=True,
        # Digests of specs are compared with those of releases: one that does not say it stays as it was.
        exclude_if=bool,
        description="Whether the wheel may be released. `false` for a model that is built and tested, and whose wheel stays "
        "here, such as one whose authors state no licence: `release-plan` leaves it out, `tag` and `publish` refuse it.",
    )
    license_files: Annotated[
        tuple[RelativePath, ...], Field(max_length=32), AfterValidator(unique)
    ] = Field(
        default=(), description="Licence texts to put into the wheel, relative to the spec file."
    )
    summary: Line | None = Field(default=None, description="One line for listings.")
    urls: Mapping[Annotated[Label, AfterValidator(_check_label)], _WebAddress] = Field(
        default_factory=dict, description="Labelled https links.", max_length=16
    )
    keywords: Annotated[
        tuple[Annotated[Line, Field(max_length=64), AfterValidator(_check_keyword)], ...],
        Field(max_length=32),
        AfterValidator(unique),
    ] = Field(default=(), description="Keywords for searches.")
    bindings: Literal["extension", "shared"] = Field(
        default="extension",
        description="`extension`: a wheel with an extension module for each Python. `shared`: one wheel for "
        "all Pythons, which uses the extension module of the package modelwheel-runtime.",
    )

    weights_storage: WeightsStorage = Field(
        default="float32",
        description="How the library stores large float32 weights. `float16` and `int8` (with a scale for each channel) make "
        "the file smaller, and change results; they are expanded when the library is loaded.",
    )

    compute: ComputeSection | None = Field(
        default=None,
        # Digests of specs are compared with those of releases: one that does not say it stays as it was.
        exclude_if=lambda section: section is None,
        description="Which layers compute with narrower numbers. Omitted: all compute as the model says.",
    )

    interfaces: Annotated[
        tuple[Interface, ...], AfterValidator(unique), AfterValidator(_check_interfaces)
    ] = Field(
        default=DEFAULT_INTERFACES,
        description="What the wheel has headers and files for: `c` (also CMake and pkg-config), `cpp` (also the "
        "classes of tfcompile's kind), `python`, `cmssw` (PhysicsTools/TensorFlowAOT and scram), and `pybind11` (a class "
        "over NumPy arrays, for pybind11 modules of others).",
        examples=[["c", "cpp", "python", "cmssw", "pybind11"]],
        json_schema_extra={"uniqueItems": True},
    )

    gen_test: StrictBool = Field(
        default=True,
        description="Whether bundles have the program NAME_test. Every bundle passes it before it is written.",
    )
    gen_benchmark: StrictBool = Field(
        default=True, description="Whether bundles have the program NAME_benchmark."
    )

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.compute and self.compute.type == "bf16" and self.weights_storage != "float32":
            wrong = f"weights of two bytes are not stored as {self.weights_storage} too"
            raise mistake(wrong, "Remove package.weights_storage or this", ("compute", "type"))
        return self

    @property
    def lacks_license(self) -> bool:
        """Whether `publish` will refuse the wheel because nobody knows the licence of the weights."""
        return self.publish and self.weights_license is None

    @property
    def programs(self) -> tuple[Program, ...]:
        """The programs that a bundle has."""
        wanted: Mapping[Program, bool] = {"test": self.gen_test, "benchmark": self.gen_benchmark}
        return tuple(program for program, is_wanted in wanted.items() if is_wanted)

    @field_validator("license_files")
    @classmethod
    def _check_license_files(cls, names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        # An older version of a spec, out of git, is read without its files.
        if info.context is not None and info.context.get("with_files"):
            directory = info.context["path"].absolute().parent
            if unusable := list(_find_unusable_files(directory, names)):
                raise mistakes(unusable)
        return names


MAX_LICENSE_BYTES = 1 << 20
"""The longest licences have 100 kB."""


def _find_unusable_files(directory: Path, names: Sequence[str]) -> Iterator[Mistake]:
    """Files that cannot be read, or that could not be together in one directory of the wheel."""
    seen, together = dict[str, str](), NameSet()
    for index, name in enumerate(names):
        base = PurePosixPath(name).name
        try:
            read_below(directory, name, MAX_LICENSE_BYTES)
        except FileNotFoundError:
            wrong = f"there is no file '{name}' in the directory of the spec"
            yield Mistake(wrong, "Add the file or correct the path", (index,), code="MW115")
        except UnsafePathError as error:
            yield Mistake(str(error), "Put the text itself there", (index,), code="MW115")
        except OSError as error:
            wrong = f"'{name}' cannot be read: {error.strerror}"
            yield Mistake(wrong, "Correct its permissions", (index,), code="MW115")
        if seen.setdefault(base, name) != name:
            wrong = f"'{seen[base]}' and '{name}' have the same file name"
            hint = "Rename one: the wheel keeps both in one directory"
            yield Mistake(wrong, hint, (index,))
            continue
        try:
            together.add(base)
        except UnsafePathError as error:
            yield Mistake(str(error), "Rename it: wheels are installed on every system", (index,))
