"""Turn a trained model into a wheel of machine code.

    import modelwheel

    wheel = modelwheel.build(model, name="my-model", batch_sizes=(1, 16))
    compiled = wheel.load()

The functions are imported on first use: `import modelwheel` itself takes no time.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_PLACES = {
    "check": "building",
    "build": "building",
    "load": "loading",
    "Model": "loading",
    "Verdict": "results",
    "Wheel": "results",
}
"""The modules of `modelwheel.api` that have the public names."""

__all__ = ["Model", "Verdict", "Wheel", "__version__", "build", "check", "load"]

if TYPE_CHECKING:
    from .api.building import build, check
    from .api.loading import Model, load
    from .api.results import Verdict, Wheel
else:

    def __getattr__(name: str) -> Any:
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f".api.{_PLACES[name]}", __name__), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
