"""The fields of a spec: names, pins, paths, rules, flags, and what hostile values come to."""

from __future__ import annotations

import keyword
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from packaging.utils import canonicalize_name
from packaging.version import Version
from pydantic import ValidationError

from modelwheel.errors import SpecError
from modelwheel.levels import LEVELS, default_levels
from modelwheel.spec import BatchRule, GitSource, Spec
from modelwheel.spec.explain import explain
from modelwheel.spec.flags import FastMath
from modelwheel.spec.load import load_spec
from modelwheel.spec.reading.document import Document

COMMIT = "df4bfd35dfed51d7c6ff0367ebc78093dfcc7d1d"
SHA256 = "0123456789abcdef" * 4
MODEL = {"name": "jet-tagger", "version": "1.0.0"}


SHOWABLE = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]*")


def make(**sections: Any) -> Spec:
    return Spec.model_validate({"model": MODEL, **sections})


def named(name: str, version: str = "1.0.0") -> Spec:
    return make(model={"name": name, "version": version})


def problems(**sections: Any) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        make(**sections)
    found = explain(caught.value, Document(Path("s")))
    return [str(problem).removeprefix("s:1:1: ") for problem in found]


def is_refused(**sections: Any) -> bool:
    try:
        make(**sections)
    except ValidationError as error:
        lines = [str(problem) for problem in explain(error, Document(Path("s")))]
        assert lines
        assert all(SHOWABLE.fullmatch(line) and len(line) < 1000 for line in lines)
        return True
    return False


# Names


@pytest.mark.parametrize(
    ("name", "identifier", "distribution"),
    [
        ("test-simple", "test_simple", "model-test-simple"),
        ("test_simple", "test_simple", "model-test-simple"),
        ("a", "a", "model-a"),
        ("b2", "b2", "model-b2"),
    ],
)
def test_names_become_identifiers(name: str, identifier: str, distribution: str) -> None:
    spec = named(name)
    assert spec.identifier == identifier
    assert spec.distribution == distribution == canonicalize_name(distribution)
    assert spec.module == f"model_{identifier}"


@pytest.mark.parametrize(
    "name",
    [
        *("", "A", "1a", "-a", "_a", "a-", "a_", "a--b", "a-_b", "a.b", "a b", "a/b", "a\n", "ä"),
        *("int", "class", "lambda", "co_await", "co-await", "typeof_unqual", "restrict", "nullptr"),
        *("linux", "errno", "std", "tfaot", "tfaot-model", "modelwheel", "../a", "x" * 64),
        *("con", "nul", "aux", "prn", "com0", "lpt9", "digits-bs4", "digits_bs16"),
    ],
)
def test_names_that_cannot_be_used_are_refused(name: str) -> None:
    assert is_refused(model={"name": name, "version": "1"})


@given(st.text(max_size=70) | st.from_regex(r"[a-z_\-0-9.]{1,64}", fullmatch=True))
@example("a\u202eb")
@example("x" * 63)
@example('a"; } #include <x>')
@example("${ENV{HOME}}")
@example("a]]>")
@example("a??/b")
def test_a_name_is_refused_or_safe_everywhere(name: str) -> None:
    if is_refused(model={"name": name, "version": "1"}):
        return
    spec = named(name)
    assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", spec.identifier)
    assert not keyword.iskeyword(spec.identifier)
    assert spec.module.isidentifier()
    assert canonicalize_name(spec.distribution) == spec.distribution
    assert len(spec.identifier) <= 63


def test_a_proposed_name_is_one() -> None:
    for name in ("Jet Tagger", "jet__tagger", "-jet-tagger-", "JET.tagger"):
        (line,) = problems(model={"name": name, "version": "1"})
        assert line.endswith("Did you mean 'jet-tagger'?")


@pytest.mark.parametrize("namespace", ["tfaot_model", "a::b::c2", "Cms", "lambda"])
def test_namespaces_of_cpp(namespace: str) -> None:
    assert make(compilation={"namespace": namespace}).compilation.namespace == namespace


@pytest.mark.parametrize(
    "namespace",
    ["a:b", "::a", "a::", "1a", "_a", "a__b", "a b", "a::int", "std", "a::class", "a;b"],
)
def test_other_namespaces_are_refused(namespace: str) -> None:
    assert is_refused(compilation={"namespace": namespace})


@pytest.mark.parametrize(
    ("name", "header"),
    [("foo::bar::MatMulComp", "jet_tagger.h"), ("MatMulComp", "jet_tagger.h"), ("lambda", "x/y.h")],
)
def test_classes_of_cpp(name: str, header: str) -> None:
    given = {} if header == "jet_tagger.h" else {"cpp_header": header}
    spec = make(compilation={"cpp_class": name, **given})
    assert (spec.compilation.cpp_class, spec.cpp_header) == (name, header)
    assert make().cpp_header is None


