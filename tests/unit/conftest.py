"""What unit tests share: commands start quickly."""

from __future__ import annotations

from tests.support import commands

commands.preload = True
