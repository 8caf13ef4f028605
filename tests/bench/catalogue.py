"""How long a site of many models takes to write, and how large its pages are: `python -m tests.bench.catalogue [MODELS]`."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from modelwheel.index.site import write_site
from modelwheel.util.words import size_text, time_text
from tests.support.many_wheels import make_collection


def main(models: int) -> None:
    """Prints seconds, of the clock and of the processor, and bytes."""
    with tempfile.TemporaryDirectory() as directory:
        wheels = Path(directory, "wheels")
        wheels.mkdir()
        make_collection(wheels, models)
        begin, begin_cpu = time.perf_counter(), time.process_time()
        site = write_site([wheels], Path(directory, "site")).directory
        taken, cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
        pages = sorted(page.stat().st_size for page in (site / "models").glob("*.html"))
        print(f"{models} models: {time_text(taken)}, {time_text(cpu)} of the processor")  # noqa: T201
        for name in ("index.html", "models.json"):
            print(f"{name}: {size_text((site / name).stat().st_size)}")  # noqa: T201
        print(f"the largest page of a model: {size_text(pages[-1])}")  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
