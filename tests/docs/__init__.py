"""The site of the documentation: reference pages out of the code, and links that lead out of `docs/`."""