@pytest.mark.parametrize(
    "name",
    [
        *(
            "a::",
            "::A",
            "a:B",
            "1A",
            "_A",
            "A__B",
            "A B",
            "a::int",
            "std",
            "std::A",
            "a::class",
            "A;b",
        ),
        *(
            "A_bs4",
            "tfaot_model",
            "tfaot_model::jet_tagger",
            "tfaot_model::jet_tagger::A",
            "modelwheel::A",
        ),
        *("model_jet_tagger", "model_jet_tagger::Model", "model_jet_tagger_run"),
    ],
)
def test_other_classes_are_refused(name: str) -> None:
    assert is_refused(compilation={"cpp_class": name})


@pytest.mark.parametrize(
    "header",
    [
        *(
            "string.h",
            "Math.h",
            "a",
            ".h",
            "a/.h",
            "a b.h",
            "../a.h",
            "/a.h",
            "a\\b.h",
            "a.c",
            "a//..//b.h",
        ),
        *(
            "modelwheel/abi.h",
            "model_jet_tagger.h",
            "tfaot-model-x/y.h",
            "PhysicsTools/a.h",
            'a".h',
        ),
    ],
)
def test_other_headers_are_refused(header: str) -> None:
    assert is_refused(compilation={"cpp_class": "A", "cpp_header": header})


def test_flags_of_tfcompile_reach_xla_and_the_others_say_what_holds() -> None:
    flags = ("--xla_cpu_optimize_for_size", "--gen_name_to_index", "--mlir_components=None")
    spec = make(compilation={"tfcompile_flags": flags})
    found = [flag for flag in spec.xla_flags() if "fast" not in flag]
    assert found == ["--xla_cpu_optimize_for_size"]
    off = make(compilation={"tfcompile_flags": ["--xla_cpu_enable_fast_math=true"]})
    fast = [flag for flag in off.xla_flags() if flag.startswith("--xla_cpu_enable_fast_math=")]
    assert fast == ["--xla_cpu_enable_fast_math=true"]


@pytest.mark.parametrize(
    ("given_version", "canonical"),
    [("1.0", "1.0"), ("v1.0", "1.0"), ("1.0.0-RC1", "1.0.0rc1"), ("2024.01.05", "2024.1.5")],
)
def test_versions_are_made_canonical(given_version: str, canonical: str) -> None:
    assert named("a", given_version).model.version == canonical


@given(st.text(max_size=20))
def test_a_version_is_refused_or_canonical(version: str) -> None:
    if not is_refused(model={"name": "a", "version": version}):
        stored = named("a", version).model.version
        assert stored == str(Version(stored))
        assert re.fullmatch(r"[a-z0-9.!+]+", stored)


# Pins and paths


@pytest.mark.parametrize(
    "address",
    [
        "https://example.org/a/b.git",
        "https://example.org:8443/a%20b",
        "ssh://git@example.org/a.git",
        "git@example.org:a/b.git",
        "file:///srv/data.git",
        "../data",
        "/srv/my data",
    ],
)
def test_addresses_of_repositories(address: str) -> None:
    spec = make(source={"git": address, "commit": COMMIT})
    assert isinstance(spec.source, GitSource)
    is_path = address in ("../data", "/srv/my data")
    resolved = str(Path("/specs") / address) if is_path else address
    assert spec.source.resolve(Path("/specs")).address == resolved


@pytest.mark.parametrize(
    "address",
    [
        "http://example.org/a.git",
        "git://example.org/a.git",
        "https://token@example.org/a.git",
        "https://jo:pw@example.org/a.git",
        "ssh://git:pw@example.org/a.git",
        "https://example.org/a.git?access_token=x",
        "https://example.org/a.git#main",
        "https:///a.git",
        "https://-oProxyCommand=id/a",
        "ssh://-oProxyCommand=id/a",
        "https://exa mple.org/a",
        "https://example.org:port/a",
        "https://[::1/a",
        "file://server/share",
        "ext::sh -c id",
        "fd::17",
        "-oProxyCommand=id@host:path",
        "git@-host:path",
        "git@host:-path",
        "host:path",
        "C:\\data",
        "--upload-pack=id",
        "~/data",
        "a\nb",
        "",
    ],
)
def test_other_addresses_are_refused(address: str) -> None:
    assert is_refused(source={"git": address, "commit": COMMIT})


