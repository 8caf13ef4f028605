"""XLA's ahead-of-time compiler: calling it, and reading what it writes."""
