"""Overwrites weights of finished wheels, and counts how many of the changes `verify` and the self-test find."""
