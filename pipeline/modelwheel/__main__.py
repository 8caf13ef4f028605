"""`python -m modelwheel`."""

from .cli import main

main()
