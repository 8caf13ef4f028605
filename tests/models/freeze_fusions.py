"""Freezes a model with fusions that another distribution registers: `freeze_fusions.py MODEL SITE OUT`.

SITE is a directory of installed distributions. For each object of its module `acme_fusions` that is named in the
entry points or is called `WRONG`, a frozen graph is written below OUT, in a directory of that name. Prints what
was replaced, or the error, by name. Needs TensorFlow.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from modelwheel.compiler.freeze import freeze
from modelwheel.errors import ModelwheelError
from modelwheel.model.frozen_signature import FrozenSignature
from modelwheel.model.fusions.registry import Provider, registered
from modelwheel.workers.jobs import FreezeRequest

_KEY = "serving_default"


def _freeze(model: Path, provider: Provider, out: Path) -> list[str]:
    out.mkdir(parents=True)
    request = FreezeRequest(signature=_KEY, batch=4, fusions=(provider,))
    try:
        freeze.run(request.job(model, out))
    except ModelwheelError as error:
        return [type(error).__name__, str(error)]
    signature = FrozenSignature.load(out / "signature.json")
    return [f"{one.name} {one.calls} {one.provider}" for one in signature.fusions]


def main(model: Path, site: Path, out: Path) -> None:
    """Prints the results for every object of `acme_fusions`, all under the registered name."""
    sys.path.insert(0, str(site))
    found = registered()["example.triple"]
    import acme_fusions  # type: ignore[import-not-found]

    results = {
        name: _freeze(
            model, found.model_copy(update={"target": f"acme_fusions:{name}"}), out / name
        )
        for name in acme_fusions.ALL
    }
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
