"""Locks in processes that run a model: no network, no files but their own, limits on what they use.

`choose` picks the sandbox of this machine and starts programs in it, `confine` locks in a forked
child, `policy` has the types that both take. Nothing is imported here, because `launch` runs at the
start of every sandboxed program and must start quickly.
"""
