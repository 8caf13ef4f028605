"""Files of StableHLO and of `jax.export`."""
