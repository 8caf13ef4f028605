from __future__ import annotations

import pytest

from modelwheel.util.urls import redact, url_problem


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("https://user:canary@host/x", "https://***@host/x"),
        ("https://canary@host/x", "https://***@host/x"),
        ("https://user:c@nary@host/x y@z", "https://***@host/x y@z"),
        ("see 'https://host/x?token=canary' there", "see 'https://host/x?***' there"),
        ("git@host:path", "git@host:path"),
    ],
)
def test_redact(text: str, clean: str) -> None:
    assert redact(text) == clean


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("https://host/x", None),
        ("file:///x", None),
        ("s3://bucket/x", "unsupported URL scheme 's3://'; use https:// or file://"),
        ("bucket/x", "'bucket/x' is not a URL; use https:// or file://"),
        ("https:///x", "'https:///x' names no host"),
        ("https://[x/", "'https://[x/' is not a valid URL; use https:// or file://"),
        ("https://u:p@host:99999/", "'https://***@host:99999/' is not a valid URL"),
    ],
)
def test_url_problem(url: str, problem: str | None) -> None:
    found = url_problem(url, ("https", "file"))
    assert found == problem or (problem is not None and str(found).startswith(problem))
