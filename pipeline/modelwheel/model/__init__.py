"""A model, judged without running anything of it: what it holds, what it would do, what is wrong with its spec."""
