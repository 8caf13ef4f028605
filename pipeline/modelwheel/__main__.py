"""`python -m modelwheel`, and the commands that are installed.

Nothing is imported before files in the directory where they are started are out of reach.
"""

from .util.python import forget_start_directory


def main() -> None:
    """Runs `modelwheel`."""
    forget_start_directory()
    from .cli import main as run

    run()


def compile_for_cms() -> None:
    """Runs `cms_tfaot_compile`."""
    forget_start_directory()
    from .cli.cms import compile_main

    compile_main()


def check_for_cms() -> None:
    """Runs `cmsml_check_aot_compatibility`."""
    forget_start_directory()
    from .cli.cms import check_main

    check_main()


if __name__ == "__main__":
    main()
