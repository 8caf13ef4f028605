"""The file of what was measured, beside a spec."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.errors import SpecError
from modelwheel.levels import LEVELS
from modelwheel.request import make_request
from modelwheel.spec import load_spec
from modelwheel.spec.tune_lock import TuneLock, lock_path, read_lock, write_lock
from modelwheel.workers.flags import compiler_flags

WIDTH = "--xla_cpu_prefer_vector_width"


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text('model: {name: tiny, version: "1"}\n')
    return path


@pytest.mark.parametrize(
    ("lock", "words"),
    [
        ("{}", r"tiny\.tune\.json: nanoseconds: Field required; run `modelwheel tune .*` again"),
        ("[", r"tiny\.tune\.json: .*JSON"),
        ('{"nanoseconds": {"x86-64": {"1": -5}}}', r"nanoseconds\.x86-64\.1: .*greater than"),
        ('{"nanoseconds": {}, "xla_flags": {"x86-64": ["--xla_dump_to=x"]}}', "writes files"),
        (
            '{"nanoseconds": {}, "xla_flags": {"x86-64": ["--xla_cpu_enable_fast_math=true"]}}',
            r"xla_flags\.x86-64: .*tiny\.yaml sets xla_cpu_enable_fast_math, too",
        ),
    ],
)
def test_a_damaged_lock_file_is_named(spec: Path, lock: str, words: str) -> None:
    lock_path(spec).write_text(lock)
    with pytest.raises(SpecError, match=words) as caught:
        make_request(load_spec(spec))
    assert "\n" not in str(caught.value)


def test_it_is_sorted(spec: Path) -> None:
    lock = TuneLock(
        nanoseconds={"x86-64-v3": {4: 2.0, 1: 1.0}, "x86-64": {1: 3.0}},
        xla_flags={"x86-64-v3": (f"{WIDTH}=256",), "x86-64": ()},
    )
    text = write_lock(spec, lock).read_text()
    assert text.index('"x86-64"') < text.index('"x86-64-v3"')
    assert text.index('"1": 1.0') < text.index('"4": 2.0')
    assert read_lock(load_spec(spec)) == lock.model_copy(
        update={"xla_flags": {"x86-64-v3": (f"{WIDTH}=256",)}}
    )


def test_flags_of_a_level_follow_its_own_and_precede_the_specs(spec: Path) -> None:
    level = LEVELS["x86-64-v4"]
    write_lock(spec, TuneLock(nanoseconds={}, xla_flags={level.name: (f"{WIDTH}=256",)}))
    request = make_request(load_spec(spec))
    tuned = compiler_flags(request.spec, level, request.tuned).xla
    plain = compiler_flags(request.spec, level, TuneLock(nanoseconds={})).xla
    own = len(request.spec.xla_flags())
    assert tuned == (*plain[:-own], f"{WIDTH}=256", *plain[-own:])
    other = LEVELS["x86-64-v3"]
    assert not any(WIDTH in f for f in compiler_flags(request.spec, other, request.tuned).xla)
