"""The reference set against other runtimes: `python -m tests.bench [--help]`, or `make bench BENCH="OPTIONS"`.

Makes the models and the files of the other runtimes, builds all wheels in one build, and compares them one by one as
`modelwheel bench` does. Everything stays in the work directory, so that a second run only measures.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from modelwheel.bench.build import build_contenders
from modelwheel.bench.compare import Contender, Settings, compare, describe_machine
from modelwheel.bench.results import Benchmark, Compared
from modelwheel.cli.display.bench import print_compared, print_machine, print_mean
from modelwheel.cli.display.console import ERR, OUT, plain
from modelwheel.cli.display.progress import BuildDisplay
from modelwheel.engine.build import BuildOptions
from modelwheel.errors import ModelwheelError
from modelwheel.levels import cpu_level
from modelwheel.request import make_request
from modelwheel.sandbox.choose import choose_sandbox
from modelwheel.sandbox.policy import Policy
from modelwheel.spec import load_specs
from modelwheel.store.store import Store
from tests.support.laboratory import SHARED_MODELS

ROOT = Path(__file__).parents[2]

_SPEC = """\
model: {{name: {name}, version: "1.0.0", description: A model of the reference set.}}
source: {source}
targets: [{level}]
{sizes}
verify: {{tolerance: {{atol: 1.0e-6, rtol: 1.0e-3}}}}
package: {{bindings: shared}}
{more}
"""


@dataclass(frozen=True)
class Reference:
    """One model of the set."""

    title: str
    """Its name in tables."""
    rows: tuple[int, ...] = (1, 16, 64)
    """The compiled batch sizes; empty if the model has one shape."""
    shared: str | None = None
    """The model below ../shared/models; by default it is one of `networks`."""
    more: str = ""
    """More of its spec."""

    @property
    def timed(self) -> tuple[int, ...]:
        """The numbers of rows of the tables: the batch sizes, and some between them."""
        between = {_IMAGES: (3,), (): ()}.get(self.rows, (5, 24))
        return tuple(sorted((*self.rows, *between)))

    @property
    def is_here(self) -> bool:
        """Whether its model can be made or is there."""
        return self.shared is None or (SHARED_MODELS / self.shared).exists()

    def source(self, directory: Path) -> str:
        """The source in a spec."""
        if self.shared is not None and self.shared.endswith(".onnx"):
            model = SHARED_MODELS / self.shared
            return f"{{directory: {model.parent}, path: {model.name}}}"
        return f"{{directory: {directory / 'saved_model'}}}"


_IMAGES = (1, 8)

SET = {
    "mlp": Reference("MLP 4-128x5-2"),
    "conv2d_small": Reference("conv2d on 50x10x3"),
    "conv2d_pair": Reference("conv2d on 11x11x64 and 21x21x64"),
    "conv1d": Reference("conv1d on 60x6"),
    "audio": Reference("audio filters, 1024 samples"),
    "bilstm": Reference("BiLSTM, 50 steps"),
    "lstm_masked": Reference("masked LSTM, 15 steps"),
    "gru": Reference("GRU 2 x 64, 30 steps"),
    "transformer": Reference("transformer, 64 tokens"),
    "embedding": Reference("embedding and pooling"),
    "xception": Reference("separable, 64x64"),
    "unet": Reference("U-Net"),
    "mobilenet_v2": Reference("MobileNetV2", _IMAGES),
    "efficientnet_b0": Reference("EfficientNetB0", _IMAGES),
    "resnet50": Reference("ResNet50", _IMAGES),
    "half_plus_two": Reference("half_plus_two", (), "half_plus_two/saved_model"),
    "mhcnuggets": Reference("mhcnuggets", shared="mhcnuggets_a0201/saved_model"),
    "fer_emotion": Reference("fer_emotion", shared="fer_emotion/saved_model"),
    "basic_pitch": Reference("basic_pitch", _IMAGES, "basic_pitch/saved_model"),
    "ppocr_cls": Reference(
        "ppocr_cls", _IMAGES, "ppocr_cls/model.onnx", "inputs: {x: {shape: [null, 3, 48, 192]}}"
    ),
}
"""By name, in the order of the tables."""

QUICK = {
    "mlp": (1, 64),
    "conv1d": (1, 16),
    "gru": (1, 16),
}
"""Six cells that take seconds, for a check of ratios."""

PLOTTED = ("mlp", "xception", "gru")
"""The models whose time is plotted against rows on the page of benchmarks."""

STAIRS = (
    1,
    2,
    3,
    4,
    6,
    8,
    10,
    12,
    14,
    16,
    17,
    18,
    20,
    24,
    28,
    32,
    33,
    40,
    48,
    56,
    64,
    65,
    80,
    96,
    112,
    128,
)
"""The numbers of rows in these plots."""


def make_models(names: Sequence[str], directory: Path) -> None:
    """Writes the models that are not there yet, with the files of other runtimes."""
    missing = []
    for name in names:
        shared = SET[name].shared
        if (directory / name / "failures.json").exists() or (shared or "").endswith(".onnx"):
            continue
        missing.append(name if shared is None else f"{name}={SHARED_MODELS / shared}")
    if missing:
        ERR.print(plain(f"making {', '.join(missing)}"))
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
        command = [sys.executable, "-m", "tests.bench.make_models", str(directory), *missing]
        with (directory / "make_models.log").open("wb") as log:
            subprocess.run(command, env=environment, cwd=ROOT, stdout=log, stderr=log, check=True)


def write_spec(name: str, level: str, directory: Path) -> Path:
    """Writes the spec of a model."""
    reference = SET[name]
    sizes = (
        f"compilation: {{batch_sizes: [{', '.join(map(str, reference.rows))}]}}"
        if reference.rows
        else ""
    )
    source = reference.source(directory / name)
    path = directory / f"{name}.{level}.yaml"
    text = _SPEC.format(
        name=name.replace("_", "-"), source=source, level=level, sizes=sizes, more=reference.more
    )
    path.write_text(text, encoding="utf-8")
    return path


def files_of(name: str, directory: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """The files of other runtimes by format, and why there is none."""
    own = directory / name
    if not own.is_dir():
        return {}, {
            "saved_model": "the model is an ONNX file",
            "tflite": "the model is an ONNX file",
        }
    said = json.loads((own / "failures.json").read_text(encoding="utf-8"))
    found = {"saved_model": own / "saved_model"}
    failures = {}
    for kind in ("onnx", "tflite"):
        file = f"model.{kind}"
        if file in said:
            failures[kind] = f"the converter failed: {said[file]}"
        else:
            found[kind] = own / file
    return found, failures


def build(names: Sequence[str], level: str, work: Path, store: Store) -> dict[str, Contender]:
    """Builds the wheels of all models in one build; says which could not be built."""
    specs = load_specs([write_spec(name, level, work) for name in names])
    requests = [make_request(spec) for spec in specs]
    options = BuildOptions(work / "dist" / level, choose_sandbox(Policy.PREFERRED))
    with BuildDisplay() as display:
        built = build_contenders(requests, store, options, display)
    contenders = {}
    for name, (result, contender) in zip(names, built, strict=True):
        for _, error in result.errors:
            ERR.print(plain(f"{name} was not built: {error}"))
        if contender is not None:
            files, failures = files_of(name, work)
            files = {**contender.files, **files}
            contenders[name] = replace(contender, files=files, failures=failures)
    return contenders


def run(
    rows_of: dict[str, Sequence[int]], level: str, settings: Settings, work: Path, copies: Path
) -> Iterator[Compared]:
    """Builds models at one level, then compares them one by one."""
    store, sandbox = Store(work / "cache"), choose_sandbox(Policy.PREFERRED)
    contenders = build(list(rows_of), level, work, store)
    for name, contender in contenders.items():
        with store.scratch() as scratch:
            own = replace(settings, rows=rows_of[name], levels=(level,))
            try:
                (found,) = compare(contender, own, sandbox, scratch, copies)
            except ModelwheelError as error:
                ERR.print(plain(f"{name} was not measured: {error}"))
                continue
        yield found


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="make bench", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("models", nargs="*", help=f"of {', '.join(SET)}; by default all")
    parser.add_argument("--quick", action="store_true", help="six cells that take seconds")
    parser.add_argument("--rows", type=int, nargs="+", help="only these numbers of rows")
    parser.add_argument("--level", action="append", help="CPU level; by default the highest")
    parser.add_argument("--threads", type=int, default=1, help="of each runtime")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each side and cell")
    parser.add_argument("--work", type=Path, default=ROOT / ".bench", help="where everything stays")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--plots", type=Path, help="write SVG plots to this directory")
    parser.add_argument(
        "--page",
        action="store_true",
        help="measure all models at x86-64-v3 and the highest level, there also with two threads, then write "
        "docs/benchmarks.md, its plots and README's table",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="with --page, go on from what was measured on this machine before it was interrupted",
    )
    options = parser.parse_args(arguments)
    if options.resume and not options.page:
        parser.error("--resume needs --page")
    if options.page and (options.models or options.quick or options.rows):
        parser.error("--page needs all models and rows")
    return options


def levels_of(options: argparse.Namespace) -> list[str]:
    """The CPU levels to measure, the highest first unless they were given."""
    here = cpu_level().name
    if options.level:
        return list(options.level)
    second = ["x86-64-v3"] if options.page and here == "x86-64-v4" else []
    return [here, *second]


def measure(
    names: Sequence[str], options: argparse.Namespace, work: Path, known: Sequence[Compared] = ()
) -> Iterator[Compared]:
    """Measures all models at all levels, then those that are plotted with more numbers of rows, but for what is known."""
    settings = Settings(threads=options.threads, seconds=options.seconds)
    rows_of: dict[str, Sequence[int]] = {
        name: options.rows or (QUICK[name] if options.quick else SET[name].timed) for name in names
    }
    levels = levels_of(options)
    with TemporaryDirectory(prefix="copies-", dir=work) as copies:

        def left(
            rows_of: Mapping[str, Sequence[int]], level: str, own: Settings
        ) -> Iterator[Compared]:
            wanted = {
                name: rows
                for name, rows in rows_of.items()
                if not is_known(known, name, level, own.threads, rows)
            }
            if wanted:
                yield from run(wanted, level, own, work, Path(copies))

        for level in levels:
            yield from left(rows_of, level, settings)
        if options.page:
            yield from left(rows_of, levels[0], replace(settings, threads=2))
            stairs: dict[str, Sequence[int]] = dict.fromkeys(PLOTTED, STAIRS)
            yield from left(stairs, levels[0], replace(settings, as_programs=False))


def is_known(
    known: Iterable[Compared], name: str, level: str, threads: int, rows: Sequence[int]
) -> bool:
    """Whether a model was measured in this way with all these numbers of rows."""
    return any(
        (one.model, one.level, one.threads) == (name.replace("_", "-"), level, threads)
        and {*rows} <= {case.rows for case in one.cases}
        for one in known
    )


def main(arguments: Sequence[str]) -> Benchmark:
    """Runs the benchmark; gives what it found."""
    options = parse(arguments)
    unknown = [name for name in options.models if name not in SET]
    if unknown:
        raise SystemExit(f"no model {', '.join(unknown)}; there are {', '.join(SET)}")
    names = options.models or [name for name, one in SET.items() if one.is_here]
    if options.quick:
        names = [name for name in names if name in QUICK]
    work = options.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    if options.page and options.json is None:
        options.json = work / "page.json"
    make_models(names, work)
    benchmark = Benchmark(machine=describe_machine(), models=())
    if options.resume and options.json.exists():
        before = Benchmark.load(options.json)
        if before.machine.cpu == benchmark.machine.cpu:
            benchmark = before
    level = None
    for compared in measure(names, options, work, benchmark.models):
        if compared.level != level:
            level = compared.level
            print_machine(OUT, benchmark.machine, [compared])
        print_compared(OUT, compared)
        benchmark = benchmark.model_copy(update={"models": (*benchmark.models, compared)})
        if options.json is not None:
            benchmark.save(options.json)  # now: a whole run takes long, and may be interrupted
    if options.plots is not None:
        from modelwheel.bench.plots import write_plots

        write_plots(benchmark, options.plots)
    if options.page:
        from tests.bench.page import write

        for path in write([benchmark]):
            OUT.print(plain(f"wrote {path.relative_to(ROOT)}"))
    else:
        print_mean(OUT, benchmark)
    return benchmark


if __name__ == "__main__":
    main(sys.argv[1:])
