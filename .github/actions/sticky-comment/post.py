"""Posts a Markdown file as the one comment of modelwheel on the pull request of a `workflow_run` event.

The file comes from a run that the author of the pull request controls. So the pull request is taken from the event,
the text is cut and cannot mention anybody, and a line says whose words it has. Needs nothing but Python.
"""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

MARKER = "<!-- modelwheel -->"
"""The first line of the file and of the comment, by which the comment is found again."""

LIMIT = 65_000
"""Characters of a comment; GitHub takes 65,536."""

AUTHOR = "github-actions[bot]"
"""Whose comment is updated: anybody could write the marker."""

NOTE = "<sub>The check of this pull request wrote this: trust its links as far as you trust the author.</sub>"


def main() -> None:
    """Posts the file named by the first argument, if it exists."""
    file = Path(sys.argv[1])
    if not file.is_file() or file.is_symlink():
        say(f"there is no {file}: no comment")
        return
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    body = comment_of(file.read_bytes())
    number = find_pull_request(event["workflow_run"])
    if body is None or number is None:
        say("the file has no comment, or no open pull request has this commit: no comment")
        return
    comments = f"issues/{number}/comments"
    old = find_comment(comments)
    if old is None:
        ask("POST", comments, {"body": body})
    else:
        ask("PATCH", f"issues/comments/{old}", {"body": body})
    say(f"{'wrote' if old is None else 'updated'} the comment on pull request {number}")


def comment_of(content: bytes) -> str | None:
    """The comment that a file stands for; None if it does not begin with the marker."""
    text = content[: 4 * LIMIT].decode("utf-8", errors="replace")
    if text.partition("\n")[0].strip() != MARKER:
        return None
    # Without control characters and comments; a mention needs a letter right after the @.
    text = re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", "", text).replace("<!--", "")
    text = re.sub(r"@(?=\w)", "@\u200b", text)
    text = text.partition("\n")[2].strip()
    if len(text) > LIMIT:
        text = text[:LIMIT].rpartition("\n")[0] + "\n\nThe rest is in the summary of the check."
    # The note comes first: an HTML element that the text does not close would hide what follows it.
    return f"{MARKER}\n{NOTE}\n\n{text}\n"


def find_pull_request(run: dict[str, Any]) -> int | None:
    """The open pull request whose head is the commit of a run, also from a fork."""
    owner = run["head_repository"]["owner"]["login"]
    query = urlencode({"state": "open", "head": f"{owner}:{run['head_branch']}", "per_page": 100})
    for found in ask("GET", f"pulls?{query}"):
        if found["head"]["sha"] == run["head_sha"]:
            return int(found["number"])
    return None


def find_comment(comments: str) -> int | None:
    """The comment that an earlier run made; None if there is none."""
    for page in range(1, 11):
        found = ask("GET", f"{comments}?per_page=100&page={page}")
        for comment in found:
            if comment["user"]["login"] == AUTHOR and comment["body"].startswith(MARKER):
                return int(comment["id"])
        if len(found) < 100:
            return None
    return None


def say(text: str) -> None:
    """A line for the log."""
    sys.stdout.write(f"{text}\n")


def ask(method: str, path: str, content: object = None) -> Any:
    """One request to GitHub's API about this repository."""
    api, repository = os.environ["GITHUB_API_URL"], os.environ["GITHUB_REPOSITORY"]
    request = urllib.request.Request(
        f"{api}/repos/{repository}/{path}",
        method=method,
        data=None if content is None else json.dumps(content).encode(),
        headers={
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {os.environ['GITHUB_TOKEN']}",
            "Content-Type": "application/json",
            "X-GitHub-Api-Version": "2022-11-28",
        },
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


if __name__ == "__main__":
    main()
