"""Wheels that were kept in spite of their verification: what they are called, and who refuses them."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.audit import audit_wheels
from modelwheel.errors import ModelwheelError, WheelError
from modelwheel.index.site.wheels import read_files
from modelwheel.wheelfile.unverified import mark_unverified, require_verified
from modelwheel.wheelfile.wheel import Wheel, open_wheel
from tests.support.commands import Modelwheel
from tests.support.index_wheels import make_wheel

SENTENCE = "did not pass verification and was kept for inspection alone"


@pytest.fixture
def marked(tmp_path: Path) -> Wheel:
    """A marked copy of a wheel."""
    (tmp_path / "kept").mkdir()
    wheel = open_wheel(make_wheel(tmp_path, "digits"))
    require_verified(wheel)
    return open_wheel(mark_unverified(wheel, "a.whl: y is wrong", tmp_path / "kept"))


def test_its_version_and_its_manifest_say_it(marked: Wheel) -> None:
    assert marked.name.startswith("model_digits-1.0.0+unverified-")
    assert str(marked.metadata.version) == "1.0.0+unverified"
    assert marked.dist_info == "model_digits-1.0.0+unverified.dist-info"
    assert marked.manifest.unverified == "a.whl: y is wrong"
    marked.require_own_name()
    listed = {
        line.split(",")[0] for line in marked.read(f"{marked.dist_info}/RECORD").decode().split()
    }
    assert listed == set(marked.members)


def test_it_is_refused_whatever_its_name_is(marked: Wheel) -> None:
    with pytest.raises(WheelError, match=SENTENCE):
        require_verified(marked)
    renamed = marked.path.rename(marked.path.with_name(marked.name.replace("+unverified", "")))
    with pytest.raises(WheelError, match=SENTENCE):
        require_verified(open_wheel(renamed))


def test_nothing_publishes_it(marked: Wheel, tmp_path: Path) -> None:
    (audited,) = audit_wheels([marked.path])
    assert SENTENCE in str(audited.error)
    with pytest.raises(ModelwheelError, match=SENTENCE):
        read_files([marked.path])
    done = Modelwheel(tmp_path / "cache")(
        "publish", marked.path, "--repository-url", "http://127.0.0.1:1/", code=WheelError.exit_code
    )
    assert SENTENCE in done.err
