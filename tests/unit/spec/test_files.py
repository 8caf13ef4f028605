"""Whole spec files: sound ones load, broken ones are answered with the expected sentences."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelwheel.errors import SpecError
from modelwheel.model.readings import GraphDefReading, reading_of
from modelwheel.spec import BatchRule, GitSource, load_spec, load_specs
from modelwheel.spec.fields import Section
from modelwheel.spec.model import Spec
from modelwheel.spec.package import MAX_LICENSE_BYTES
from modelwheel.store.keys import action_key
from modelwheel.workers.jobs import FreezeRequest
from tests.specs.__main__ import broken_specs, message_of

ROOT = Path(__file__).parents[3]
VALID = sorted(path for path in (ROOT / "tests" / "specs" / "valid").iterdir() if path.is_file())
SHIPPED = sorted((ROOT / "model_specs").glob("*.yaml"))
HEAD = 'model: {name: jet-tagger, version: "1.0.0"}\n'


def write(directory: Path, text: str, name: str = "spec.yaml") -> Path:
    path = directory / name
    path.write_text(text, encoding="utf-8")
    return path


def message(path: Path) -> str:
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    return str(caught.value)


@pytest.mark.parametrize("path", VALID + SHIPPED, ids=lambda path: path.name)
def test_sound_specs_load(path: Path) -> None:
    spec = load_spec(path)
    assert spec.path == path
    assert spec.directory == path.parent


@pytest.mark.parametrize("path", broken_specs(), ids=lambda path: path.stem)
def test_broken_specs_are_answered_as_expected(path: Path) -> None:
    expected = path.with_suffix(".txt").read_text(encoding="utf-8")
    assert message_of(path) == expected, "to accept the new message: python -m tests.specs"


def test_messages_have_one_form() -> None:
    problem = re.compile(r"[\w.-]+:[1-9]\d*:[1-9]\d*: \S.*[^. ]")
    for path in broken_specs():
        *problems, count = message_of(path).splitlines()
        assert all(problem.fullmatch(line) for line in problems)
        assert count in ("1 problem in 1 spec.", f"{len(problems)} problems in 1 spec.")


def test_secrets_are_not_repeated() -> None:
    for path in broken_specs():
        assert "s3cret" not in message_of(path)


def test_nulls_mean_defaults() -> None:
    nulls = load_spec(VALID[0].with_name("nulls.yaml"))
    minimal = load_spec(VALID[0].with_name("minimal.yaml"))
    assert nulls.model_dump() == minimal.model_dump()
    assert minimal.model.serving_key == "serving_default"
    assert minimal.model.saved_model == "./saved_model"
    assert minimal.compilation.namespace == "tfaot_model"


def test_yaml_and_json_say_the_same() -> None:
    as_yaml, as_json = (
        load_spec(VALID[0].with_name(f"minimal.{kind}")) for kind in ("yaml", "json")
    )
    assert as_yaml.spec_digest() == as_json.spec_digest()


def test_the_order_of_feeds_is_part_of_digests_and_keys(tmp_path: Path) -> None:
    def load(feeds: str, fetches: str) -> Spec:
        path = tmp_path / "ordered.yaml"
        source = f"{{directory: ., path: graph.pb, feeds: {feeds}, fetches: {fetches}}}"
        path.write_text(f'model: {{name: ordered, version: "1.0.0"}}\nsource: {source}\n')
        return load_spec(path, with_files=False)

    one, same = (load("{b: x, a: y}", "{z: n, y: m}") for _ in range(2))
    others = load("{a: y, b: x}", "{z: n, y: m}"), load("{b: x, a: y}", "{y: m, z: n}")
    assert one.spec_digest() == same.spec_digest()
    keys = set()
    for spec in (one, *others):
        reading = reading_of(spec.origin, spec.interface_order)
        key = FreezeRequest(reading=reading, signature="s", batch=None).key_inputs(model="")
        keys.add((spec.spec_digest(), action_key("freeze", **key)))
    assert len({digest for digest, _ in keys}) == len({key for _, key in keys}) == 3
    # A worker reads what was sent to it in the same order.
    request = FreezeRequest(reading=reading_of(one.origin, "model"), signature="s", batch=None)
    read = FreezeRequest.model_validate_json(request.model_dump_json()).reading
    assert isinstance(read, GraphDefReading)
    assert (list(read.feeds), list(read.fetches)) == (["b", "a"], ["z", "y"])


def test_every_value_of_a_full_spec_arrives() -> None:
    spec = load_spec(VALID[0].with_name("full.yaml"))
    assert spec.compilation.batch_sizes == (1, 4, 16)
    assert spec.targets == ("x86-64", "x86-64-v3")
    assert spec.batching.rules == (BatchRule(5, (4, 1)), BatchRule(7, (4, 4)))
    assert spec.model.description == "Two lines,\nboth kept."
    assert spec.verify.tolerance_of("score").model_dump() == {"atol": 1e-7, "rtol": 1e-3}
    assert spec.verify.tolerance_of("class:0").model_dump() == {"atol": 0.0, "rtol": 1e-5}
    assert spec.verify.tolerance_of("other") == spec.verify.tolerance
    assert spec.verify.ranges == {"tracks": (-3.0, 3.5)}
    assert spec.inputs["tracks"].shape == (None, 100, 6)
    assert spec.inputs["hits"].shape_at(32) == (None, 32)
    assert (spec.inputs["hits"].buckets[1].pad, spec.allow_pruned_inputs) == (-1.0, "keep")
    assert (spec.names, spec.interface_order) == ({"in_1": "hits"}, "sorted")
    assert spec.label_texts == {"class:0": ("cat", "dog, or wolf")}
    unset = {field for field in Spec.model_fields if field not in spec.model_fields_set}
    assert unset == set()


def test_the_readme_shows_every_key(tmp_path: Path) -> None:
    text = (ROOT / "model_specs" / "README.md").read_text(encoding="utf-8")
    example = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert example is not None
    (tmp_path / "LICENSE.txt").touch()
    spec = load_spec(write(tmp_path, example[1]))
    assert isinstance(spec.source, GitSource)
    keys = {name for section in Section.__subclasses__() for name in section.model_fields}
    assert keys <= set(re.findall(r"(\w+):", text))


def test_the_shipped_test_models_are_those_of_cms() -> None:
    by_name = {spec.model.name: spec for spec in load_specs(SHIPPED)}
    for name in ("simple", "multi"):
        spec = by_name[f"test-{name}"]
        assert isinstance(spec.source, GitSource)
        assert spec.source.path == f"test_models/{name}/saved_model"
        assert spec.compilation.batch_sizes == (1, 2, 4)


# The defects of the CMS chain that concern its configuration file.


def test_cms_defect_serving_key_left_out(tmp_path: Path) -> None:
    spec = load_spec(write(tmp_path, HEAD + "compilation: {batch_sizes: [1]}\n"))
    assert spec.model.serving_key == "serving_default"


@pytest.mark.parametrize(
    ("sizes", "answer"),
    [
        ("[1, 2, 1]", "compilation.batch_sizes[2]: 1 is listed twice. Remove one of them"),
        ("[]", "compilation.batch_sizes: must not be empty"),
        ("[2.7]", "compilation.batch_sizes[0]: must be a whole number, got the number 2.7"),
    ],
)
def test_cms_defect_batch_sizes_duplicate_empty_or_cut_off(
    tmp_path: Path, sizes: str, answer: str
) -> None:
    path = write(tmp_path, HEAD + f"compilation: {{batch_sizes: {sizes}}}\n")
    assert answer in message(path)


@pytest.mark.parametrize("text", ["--xla_a=$(id)", "--xla_a=`id`", "--xla_a=1; id", "--xla_a='b'"])
def test_cms_defect_flags_reach_a_shell(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, HEAD + f'compilation: {{xla_flags: ["{text}"]}}\n')
    assert "compilation.xla_flags[0]: must be a single flag" in message(path)


# Anything at all.

_KEYS = [name for section in Section.__subclasses__() for name in section.model_fields]
_LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from(["jet", "1.0", "main", "5:2,2,2", "--xla_a=1", "x86-64", "https://a/b", "1" * 64])
)  # fmt: skip
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*_KEYS, "[key]", "<git>", "x", ""]), inner, max_size=5)
    ),
    max_leaves=20,
)
_SOURCES = st.dictionaries(
    st.sampled_from(["git", "archive", "directory", "commit", "sha256", "path", "<git>", "paht"]),
    _LEAVES,
)


@given(
    st.dictionaries(st.sampled_from([*Spec.model_fields, "[key]", "<git>", "x"]), _VALUES),
    _SOURCES | st.none(),
)
def test_whatever_a_file_says_is_a_spec_or_a_list_of_problems(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, object], source: object
) -> None:
    text = json.dumps({**values, "source": source})
    path = write(tmp_path_factory.getbasetemp(), text, "any.json")
    answer = message_of(path) or load_spec(path).spec_digest()
    assert re.search(r"\n[1-9]\d* problems? in 1 spec\.\n$|^[0-9a-f]{64}$", answer)


# Several specs.


def test_names_that_make_one_wheel_are_refused(tmp_path: Path) -> None:
    first = write(tmp_path, HEAD.replace("jet-tagger", "jet-tagger-x"), "a.yaml")
    second = write(tmp_path, HEAD.replace("jet-tagger", "jet_tagger_x"), "b.yaml")
    with pytest.raises(SpecError) as caught:
        load_specs([first, second])
    assert str(caught.value) == (
        f"{second}:1:15: model.name: 'jet_tagger_x' would make the same wheel model-jet-tagger-x "
        f"as {first}. Rename one of them\n1 problem in 1 spec."
    )


def test_all_files_are_judged_at_once(tmp_path: Path) -> None:
    first = write(tmp_path, "model: {}\n", "a.yaml")
    second = write(tmp_path, HEAD, "b.yaml")
    third = write(tmp_path, HEAD + "x: 1\n", "c.yaml")
    with pytest.raises(SpecError, match=r"\n3 problems in 2 specs\.$") as caught:
        load_specs([first, second, third])
    assert [line.split(":")[0] for line in str(caught.value).splitlines()[:3]] == [
        str(first),
        str(first),
        str(third),
    ]


def test_a_file_named_twice_is_one_spec(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD)
    other = write(tmp_path, HEAD.replace("jet", "b"), "b.yaml")
    specs = load_specs([path, other, tmp_path / "." / "spec.yaml", path])
    assert [spec.path for spec in specs] == [path, other]
    assert load_specs([]) == []


def test_a_flood_of_mistakes_is_cut(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD + "".join(f"key{n}: 1\n" for n in range(5000)))
    lines = message(path).splitlines()
    assert len(lines) == 102
    assert lines[-2:] == ["... and 4900 more.", "5000 problems in 1 spec."]
    long = write(tmp_path, f"model: {{name: '{'x' * 100_000}', {'y' * 100_000}: 1}}\n")
    assert max(map(len, message(long).splitlines())) < 1000


def test_specs_are_read_without_tensorflow() -> None:
    code = "import sys, modelwheel.spec; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_repetition_without_end_is_answered(tmp_path: Path) -> None:
    repeated = ", ".join(["x86-64"] * 20_000)
    answer = message(write(tmp_path, HEAD + f"targets: [{repeated}]\n"))
    assert answer.splitlines()[0].endswith("targets[1]: x86-64 is listed twice. Remove one of them")


# Licence texts

LICENSED = HEAD + "package: {license_files: [%s]}\n"


def test_a_licence_text_that_is_a_link_is_refused(tmp_path: Path) -> None:
    private = write(tmp_path, "s3cret", "private")
    checkout = tmp_path / "checkout"
    (checkout / "real").mkdir(parents=True)
    write(checkout / "real", "terms", "TERMS")
    (checkout / "LICENSE").symlink_to(private)
    (checkout / "linked").symlink_to("real")
    said = message(write(checkout, LICENSED % "LICENSE"))
    assert "package.license_files[0]: 'LICENSE' is a symbolic link, not a regular file" in said
    assert "is a symbolic link, not a directory" in message(
        write(checkout, LICENSED % "linked/TERMS")
    )
    assert "'real' is a directory, not a regular file" in message(
        write(checkout, LICENSED % "real")
    )
    spec = load_spec(write(checkout, LICENSED % "real/TERMS"))
    assert spec.license_texts == {"TERMS": b"terms"}


def test_a_licence_text_that_becomes_a_link_is_refused(tmp_path: Path) -> None:
    private = write(tmp_path, "s3cret", "private")
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    text = write(checkout, "terms", "LICENSE")
    spec = load_spec(write(checkout, LICENSED % "LICENSE"))
    again = load_spec(spec.path)
    text.unlink()
    text.symlink_to(private)
    with pytest.raises(SpecError, match="'LICENSE' is a symbolic link"):
        again.license_texts  # noqa: B018 - reading it opens the file
    text.unlink()
    text.write_text("terms")
    assert spec.license_texts == {"LICENSE": b"terms"}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_licence_texts_that_are_no_files_or_too_long(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "'pipe' is a named pipe" in message(write(tmp_path, LICENSED % "pipe"))
    (tmp_path / "long").write_bytes(bytes(MAX_LICENSE_BYTES + 1))
    assert "'long' has more than 1.05 MB" in message(write(tmp_path, LICENSED % "long"))


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ("con", "device on Windows"),
        ("aux.txt", "device on Windows"),
        ('"a?b"', "which Windows refuses"),
        ("trailing.", "ends with a dot"),
        ("Terms, a/TERMS", "clash"),
    ],
)
def test_licence_texts_that_no_windows_can_hold(tmp_path: Path, names: str, reason: str) -> None:
    (tmp_path / "a").mkdir()
    for name in names.replace('"', "").split(", "):
        write(tmp_path, "terms", name)
    assert reason in message(write(tmp_path, LICENSED % names))
