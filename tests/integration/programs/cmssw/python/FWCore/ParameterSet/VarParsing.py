"""A stand-in for CMSSW's module of this name: options that keep their defaults."""


class VarParsing:
    """Options of a configuration."""

    def __init__(self, kind):
        self.kind = kind

    def setDefault(self, name, value):
        setattr(self, name, value)

    def parseArguments(self):
        """There are none."""
