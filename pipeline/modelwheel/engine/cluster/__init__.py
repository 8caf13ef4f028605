"""Steps of a build on the workers of a Dask cluster. Only modules of this package import Dask, and only when it is used.

A task carries keys of records and an address of a store, never bytes of models or results: the store has these. Any task
may be lost at any moment, and run again: what was finished is found under its key.
"""
