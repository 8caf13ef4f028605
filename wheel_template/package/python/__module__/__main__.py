"""Describes, tests and times the model, and prints the options to build against it."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path
from typing import Any

from . import _paths
from ._core import library
from ._model import Model, describe

_PACKAGE = Path(__file__).parent.name


def main() -> int:
    """Runs the command line and returns the exit status."""
    parser = _parser()
    options = parser.parse_args()
    try:
        passed, text = _answer(options)
    except (OSError, TypeError, ValueError) as error:
        parser.exit(1, f"error: {error}\n")
    sys.stdout.write(f"{text}\n")
    return 0 if passed else 1


def _answer(options: argparse.Namespace) -> tuple[bool, str]:
    """Whether the command succeeded, and its output."""
    if options.flags:
        return True, " ".join(map(_build_flag, options.flags))
    if options.as_json:
        from . import _about

        return True, json.dumps(_about.installed(), indent=2)
    if options.command == "run":
        from . import _run

        model = Model(options.level, threads=options.threads, check_values=options.check_values)
        return True, _run.run(options.inputs, options.outputs, model)
    if options.command == "selftest":
        from . import _selftest

        passed, text = _selftest.run(options.level, options.reference, options.json)
        return passed, text.rpartition("\n")[2] if options.quiet else text
    if options.command == "bench":
        from . import _bench

        return True, _bench.run(options.batch, options.seconds, options.level, options.json)
    return True, _description()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m {_PACKAGE}", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"{library.name} {library.version}")
    parser.add_argument(
        "--json", dest="as_json", action="store_true", help="describe the model as JSON"
    )
    building = parser.add_argument_group("building against the model")
    for flag, text in _BUILD_FLAGS.items():
        building.add_argument(
            f"--{flag}", dest="flags", action="append_const", const=flag, help=text
        )

    commands = parser.add_subparsers(dest="command", metavar="bench | run | selftest")
    _add_bench(commands)
    _add_run(commands)
    _add_selftest(commands)
    return parser


def _add_bench(commands: Any) -> None:
    bench = commands.add_parser("bench", help="time the model", allow_abbrev=False)
    bench.add_argument(
        "--batch",
        type=int,
        nargs="+",
        default=[],
        help="numbers of rows (default: the compiled batch sizes)",
    )
    bench.add_argument(
        "--seconds", type=float, default=1.0, help="time to spend on each (default: 1)"
    )
    bench.add_argument(
        "--level", choices=Model.levels, help="CPU level (default: the highest of this CPU)"
    )
    bench.add_argument("--json", action="store_true", help="print JSON")


def _add_run(commands: Any) -> None:
    run = commands.add_parser(
        "run", help="evaluate the model with arrays of a file", allow_abbrev=False
    )
    run.add_argument(
        "inputs",
        type=Path,
        metavar="IN",
        help="an .npz file with an array for each input, or the .npy file of a model with one",
    )
    run.add_argument(
        "outputs", type=Path, metavar="OUT", help="the .npz or .npy file to write the outputs to"
    )
    run.add_argument(
        "--level", choices=Model.levels, help="CPU level (default: the highest of this CPU)"
    )
    run.add_argument("--threads", type=int, default=1, help="most threads (default: 1)")
    run.add_argument("--check-values", action="store_true", help="refuse values that are not valid")


def _add_selftest(commands: Any) -> None:
    selftest = commands.add_parser(
        "selftest", help="compare with TensorFlow's outputs", allow_abbrev=False
    )
    selftest.add_argument(
        "--level", choices=Model.levels, action="append", help="CPU level (default: all)"
    )
    selftest.add_argument(
        "--reference",
        type=Path,
        help="outputs to compare with: an .npz file with arrays in/NAME and out/NAME (default: the "
        "sample in the package)",
    )
    shown = selftest.add_mutually_exclusive_group()
    shown.add_argument("--json", action="store_true", help="print JSON")
    shown.add_argument("--quiet", action="store_true", help="print the last line alone")


_BUILD_FLAGS = {
    "cflags": "options for the C or C++ compiler",
    "libs": "options for the linker",
    "includedir": "directory of the headers",
    "libdir": "directory of the library",
    "cmakedir": "directory for CMake's find_package",
    "pkgconfigdir": "directory for pkg-config",
    "scram": "the tool file for CMSSW's scram, with this directory filled in",
}


def _build_flag(flag: str) -> str:
    if flag == "scram":
        return _tool_file()
    library_dir = _paths.get_library_dir()
    # Programs for Windows have no run-time search path: DLLs are found beside the program and on PATH.
    run_path = [] if sys.platform == "win32" else [f"-Wl,-rpath,{library_dir}"]
    return {
        "cflags": shlex.quote(f"-I{_paths.get_include()}"),
        "libs": shlex.join([f"-L{library_dir}", f"-l{_PACKAGE}", *run_path]),
        "includedir": _paths.get_include(),
        "libdir": library_dir,
        "cmakedir": _paths.get_cmake_dir(),
        "pkgconfigdir": _paths.get_pkgconfig_dir(),
    }[flag]


def _tool_file() -> str:
    """The tool file for scram, in ASCII: it is valid XML in whatever encoding the caller stores it."""
    from xml.sax.saxutils import escape

    base = Path(_paths.get_library_dir()).parent
    found = list(base.glob("share/scram/*.xml"))
    if not found:
        message = f"{_PACKAGE} has no tool file: package.interfaces of its spec leaves out cmssw"
        raise FileNotFoundError(message)
    place = base.as_posix()
    if "$" in place:
        message = (
            f"scram would read a variable in {place}: install the model in a directory without $"
        )
        raise ValueError(message)
    text = found[0].read_text(encoding="utf-8")
    text = text.replace("@TOOL_BASE@", escape(place, {'"': "&quot;"})).rstrip("\n")
    return text.encode("ascii", "xmlcharrefreplace").decode()


def _description() -> str:
    about = json.loads(library.about)
    model, compiler = about["model"], about["compiler"]
    source = about["provenance"]["source"]
    lines = {
        "licence": f"{model['license']} (weights: {model['weights_license'] or 'not stated'})",
        "inputs": "\n".join(map(describe, Model.inputs)),
        "outputs": "\n".join(map(describe, Model.outputs)),
        **_state(),
        "batch sizes": f"{', '.join(map(str, Model.batch_sizes))} ({_rows()})",
        "CPU levels": f"{', '.join(Model.levels)} (in use: {_level()})",
        "library": f"{_paths.get_library()}\n{_bytes(about['sizes'])}",
        "source": "\n".join(f"{key} {value}" for key, value in source.items()),
        "compiled by": f"TensorFlow {compiler['tensorflow']}, modelwheel {compiler['modelwheel']}",
    }
    body = "\n".join(
        f"  {key:<12} {value.replace(chr(10), chr(10) + ' ' * 15)}" for key, value in lines.items()
    )
    return f"{library.name} {library.version}: {model['summary']}\n{body}"


def _state() -> dict[str, str]:
    return {"state": "\n".join(map(describe, Model.states))} if Model.states else {}


def _bytes(sizes: dict[str, int]) -> str:
    total = Path(_paths.get_library()).stat().st_size
    weights, code = sizes["weights"], sizes["machine_code"]
    rest = total - weights - code
    return f"{total:,} bytes: weights {weights:,}, machine code {code:,}, runtime {rest:,}"


def _rows() -> str:
    if not library.batched:
        return "the shapes are fixed"
    reason = library.no_emulation_reason
    return "any number of rows" if reason is None else f"no other number of rows: {reason}"


def _level() -> str:
    try:
        return Model().level
    except ValueError as error:
        return f"none: {error}"


if __name__ == "__main__":
    sys.exit(main())
