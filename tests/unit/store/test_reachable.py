"""What results were made from, as their records note it."""

from __future__ import annotations

from hashlib import sha256

from modelwheel.store.records import Record
from modelwheel.store.upkeep.reachable import holding, reachable
from modelwheel.util.files import FileDigest


def digest(content: str) -> str:
    return sha256(content.encode()).hexdigest()


def record(name: str, files: dict[str, str], **note: object) -> Record:
    """The result of a step: contents by file name, and its note."""
    hashed = {file: FileDigest(digest(text), len(text)) for file, text in files.items()}
    return Record(digest(f"key of {name}"), hashed, note)


def hashes(one: Record) -> dict[str, str]:
    return {name: file.sha256 for name, file in one.files.items()}


def chain(model: str) -> dict[str, Record]:
    """The results of one model; the licence is in all models."""
    tree = digest(f"tree {model}")
    fetch = record(f"{model}/fetch", {"m.onnx": model}, kind="git", tree=tree)
    freeze = record(
        f"{model}/freeze", {"graph": f"graph {model}"}, step="freeze", inputs={"model": tree}
    )
    kernel = record(f"{model}/kernel", {"k.o": f"k {model}"}, step="k", inputs={"template": "1"})
    project = record(
        f"{model}/project",
        {"LICENSE": "licence", "manifest.json": f"manifest {model}"},
        step="project",
        inputs={"graphs": [freeze.files["graph"].sha256]},
    )
    wheel = record(
        f"{model}/wheel",
        {"m.whl": f"wheel {model}"},
        step="wheel",
        inputs={"project": hashes(project), "kernels": {"k": kernel.key}},
    )
    names = ("fetch", "freeze", "kernel", "project", "wheel")
    return dict(zip(names, (fetch, freeze, kernel, project, wheel), strict=True))


def test_all_that_a_wheel_was_made_from_and_nothing_else() -> None:
    ours, theirs = chain("ours"), chain("theirs")
    records = [*ours.values(), *theirs.values()]
    roots = holding(records, {ours["wheel"].files["m.whl"].sha256})
    assert roots == {ours["wheel"].key}
    found, silent = reachable(records, roots)
    assert found == {one.key for one in ours.values()}
    assert silent == set()


def test_what_older_versions_made_is_named() -> None:
    ours = chain("ours")
    old = Record(ours["wheel"].key, ours["wheel"].files, {"step": "wheel"})
    assert reachable([*ours.values(), old], [old.key]) == ({old.key}, {old.key})


def test_results_that_are_not_there_are_left_out() -> None:
    ours = chain("ours")
    del ours["freeze"]
    found, _ = reachable(ours.values(), [ours["wheel"].key, "0" * 64])
    assert found == {ours[name].key for name in ("wheel", "project", "kernel")}
