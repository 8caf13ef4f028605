"""The interface for Python programs and notebooks: `modelwheel.check`, `modelwheel.build` and `modelwheel.load`.

Models are checked and built by the same steps as on the command line. Nothing is imported here, so that
`import modelwheel` stays quick.
"""
