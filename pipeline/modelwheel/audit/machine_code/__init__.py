"""Which code runs at which CPU level."""
