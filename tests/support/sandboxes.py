"""The sandboxes that tests run programs in."""

from __future__ import annotations

from modelwheel.sandbox.choose import choose_sandbox
from modelwheel.sandbox.policy import Limits, Policy

BEST = choose_sandbox(Policy.PREFERRED, Limits(wall_seconds=300))
"""What commands use by default."""

NONE = choose_sandbox(Policy.OFF)