@given(st.text(min_size=1, max_size=30) | st.from_regex(r"[a-z]{2,5}:[/@:a-z.\-?=#]{1,20}"))
def test_an_address_is_refused_or_harmless_to_git(address: str) -> None:
    if not is_refused(source={"git": address, "commit": COMMIT}):
        source = make(source={"git": address, "commit": COMMIT}).source
        assert isinstance(source, GitSource)
        resolved = source.resolve(Path("/specs")).address
        assert not resolved.startswith("-")
        assert re.match(r"[/\\]|https://[^-]|ssh://[^-]|file://|[\w.-]+@[^-]", resolved)


@pytest.mark.parametrize("address", ["a.zip", "ssh://example.org/a", "http://example.org/a", "a:b"])
def test_other_addresses_of_archives_are_refused(address: str) -> None:
    assert is_refused(source={"archive": address, "sha256": SHA256})


@pytest.mark.parametrize("commit", ["HEAD", "main", "v1.0", COMMIT[:-1], COMMIT + "0", COMMIT[:7]])
def test_what_may_move_is_no_pin(commit: str) -> None:
    (line,) = problems(source={"git": "../data", "commit": commit})
    assert line.endswith("Pin the full 40-digit commit: git rev-parse HEAD")


def test_digests_are_lower_case() -> None:
    source = make(source={"git": "a", "commit": COMMIT.upper(), "sha256": SHA256.upper()}).source
    assert isinstance(source, GitSource)
    assert (source.commit, source.sha256) == (COMMIT, SHA256)


@given(st.text(max_size=30) | st.from_regex(r"[./\\a:~-]{1,12}", fullmatch=True))
@example("a/../../b")
@example("/etc")
@example("a\x00b")
def test_a_path_stays_below_its_directory(path: str) -> None:
    source = {"git": "a", "commit": COMMIT, "path": path}
    if not is_refused(source=source):
        stored = make(source=source).source
        assert isinstance(stored, GitSource)
        joined = Path("/base/directory", stored.path)
        assert joined.is_relative_to("/base/directory")
        assert ".." not in joined.parts


# Text


@given(st.text(max_size=40))
def test_text_is_refused_or_fit_for_metadata(text: str) -> None:
    if not is_refused(package={"summary": text, "keywords": [text]}):
        package = make(package={"summary": text, "keywords": [text]}).package
        assert "\n" not in (package.summary or "")
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e]", package.summary or "")


def test_licences_are_spdx_expressions() -> None:
    package = make(package={"license": "mit or apache-2.0"}).package
    assert package.license == "MIT OR Apache-2.0"
    assert package.weights_license is None
    assert is_refused(package={"license": "see file"})


def test_weights_of_two_bytes_are_stored_in_one_way() -> None:
    compute = {"type": "bf16", "samples": "rows.npz"}
    assert make(package={"compute": compute}).package.compute is not None
    assert make(package={"compute": {"samples": "rows.npz"}, "weights_storage": "float16"})
    (problem,) = problems(package={"compute": compute, "weights_storage": "float16"})
    assert "weights of two bytes are not stored as float16 too" in problem
    assert is_refused(package={"compute": {**compute, "type": "float16"}})


# Batches


@pytest.mark.parametrize(
    ("text", "batch", "sizes", "padding"),
    [
        ("5:2,2,2", 5, (2, 2, 2), 1),
        ("5:1,4", 5, (1, 4), 0),
        ("1:8", 1, (8,), 7),
        (" 3 : 2, 2 ", 3, (2, 2), 1),
    ],
)
def test_batch_rules_of_cms(text: str, batch: int, sizes: tuple[int, ...], padding: int) -> None:
    rule = BatchRule.parse(text)
    assert (rule.batch, rule.sizes, rule.padding) == (batch, sizes, padding)
    assert BatchRule.parse(str(rule)) == rule


@pytest.mark.parametrize(
    "text",
    [
        *("", "5", "5:", ":2", "5:2,", "5:,2", "5:2,2", "5:4,2,2", "0:1", "2:0,2", "-1:1", "5:2 2"),
        *("5:2;3", "5:2:3", "5.0:5", "\u0665:5", "1:99999999999", "9:" + "1," * 3000 + "1"),
    ],
)
def test_other_batch_rules_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"rule|sizes|size|batch"):
        BatchRule.parse(text)


@given(
    st.integers(1, 100),
    st.lists(st.integers(1, 40), min_size=1, max_size=8),
)
def test_a_rule_covers_its_rows_and_pads_only_the_last_run(batch: int, sizes: list[int]) -> None:
    text = f"{batch}:{','.join(map(str, sizes))}"
    if sum(sizes[:-1]) < batch <= sum(sizes):
        assert BatchRule.parse(text).sizes == tuple(sizes)
    else:
        with pytest.raises(ValueError, match=re.escape(text)):
            BatchRule.parse(text)


