"""Fuzzes the parsers of what comes from outside, for as long as you like.

    python -m tests.fuzz --seconds 3600               all targets in turn, an hour together
    python -m tests.fuzz wheel spec-yaml --seconds 600
    python -m tests.fuzz wheel --coverage             guided by coverage (`pip install atheris`)

An input that breaks a parser is stored in tests/fuzz/corpus, as TARGET-DIGEST: commit it with the fix.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
import time
import traceback
from pathlib import Path
from random import Random

SLOW_SECONDS = 10.0
_MEMORY_BYTES = 4 << 30
_BATCH = 20
"""Inputs for each process of a target that has its own: to fork one that holds TensorFlow takes a while."""


def main() -> int:
    """Runs the targets that the command line names; returns 1 if one broke."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("target", nargs="*")
    parser.add_argument("--seconds", type=float, default=60.0, help="for all targets together")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--coverage", action="store_true", help="one target, guided by Atheris")
    options = parser.parse_args()
    _limit_memory()
    if options.coverage:
        return _run_guided(options.target, options.seconds)
    from tests.fuzz.targets import TARGETS

    names = [name for name in options.target or TARGETS if not _is_left_out(name)]
    if not names:
        return 1
    return max(_run(name, options.seconds / len(names), options.seed) for name in names)


def _is_left_out(name: str) -> bool:
    from tests.fuzz.targets import TARGETS

    target = TARGETS[name]
    if target.is_missing:
        print(f"{name}: left out; it needs {', '.join(target.needs)}", flush=True)  # noqa: T201
    return target.is_missing


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))


def _run(name: str, seconds: float, seed: int) -> int:
    from tests.fuzz.targets import TARGETS

    target, random = TARGETS[name], Random(seed)
    seeds = target.prepare()
    found: set[str] = set()
    slowest, count, end = 0.0, 0, time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        while time.monotonic() < end:
            batch = _BATCH if target.forks else 1
            contents = [target.mutate(random, random.choice(seeds), seeds) for _ in range(batch)]
            started = time.monotonic()
            for content, error in target.check_all(contents, scratch):
                _report(name, content, error, found)
            took = (time.monotonic() - started) / batch
            slowest = max(slowest, took)
            if took > SLOW_SECONDS:
                _report(name, contents[0], TimeoutError(f"{took:.1f} s"), found)
            count += batch
    said = f"{name}: {count} inputs, slowest {slowest:.2f} s, {len(found)} kinds of errors"
    print(said, flush=True)  # noqa: T201
    return bool(found)


def _report(name: str, content: bytes, error: Exception, found: set[str]) -> None:
    """Stores the first input of each kind of error."""
    from tests.fuzz.target import CORPUS, ChildError

    frames = traceback.extract_tb(error.__traceback__)
    own = isinstance(error, ChildError) or not frames
    place = "" if own else f"{frames[-1].filename}:{frames[-1].lineno}"
    kind = str(error)[:120] if own else f"{type(error).__name__} {place}"
    if kind in found:
        return
    found.add(kind)
    CORPUS.mkdir(exist_ok=True)
    path = CORPUS / f"{name}-{hashlib.sha256(content).hexdigest()[:12]}"
    path.write_bytes(content)
    print(f"{path}:", file=sys.stderr)  # noqa: T201
    traceback.print_exception(error)


def _run_guided(names: list[str], seconds: float) -> int:
    import atheris

    with atheris.instrument_imports(include=["modelwheel"]):
        from tests.fuzz.target import clear
        from tests.fuzz.targets import TARGETS

    (name,) = names
    target = TARGETS[name]
    with tempfile.TemporaryDirectory() as directory:
        corpus, scratch = Path(directory, "corpus"), Path(directory, "scratch")
        corpus.mkdir()
        scratch.mkdir()
        for number, seed in enumerate(target.prepare()):
            (corpus / str(number)).write_bytes(seed)

        def run(content: bytes) -> None:
            clear(scratch)
            target.check(content, scratch)

        arguments = [
            f"-max_total_time={int(seconds)}",
            f"-timeout={int(SLOW_SECONDS)}",
            str(corpus),
        ]
        atheris.Setup([sys.argv[0], *arguments], run)
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
