"""Where a repository is that git fetches, with the variables that Hugging Face's own tools obey."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from ...errors import SourceError
from ...spec.sources import HuggingFaceSource, RepositorySource
from ...spec.sources.repositories import HUGGING_FACE
from ...util.urls import url_problem
from ..git.repository import Remote

# git runs it in a shell when the host asks for credentials, and only for that host: the token is neither in an argument nor
# in a file. Any user name is right.
_HELPER = '!f() { echo username=hf_user; echo "password=$HF_TOKEN"; }; f'


def remote_of(source: RepositorySource) -> Remote:
    """The repository of a source.

    Raises:
        SourceError: HF_ENDPOINT is not an address.
    """
    if not isinstance(source, HuggingFaceSource):
        return Remote(source.address)
    endpoint = (os.environ.get("HF_ENDPOINT") or HUGGING_FACE).rstrip("/")
    problem = url_problem(endpoint, ("https", "http"))
    if problem:
        raise SourceError(f"HF_ENDPOINT: {problem}")
    parts = urlsplit(endpoint)
    setting = f"credential.{parts.scheme}://{parts.netloc}.helper"
    # An empty one first: other helpers may have credentials for the host, too.
    options = ((setting, ""), (setting, _HELPER)) if os.environ.get("HF_TOKEN") else ()
    fix = "correct OWNER/NAME, or set HF_TOKEN to a token that may read it"
    return Remote(f"{endpoint}/{source.huggingface}", options, fix)
