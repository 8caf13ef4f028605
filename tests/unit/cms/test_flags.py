"""The value of `--additional-flags`: what is obeyed, and a sentence for everything else."""

from __future__ import annotations

import pytest

from modelwheel.cms.flags import Target, parse_flags
from modelwheel.errors import UsageError


@pytest.mark.parametrize(
    ("flags", "target"),
    [
        ("", Target()),
        ("--target_triple x86_64-unknown-linux-gnu", Target("linux-x86_64")),
        ("--target_triple=aarch64-pc-linux", Target("linux-aarch64")),
        ("--target_triple=arm64-linux-gnu", Target("linux-aarch64")),
        ("-target_cpu x86-64-v3 --multithreading=False", Target(None, "x86-64-v3")),
        ("'--target_cpu=x86-64'  --target_triple x86_64-linux", Target("linux-x86_64", "x86-64")),
    ],
)
def test_what_is_obeyed(flags: str, target: Target) -> None:
    assert parse_flags(flags) == target


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("--target_triple powerpc64le-unknown-linux-gnu", "'powerpc64le'; choose from x86_64"),
        ("--target_triple x86_64-apple-darwin", "is not Linux with glibc"),
        ("--target_triple aarch64-unknown-linux-musl", "is not Linux with glibc"),
        ("--target_cpu x86-64-v33", "did you mean 'x86-64-v3'"),
        ("--multithreading true", "--multithreading true cannot be obeyed"),
        ("--output_prefix x", "remove --output_prefix; --output-directory and model.name"),
        ("--cpp_class a::B", "remove --cpp_class; compilation.namespace"),
        ("--xla_flag=1", "--xla_flag cannot be obeyed; give --target_triple"),
        ("--target_cpu", "--target_cpu has no value"),
        ("haswell", "'haswell' is not a flag"),
        ("--target_cpu 'x", "close the quotation"),
    ],
)
def test_what_is_refused(flags: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_flags(flags)
    assert str(caught.value).startswith("--additional-flags: ")
    assert sentence in str(caught.value)
