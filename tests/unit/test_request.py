"""What a spec and the command line ask for, and where the model comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modelwheel.errors import SpecError, UsageError
from modelwheel.request import Extent, make_request
from modelwheel.spec import GitSource, Spec, load_spec

COMMIT = "0123456789" * 4


@pytest.mark.parametrize("place", ["here", "elsewhere"])
def test_a_relative_repository_is_found_but_not_told_of(tmp_path: Path, place: str) -> None:
    spec = tmp_path / place / "model.yaml"
    spec.parent.mkdir()
    spec.write_text(
        'model: {name: m, version: "1"}\n'
        f'source: {{git: ../data, commit: "{COMMIT}", path: saved_model}}\n',
        encoding="utf-8",
    )
    origin = load_spec(spec).origin
    assert isinstance(origin, GitSource)
    assert Path(origin.address).resolve() == (tmp_path / "data").resolve()
    told = origin.provenance("ab" * 32)
    assert told["url"] == "../data"
    assert str(tmp_path) not in str(told)


def test_a_remote_repository_is_told_of(tmp_path: Path) -> None:
    spec = tmp_path / "model.yaml"
    spec.write_text(
        'model: {name: m, version: "1"}\n'
        f'source: {{git: "https://example.org/data.git", commit: "{COMMIT}"}}\n',
        encoding="utf-8",
    )
    told = load_spec(spec).origin.provenance("ab" * 32)
    assert told["url"] == "https://example.org/data.git"
    assert told["commit"] == COMMIT


def _spec(directory: Path, more: str = "") -> Spec:
    path = directory / "model.yaml"
    path.write_text(f'model: {{name: m, version: "1"}}\n{more}', encoding="utf-8")
    return load_spec(path)


def test_a_request_narrows_a_spec(tmp_path: Path) -> None:
    spec = _spec(tmp_path, "compilation: {batch_sizes: [4, 1]}\n")
    request = make_request(spec, ["x86-64"], [4], ["linux-x86_64", "macos-x86_64"])
    assert request.name == "m-1"
    assert [(p.name, level.name, size) for p, level, size in request.variants] == [
        ("linux-x86_64", "x86-64", Extent(4)),
        ("macos-x86_64", "x86-64", Extent(4)),
    ]


def test_all_platforms_are_those_that_have_one_of_the_levels(tmp_path: Path) -> None:
    every = make_request(_spec(tmp_path), platforms=())
    assert {p.architecture for p in every.platforms} == {"x86_64", "aarch64"}
    intel = make_request(_spec(tmp_path), ["x86-64-v3"], platforms=())
    assert {p.architecture for p in intel.platforms} == {"x86_64"}
    assert all(intel.levels_of(platform) for platform in intel.platforms)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        # The command would otherwise drop macOS without a word.
        (
            {"levels": ["x86-64-v3"], "platforms": ["linux-x86_64", "macos-arm64"]},
            "--level x86-64-v3 does not exist on macos-arm64; its levels are armv8-a",
        ),
        (
            {"levels": ["x86-64-v3"], "platforms": ["macos-arm64"]},
            "is not compiled for 'x86-64-v3' on macos-arm64; choose from armv8-a",
        ),
        ({"platforms": ["linux-riscv"]}, "--platform: unknown platform 'linux-riscv'; choose from"),
        ({"levels": ["avx2"], "platforms": ["linux-x86_64"]}, "--level: unknown CPU level 'avx2'"),
        (
            {"batch_sizes": [3], "platforms": ["linux-x86_64"]},
            "--batch-size: 3 is not a batch size",
        ),
    ],
)
def test_what_contradicts_the_spec_or_itself_is_refused(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        make_request(_spec(tmp_path), **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_all_platforms_are_those_of_the_configuration(tmp_path: Path) -> None:
    """But one that is asked for by name."""
    spec = _spec(tmp_path, "targets: [x86-64]\n")
    allowed = {"linux-x86_64", "macos-arm64"}

    def names(platforms: list[str]) -> list[str]:
        return [p.name for p in make_request(spec, platforms=platforms, allowed=allowed).platforms]

    assert names([]) == ["linux-x86_64"]
    assert names(["windows-amd64"]) == ["windows-amd64"]
    with pytest.raises(
        UsageError, match=r"has no CPU levels of macos-arm64; check `targets`, and \[build\]"
    ):
        make_request(spec, platforms=[], allowed={"macos-arm64"})


def test_a_platform_without_any_level_of_the_spec_is_refused(tmp_path: Path) -> None:
    spec = _spec(tmp_path, "targets: [x86-64]\n")
    with pytest.raises(
        SpecError, match=r"targets: none of these CPU levels belongs to macos-arm64"
    ):
        make_request(spec, platforms=["macos-arm64"])


def test_rules_need_their_batch_sizes(tmp_path: Path) -> None:
    spec = _spec(tmp_path, 'batching: {rules: ["5:4,1"]}\n')
    with pytest.raises(SpecError, match="'5:4,1' uses 4, but only 1 will be compiled"):
        make_request(spec, platforms=())


@pytest.mark.parametrize(
    ("more", "open_sizes"),
    [
        ("", True),
        ("compilation: {batch_sizes: [1]}\n", False),
        ("batching: {emulate: false}\n", False),
        ("batching: {strategy: smallest}\n", False),
        ('batching: {rules: ["3:1,1,1"]}\n', False),
        ("keep_state: true\n", False),
    ],
)
def test_a_spec_that_names_no_batch_sizes_leaves_them_to_the_model(
    tmp_path: Path, more: str, *, open_sizes: bool
) -> None:
    request = make_request(_spec(tmp_path, more), platforms=())
    assert (request.batch_sizes, request.sizes_by_model) == ((1,), open_sizes)


def test_the_command_line_chooses_among_the_default_batch_sizes(tmp_path: Path) -> None:
    request = make_request(_spec(tmp_path), batch_sizes=[16], platforms=())
    assert (request.batch_sizes, request.sizes_by_model) == ((16,), False)
    with pytest.raises(UsageError, match=r"--batch-size: 3 is not .*choose from 1, 4, 16, 64"):
        make_request(_spec(tmp_path), batch_sizes=[3], platforms=())
