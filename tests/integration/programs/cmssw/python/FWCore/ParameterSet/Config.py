"""A stand-in for CMSSW's module of this name: what a configuration of one analyzer needs."""

import importlib
from types import SimpleNamespace


class PSet(SimpleNamespace):
    """Named parameters."""


def vstring(*values):
    """A list of strings, from arguments or one list."""
    flat = [one for value in values for one in ([value] if isinstance(value, str) else value)]
    if not all(isinstance(one, str) for one in flat):
        raise TypeError(f"not all of {flat} are strings")
    return flat


untracked = SimpleNamespace(PSet=PSet, bool=bool, int32=int, vstring=vstring)


class _Required:
    """A parameter that the configuration must give."""

    vstring = None


required = _Required


class EDAnalyzer(SimpleNamespace):
    """A module: the name of its type, and its parameters."""

    def __init__(self, type_, **parameters):
        super().__init__(type_=type_, **parameters)


class Source(EDAnalyzer):
    """Where events come from."""


class Path(list):
    """Modules in the order in which they run."""

    def __init__(self, *modules):
        super().__init__(modules)


class Process(SimpleNamespace):
    """The whole configuration."""

    def __init__(self, name):
        super().__init__(name_=name)

    def load(self, module):
        """Takes over the objects of another module."""
        loaded = importlib.import_module(module)
        vars(self).update(
            (name, value)
            for name, value in vars(loaded).items()
            if isinstance(value, SimpleNamespace)
        )
