"""Specs chosen through git: changed since a commit, named by a tag, released once and never changed again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from modelwheel.errors import SpecError, UsageError
from modelwheel.release.selection import (
    release_tag,
    require_on_branch,
    require_released_once,
    select_changed,
    select_shard,
    select_tagged,
)
from modelwheel.spec import Spec, find_specs, load_specs
from tests.support.commands import Modelwheel
from tests.support.repositories import Repository, isolate_git
from tests.support.sources import write

NAMES = ("alpha", "beta", "beta-gamma")

SPEC = """\
model: {{name: {name}, version: "1.0.0"}}
source: {{directory: ../models/{name}}}
package: {{weights_license: MIT, license_files: [texts/{name}]}}
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Three specs with their models and licence texts, on `main`; `work` is checked out."""
    isolate_git(monkeypatch, tmp_path / "gitconfig")
    made = Repository(tmp_path / "checkout")
    for name in NAMES:
        put(made, f"specs/{name}.yaml", SPEC.format(name=name))
        put(made, f"specs/texts/{name}", "All of it.\n")
        put(made, f"models/{name}/saved_model.pb", f"graph of {name}")
    made.commit({})
    made.git("checkout", "--quiet", "-b", "work")
    return made


def put(repository: Repository, path: str, text: str) -> None:
    write(repository.directory, {path: text.encode()})


def load(repository: Repository) -> list[Spec]:
    return load_specs(find_specs([str(repository.directory / "specs")]))


def changed(repository: Repository, revision: str = "main") -> list[str]:
    return [spec.model.name for spec in select_changed(load(repository), revision)]


def edit(repository: Repository, name: str, old: str, new: str) -> None:
    path = repository.directory / "specs" / f"{name}.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


# --- in turns ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_every_spec_is_in_one_part_and_all_have_their_turn(
    repository: Repository, parts: int
) -> None:
    specs = load(repository)
    weeks = [select_shard(specs, f"{week}/{parts}") for week in range(48, 48 + parts)]
    assert sorted(spec.model.name for week in weeks for spec in week) == sorted(NAMES)
    assert max(map(len, weeks)) - min(map(len, weeks)) <= 1
    assert select_shard(specs[::-1], f"1/{parts}") == select_shard(specs, f"{parts + 1}/{parts}")


@pytest.mark.parametrize("shard", ["1", "1/0", "-1/2", "a/2", "1/2/3", "1.5/2"])
def test_what_is_no_part(repository: Repository, shard: str) -> None:
    with pytest.raises(UsageError, match="is not K/N, such as 1/4"):
        select_shard(load(repository), shard)


def test_a_command_builds_one_part(repository: Repository, tmp_path: Path) -> None:
    done = Modelwheel(tmp_path / "cache")(
        "check", repository.directory / "specs", "--spec-only", "--shard", "2/3"
    )
    assert done.out == "1 spec OK\n"
    assert done.err.startswith("in shard 2/3: ")
    assert done.err.splitlines()[0].endswith("beta.yaml")


# --- changed since --------------------------------------------------------------------------------


def test_nothing_has_changed(repository: Repository) -> None:
    assert changed(repository) == []


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize(
    "path",
    ["specs/beta.yaml", "specs/beta.tune.json", "specs/texts/beta", "models/beta/saved_model.pb",
     "models/beta/variables/new"],
)  # fmt: skip
def test_a_spec_or_a_file_beside_it(repository: Repository, path: str, committed: bool) -> None:
    file = repository.directory / path
    put(repository, path, (file.read_text() if file.exists() else "") + "# more\n")
    if committed:
        repository.commit({})
    assert changed(repository) == ["beta"]


def test_files_of_others_do_not_count(repository: Repository) -> None:
    put(repository, "specs/README.md", "Specs.\n")
    put(repository, "specs/beta.txt", "Notes.\n")
    put(repository, "beta.yaml", "not a spec of this directory\n")
    repository.commit({})
    assert changed(repository) == []


def test_new_renamed_and_deleted_specs(repository: Repository) -> None:
    specs = repository.directory / "specs"
    (specs / "alpha.yaml").rename(specs / "omega.yaml")
    (specs / "beta.yaml").unlink()
    put(repository, "specs/texts/delta", "All of it.\n")
    put(repository, "specs/delta.yaml", SPEC.format(name="delta"))
    repository.commit({})
    assert changed(repository) == ["delta", "alpha"]  # in the order of the files' names


def test_what_came_to_the_base_meanwhile_does_not_count(repository: Repository) -> None:
    edit(repository, "alpha", "1.0.0", "1.0.1")
    repository.commit({})
    repository.git("checkout", "--quiet", "main")
    edit(repository, "beta", "1.0.0", "1.0.1")
    repository.commit({})
    repository.git("checkout", "--quiet", "work")
    assert changed(repository) == ["alpha"]


def test_a_merge_as_github_makes_it_of_a_pull_request(repository: Repository) -> None:
    edit(repository, "alpha", "1.0.0", "1.0.1")
    repository.commit({})
    repository.git("checkout", "--quiet", "main")
    edit(repository, "beta", "1.0.0", "1.0.1")
    repository.commit({})
    repository.git("checkout", "--quiet", "--detach")
    repository.git("merge", "--quiet", "--no-ff", "-m", "merge", "work")
    assert changed(repository, "HEAD^1") == ["alpha"]


def test_names_that_git_would_quote(repository: Repository) -> None:
    put(repository, "specs/texts/lïcence 1", "All of it.\n")
    repository.commit({})
    repository.git("branch", "--force", "base")
    edit(repository, "alpha", "[texts/alpha]", "['texts/lïcence 1']")
    repository.commit({})
    assert changed(repository, "base") == ["alpha"]
    repository.git("branch", "--force", "base")
    put(repository, "specs/texts/lïcence 1", "None of it.\n")
    repository.commit({})
    assert changed(repository, "base") == ["alpha"]


def test_a_directory_inside_the_checkout_and_a_link_to_it(repository: Repository) -> None:
    edit(repository, "alpha", "1.0.0", "1.0.1")
    link = repository.directory.parent / "link"
    link.symlink_to(repository.directory / "specs")
    specs = load_specs(find_specs([str(link)]))
    assert [spec.model.name for spec in select_changed(specs, "main")] == ["alpha"]


def test_inside_a_hook_of_another_repository(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(repository, "alpha", "1.0.0", "1.0.1")
    other = Repository(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other.directory / ".git"))
    assert changed(repository) == ["alpha"]


@pytest.mark.parametrize("revision", ["nowhere", "--output=/tmp/x", "main:specs"])
def test_a_base_that_is_not_there(repository: Repository, revision: str) -> None:
    with pytest.raises(UsageError, match="has no commit") as caught:
        changed(repository, revision)
    assert "\n" not in str(caught.value)


def test_a_base_without_common_history(repository: Repository) -> None:
    repository.git("checkout", "--quiet", "--orphan", "island")
    put(repository, "island", "alone")
    repository.commit({})
    repository.git("checkout", "--quiet", "work")
    with pytest.raises(UsageError, match="share no commit; fetch the whole history"):
        changed(repository, "island")


def test_no_checkout(repository: Repository, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(repository.directory / "specs", copy)
    with pytest.raises(UsageError, match="is not in a git checkout: fatal: not a git"):
        select_changed(load_specs(find_specs([str(copy)])), "main")


# --- released once --------------------------------------------------------------------------------


@pytest.fixture
def released(repository: Repository) -> Repository:
    """The same with `alpha` released."""
    repository.git("tag", "--annotate", "--message=release", "alpha-1.0.0")
    return repository


def test_what_was_released_may_stay(released: Repository) -> None:
    edit(released, "beta", "1.0.0", "1.0.1")
    require_released_once(load(released))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("specs/alpha.yaml", SPEC.format(name="alpha") + "fast_math: {enable: true}\n"),
        ("specs/alpha.tune.json", '{"cpu": "any", "nanoseconds": {}}'),
        ("specs/texts/alpha", "None of it.\n"),
        ("models/alpha/saved_model.pb", "another graph"),
    ],
)
@pytest.mark.parametrize("committed", [True, False])
def test_a_released_version_is_not_changed(
    released: Repository, path: str, text: str, committed: bool
) -> None:
    put(released, path, text)
    if committed:
        released.commit({})
    with pytest.raises(SpecError) as caught:
        require_released_once(load(released))
    message = str(caught.value)
    assert f"{path} differs from the one released under the tag 'alpha-1.0.0'" in message
    assert message.endswith("raise model.version (1.0.0)")
    assert "\n" not in message


def test_a_measurement_taken_back_is_a_change(released: Repository) -> None:
    put(released, "specs/beta.tune.json", "{}")
    released.commit({})
    released.git("tag", "beta-1.0.0")
    (released.directory / "specs" / "beta.tune.json").unlink()
    with pytest.raises(
        SpecError,
        match=r"beta\.tune\.json differs from the one released under the tag 'beta-1.0.0'",
    ):
        require_released_once(load(released))


def test_with_its_version_raised_it_may_be_changed(released: Repository) -> None:
    edit(released, "alpha", '"1.0.0"}', '"1.1.0"}')
    put(released, "models/alpha/saved_model.pb", "another graph")
    require_released_once(load(released))


def test_comments_layout_and_place_may_be_changed(released: Repository) -> None:
    edit(released, "alpha", "model:", "# A comment.\nmodel:")
    edit(released, "alpha", 'version: "1.0.0"', "version: '1.0.0'")
    released.commit({})
    require_released_once(load(released))
    specs = released.directory / "specs"
    (specs / "alpha.yaml").rename(specs / "omega.yaml")
    released.commit({})
    require_released_once(load(released))


def test_a_spec_that_this_modelwheel_cannot_read_any_more(repository: Repository) -> None:
    edit(repository, "alpha", "model:", "retired: true\nmodel:")
    repository.commit({})
    repository.git("tag", "alpha-1.0.0")
    edit(repository, "alpha", "retired: true\n", "")
    with pytest.raises(SpecError, match="differs from the one released"):
        require_released_once(load(repository))


def test_a_branch_is_no_tag(repository: Repository) -> None:
    repository.git("branch", "alpha-1.0.0")
    edit(repository, "alpha", "texts/alpha", "texts/beta")
    require_released_once(load(repository))


def test_a_clone_without_tags_is_not_believed(released: Repository, tmp_path: Path) -> None:
    released.commit({}, "--allow-empty")
    clone = tmp_path / "clone"
    released.git("clone", "--quiet", "--depth=1", f"file://{released.directory}", str(clone))
    with pytest.raises(UsageError, match=r"shallow clone.*git fetch --unshallow --tags"):
        require_released_once(load_specs(find_specs([str(clone / "specs")])))


# --- tags -----------------------------------------------------------------------------------------


def test_a_tag_names_its_spec(repository: Repository) -> None:
    specs = load(repository)
    for name in NAMES:
        spec = select_tagged(specs, f"{name}-1.0.0")
        assert (spec.model.name, release_tag(spec)) == (name, f"{name}-1.0.0")


@pytest.mark.parametrize(
    ("tag", "words"),
    [
        ("alpha-1.0.1", r"alpha\.yaml has version 1\.0\.0.*or use the tag 'alpha-1\.0\.0'"),
        ("alpha-1.0", r"alpha\.yaml has version 1\.0\.0"),
        ("beta-gamma-2.0rc1", r"beta-gamma\.yaml has version 1\.0\.0"),
        ("delta-1.0.0", "matches none of these specs; tags have the form NAME-VERSION"),
        ("beta-gamma", "matches none of these specs"),
        ("v1.0.0", "matches none of these specs"),
    ],
)
def test_a_tag_that_does_not_agree(repository: Repository, tag: str, words: str) -> None:
    with pytest.raises(SpecError, match=words) as caught:
        select_tagged(load(repository), tag)
    assert "\n" not in str(caught.value)


# --- on the branch --------------------------------------------------------------------------------

BRANCH = "refs/heads/main"


def tag_alpha(repository: Repository, commit: str = "HEAD") -> None:
    repository.git("tag", "--force", "alpha-1.0.0", commit)


def check_alpha(repository: Repository) -> None:
    require_on_branch([select_tagged(load(repository), "alpha-1.0.0")], BRANCH, "alpha-1.0.0")


def refusal(repository: Repository) -> str:
    with pytest.raises(SpecError) as caught:
        check_alpha(repository)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_tag_on_the_branch_is_released(repository: Repository) -> None:
    """Also if other specs have changed since, and comments of this one."""
    tag_alpha(repository)
    repository.git("checkout", "--quiet", "main")
    edit(repository, "beta", "1.0.0", "1.0.1")
    edit(repository, "alpha", "model:", "# A comment.\nmodel:")
    repository.commit({})
    check_at(repository, "alpha-1.0.0")


def check_at(repository: Repository, revision: str) -> None:
    repository.git("checkout", "--quiet", revision)
    check_alpha(repository)


def test_a_tag_on_another_branch_is_refused(repository: Repository) -> None:
    """What nobody merged, though its spec says the same."""
    put(repository, "README", "Never reviewed.\n")
    commit = repository.commit({})
    tag_alpha(repository)
    assert refusal(repository).startswith(f"{commit} is not on refs/heads/main, and only merged")
    repository.git("checkout", "--quiet", "main")
    repository.git("merge", "--quiet", "--no-ff", "-m", "merge", "work")
    check_at(repository, "alpha-1.0.0")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("specs/alpha.yaml", SPEC.format(name="alpha") + "fast_math: {enable: true}\n"),
        ("specs/texts/alpha", "None of it.\n"),
        ("models/alpha/saved_model.pb", "another graph"),
    ],
)
def test_an_older_spec_than_the_branch_has_is_refused(
    repository: Repository, path: str, text: str
) -> None:
    tag_alpha(repository)
    repository.git("checkout", "--quiet", "main")
    put(repository, path, text)
    repository.commit({})
    repository.git("checkout", "--quiet", "alpha-1.0.0")
    assert f"{path} differs from that on refs/heads/main" in refusal(repository)


def test_another_commit_than_the_tags_is_refused(repository: Repository) -> None:
    """A tag that was moved since the checkout."""
    repository.git("checkout", "--quiet", "main")
    repository.git("commit", "--quiet", "--allow-empty", "--message=x")
    tag_alpha(repository, "HEAD^")
    assert "is not what 'alpha-1.0.0' tags" in refusal(repository)


def test_a_tag_cannot_pose_as_the_branch(repository: Repository) -> None:
    """git takes a tag for a short name before it takes a branch."""
    put(repository, "README", "Never reviewed.\n")
    repository.commit({})
    tag_alpha(repository)
    repository.git("tag", "main")
    assert "is not on refs/heads/main" in refusal(repository)
    with pytest.raises(
        UsageError,
        match="needs the full name of a branch, such as refs/remotes/origin/main, not 'main'",
    ):
        require_on_branch(load(repository), "main")
    with pytest.raises(UsageError, match="has no refs/heads/nowhere; fetch it"):
        require_on_branch(load(repository), "refs/heads/nowhere")


def test_the_runtime_is_released_from_the_branch(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository.directory)
    require_on_branch((), BRANCH)
    repository.git("commit", "--quiet", "--allow-empty", "--message=x")
    with pytest.raises(SpecError, match="is not on refs/heads/main"):
        require_on_branch((), BRANCH)


# --- the commands ---------------------------------------------------------------------------------


def test_commands_take_the_same_options(released: Repository, tmp_path: Path) -> None:
    modelwheel, specs = Modelwheel(tmp_path / "cache"), released.directory / "specs"
    edit(released, "beta", "1.0.0", "1.0.1")
    done = modelwheel("check", specs, "--spec-only", "--released-once", "--changed-since", "main")
    assert done.out == "1 spec OK\n"
    # A warning about the licence of its weights follows.
    assert done.err.splitlines()[0] == f"changed since main: {specs / 'beta.yaml'}"
    planned = modelwheel("plan", specs, "--json", "--changed-since", "main", "--tag", "").json
    assert {step["name"].partition("/")[0] for step in planned} == {"beta-1.0.1"}
    listed = modelwheel(
        "plan", specs, "--release-list", "--tag", "alpha-1.0.0", "--changed-since", "",
        "--platform", "windows-amd64",
    ).json  # fmt: skip
    assert (listed["sdist"], list(listed["jobs"])) == (
        "model_alpha-1.0.0.tar.gz",
        ["windows-amd64"],
    )
    for command in ("check", "plan", "build", "compile"):
        done = modelwheel(command, specs, "--tag", "alpha-2", code=SpecError.exit_code)
        assert "alpha.yaml has version 1.0.0" in done.err


def test_nothing_changed_is_nothing_to_do(repository: Repository, tmp_path: Path) -> None:
    modelwheel, specs = Modelwheel(tmp_path / "cache"), repository.directory / "specs"
    for command in ("check", "build"):
        done = modelwheel(command, specs, "--changed-since", "main")
        assert (done.out, done.err) == ("", "changed since main: no spec\n")


def test_a_changed_release_is_told_in_a_sentence(released: Repository, tmp_path: Path) -> None:
    modelwheel, specs = Modelwheel(tmp_path / "cache"), released.directory / "specs"
    edit(released, "alpha", "texts/alpha", "texts/beta")
    options = ("--spec-only", "--released-once")
    done = modelwheel("check", specs, *options, code=SpecError.exit_code)
    assert done.err.startswith(
        f"error: {specs / 'alpha.yaml'}: specs/alpha.yaml differs from the one released"
    )
    assert done.err.count("\n") == 1
