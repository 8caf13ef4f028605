"""The headers of a model whose tensors have every reserved and hostile name: they compile, and they work."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from modelwheel.assembly.manifest import Manifest
from modelwheel.codegen.sources import quote
from modelwheel.model.frozen_signature import c_names
from tests.support.commands import run
from tests.support.projects import render_model
from tests.support.reserved import C_HEADERS, CXX_HEADERS, describe_all

STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic")
COMPILERS = {"g++": ("g++",), "clang++": ("clang++", "clang++-19", "clang++-16", "clang++-14")}


@pytest.fixture(params=COMPILERS)
def compiler(request: pytest.FixtureRequest) -> str:
    """A C++ compiler of this machine."""
    found = next(filter(None, map(shutil.which, COMPILERS[request.param])), None)
    if found is None:
        pytest.skip(f"{request.param} is missing")
    return found


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Manifest, Path]]:
    """The models with the directories of their headers."""
    return [
        (
            described,
            render_model(tmp_path_factory.mktemp("project"), "extension", described) / "include",
        )
        for described in describe_all()
    ]


def every_header() -> str:
    names = [*CXX_HEADERS, *(f"{name}.h" for name in C_HEADERS)]
    return "".join(f"#if __has_include(<{name}>)\n#include <{name}>\n#endif\n" for name in names)


RUNTIME = """
const std::int64_t shape[] = {-1, 2};
const std::size_t sizes[] = {1, 4};
modelwheel_status create(const char *, modelwheel_model **model, char *, std::size_t) {
  *model = reinterpret_cast<modelwheel_model *>(new char);
  return MODELWHEEL_OK;
}
void destroy(modelwheel_model *model) { delete reinterpret_cast<char *>(model); }
template <std::size_t kCount>
modelwheel_status twice(modelwheel_model *, std::size_t rows, const void *const *in, void *const *out) {
  for (std::size_t tensor = 0; tensor != kCount; ++tensor)
    for (std::size_t i = 0; i != 2 * rows; ++i)
      static_cast<float *>(out[tensor])[i] = 2 * static_cast<const float *>(in[tensor])[i];
  return MODELWHEEL_OK;
}
"""
"""What stands for the library of a model: it doubles every input."""


def calls(described: Manifest) -> str:
    """A function that evaluates one model, and reaches every tensor by its names."""
    tensors, name = described.signature.outputs, described.model.identifier
    count = len(tensors)
    table = ",\n".join(
        f"{{{quote(t.name)}, {quote(t.c_name)}, MODELWHEEL_FLOAT32, 4, 2, shape, 1, 2, 8}}"
        for t in tensors
    )
    values = ", ".join(f"std::vector<float>{{{index}, 3}}" for index in range(count))
    checks = "\n".join(
        f"  if (outputs.{t.c_name}[0] != {2 * i}) return false;\n"
        f"  if (function.LookupResultIndex({quote(t.name)}) != {i}) return false;"
        for i, t in enumerate(tensors)
    )
    return f"""
const modelwheel_tensor tensors_{name}[] = {{
{table}}};
const modelwheel_api api_{name} = {{sizeof(modelwheel_api), MODELWHEEL_ABI_VERSION, "digits", "1", "{{}}",
    {count}, tensors_{name}, {count}, tensors_{name}, 2, sizes, 1, nullptr, 0, nullptr, create, destroy,
    nullptr, nullptr, twice<{count}>, twice<{count}>, nullptr, nullptr, nullptr, nullptr,
    0, nullptr, nullptr, nullptr, nullptr, 0, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
    nullptr, nullptr, nullptr, nullptr}};
extern "C" const modelwheel_api *model_{name}_api(void) {{ return &api_{name}; }}
bool call_{name}() {{
  model_{name}::Model model;
  const model_{name}::Outputs outputs = model({values});
  tfaot_model::{name}_bs4 function;
{checks}
  function.arg0(3, 1) = 5;
  return function.Run() && function.result0(3, 1) == 10;
}}
"""


WITHOUT_TBB = "-D_GLIBCXX_USE_TBB_PAR_BACKEND=0"
"""Where TBB is installed, <execution> of libstdc++ would bring its macros and need its library."""


def program(models: list[tuple[Manifest, Path]]) -> str:
    """A program that includes every standard header first, and then those of all models."""
    names = [described.model.identifier for described, _ in models]
    includes = "".join(
        f"#include <model_{name}.hpp>\n#include <tfaot-model-{name}/digits{name[6:]}_bs4.h>\n"
        for name in names
    )
    functions = "".join(calls(described) for described, _ in models)
    main = " && ".join(f"call_{name}()" for name in names)
    return f"{every_header()}{includes}{RUNTIME}{functions}\nint main() {{ return !({main}); }}\n"


def test_the_headers_compile_and_work(
    compiler: str, models: list[tuple[Manifest, Path]], tmp_path: Path
) -> None:
    source, binary = tmp_path / "main.cpp", tmp_path / "main"
    source.write_text(program(models), encoding="utf-8")
    bidi = ("-Wbidi-chars=any",) if "clang" not in compiler else ()
    include = [option for _, directory in models for option in ("-I", directory)]
    options = ("-std=c++17", "-O0", WITHOUT_TBB, *STRICT, *bidi, *include, source)
    if "clang" in compiler:
        run(compiler, *options, "-fsyntax-only")
    else:
        run(compiler, *options, "-o", binary)
        run(binary)


def test_the_c_headers_compile(models: list[tuple[Manifest, Path]], tmp_path: Path) -> None:
    text = "".join(f"#include <{name}.h>\n" for name in C_HEADERS)
    text += "".join(f"#include <{described.model.module}.h>\n" for described, _ in models)
    (tmp_path / "main.c").write_text(text, encoding="utf-8")
    include = [option for _, directory in models for option in ("-I", directory)]
    options = ("-std=c99", "-fsyntax-only", "-trigraphs", *STRICT, "-Wbidi-chars=any")
    run("gcc", *options, *include, tmp_path / "main.c")


@pytest.mark.parametrize("options", [("-x", "c", "-std=gnu17"), ("-x", "c++", "-std=gnu++20")])
def test_no_identifier_is_a_macro_of_a_standard_header(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    source = tmp_path / "all"
    source.write_text(every_header(), encoding="utf-8")
    listed = run("g++", *options, WITHOUT_TBB, "-w", "-dM", "-E", source).out
    macros = {line.split(" ")[1] for line in listed.splitlines() if line.startswith("#define ")}
    names = {name for name in macros if "(" not in name}
    assert {"NULL", "EOF", "INT_MAX"} <= names
    assert not names & set(c_names(sorted(names)))
