"""`python -m modelwheel`, and the command `modelwheel`."""

from .util.python import forget_start_directory


def main() -> None:
    """Runs the command line; nothing is imported before files beside it are out of reach."""
    forget_start_directory()
    from .cli import main as run

    run()


if __name__ == "__main__":
    main()