def test_rules_must_use_compiled_sizes() -> None:
    (line,) = problems(compilation={"batch_sizes": [1, 4]}, batching={"rules": ["5:2,2,2"]})
    assert "'5:2,2,2' uses 2, but only 1, 4 will be compiled" in line
    assert make(batching={"rules": ["5:2,2,2"]}).batching.rules  # not known before the model is


@given(st.lists(st.integers() | st.floats() | st.booleans() | st.text(max_size=3), max_size=6))
def test_batch_sizes_are_refused_or_sorted_unique_positive(sizes: list[Any]) -> None:
    if not is_refused(compilation={"batch_sizes": sizes}):
        stored = make(compilation={"batch_sizes": sizes}).compilation.batch_sizes
        assert stored is not None
        assert list(stored) == sorted(set(sizes))
        assert all(type(size) is int and 1 <= size <= 65536 for size in stored)


# Flags and targets


def test_every_relaxation_is_switched_explicitly() -> None:
    off = FastMath().xla_flags()
    assert off == (
        "--xla_cpu_enable_fast_math=false",
        "--xla_cpu_fast_math_honor_nans=true",
        "--xla_cpu_fast_math_honor_infs=true",
        "--xla_cpu_fast_math_honor_division=true",
        "--xla_cpu_fast_math_honor_functions=true",
        "--xla_cpu_enable_fast_min_max=false",
    )
    for number, field in enumerate(FastMath.model_fields):
        switches = FastMath.model_validate({"enable": True, field: True}).xla_flags()
        changed = {index for index in range(6) if switches[index] != off[index]}
        assert changed == {0, number}


def test_flags_of_a_cms_config_keep_their_meaning() -> None:
    spec = make(
        compilation={
            "xla_flags": ["--xla_cpu_enable_fast_math=true", "--xla_cpu_optimize_for_size"]
        }
    )
    flags = spec.xla_flags()
    assert len(flags) == 7
    assert [flag for flag in flags if "enable_fast_math" in flag] == [
        "--xla_cpu_enable_fast_math=true"
    ]
    assert make().xla_flags() == FastMath().xla_flags()


@given(
    st.text(max_size=30).map(lambda text: f"--xla_backend_optimization_level={text}")
    | st.text(max_size=10)
)
def test_a_flag_is_refused_or_one_plain_token(flag: str) -> None:
    if not is_refused(compilation={"xla_flags": [flag]}):
        assert re.fullmatch(r"--xla_[\w.,:/+=-]*", flag, re.ASCII)


def test_targets_are_known_levels_lowest_first() -> None:
    assert make().resolve_levels("x86_64") == default_levels("x86_64")
    assert make().resolve_levels("aarch64") == (LEVELS["armv8-a"],)
    chosen = make(targets=["x86-64-v4", "armv8.2-a+fp16+dotprod", "x86-64"])
    assert chosen.resolve_levels("x86_64") == (LEVELS["x86-64"], LEVELS["x86-64-v4"])
    assert chosen.resolve_levels("aarch64") == (LEVELS["armv8.2-a+fp16+dotprod"],)


# The whole


def test_a_spec_cannot_be_changed() -> None:
    spec = make()
    with pytest.raises(ValidationError, match="frozen"):
        spec.model.name = "other"


def test_the_digest_is_that_of_the_content() -> None:
    values = {"model": MODEL, "compilation": {"batch_sizes": [4, 1]}, "package": None}
    here = Spec.model_validate(values, context={"path": Path("here.yaml")})
    there = Spec.model_validate(
        {"compilation": {"batch_sizes": [1, 4]}, "model": MODEL},
        context={"path": Path("/x/y.json")},
    )
    assert here.spec_digest() == there.spec_digest()
    assert re.fullmatch("[0-9a-f]{64}", here.spec_digest())
    digests = {
        make().spec_digest(),
        here.spec_digest(),
        make(targets=["x86-64"]).spec_digest(),
        make(fast_math={"enable": True}).spec_digest(),
        make(batching={"rules": ["5:2,2,2"]}).spec_digest(),
        named("jet-tagger", "1.0.1").spec_digest(),
    }
    assert len(digests) == 6


def test_names_with_the_version(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text('model: {name: my-model, version: "1.1.0rc1"}\n')
    spec = load_spec(path).named_by_version()
    assert (spec.model.name, spec.module) == ("my-model-1-1-0rc1", "model_my_model_1_1_0rc1")
    assert (spec.model.version, spec.path) == ("1.1.0rc1", path)
    path.write_text(f'model: {{name: {"m" * 60}, version: "1.0.0"}}\n')
    with pytest.raises(SpecError, match="the name with the version may contain only"):
        load_spec(path).named_by_version()
