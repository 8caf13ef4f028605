"""What a core does at most: a loop of multiply-adds at one CPU level."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

from ..errors import EnvironmentProblemError
from ..levels import Level
from ..util.process import ProcessError, run

_SOURCE = """\
// Chains of multiply-adds that do not wait for each other: as many as hide the latency of two units.
#include <chrono>
#include <cstdio>
#include <cstdlib>

typedef float Vector __attribute__((vector_size(VECTOR_BYTES)));

int main(int count, char **values) {
    constexpr int chains = 12;
    Vector sums[chains], factor, term;
    for (unsigned i = 0; i < VECTOR_BYTES / 4; ++i) {
        factor[i] = 1.0f - 1e-7f * static_cast<float>(count);
        term[i] = 1e-7f * static_cast<float>(count);
    }
    for (Vector &sum : sums) sum = term;
    const long long rounds = std::atoll(values[1]);
    double best = 0;
    for (int turn = 0; turn < 50; ++turn) {
        const auto start = std::chrono::steady_clock::now();
        for (long long round = 0; round < rounds; ++round)
            for (Vector &sum : sums) sum = sum * factor + term;
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        const double flops = 2.0 * chains * (VECTOR_BYTES / 4) * static_cast<double>(rounds) / seconds;
        if (flops > best) best = flops;
    }
    float total = 0;
    for (const Vector &sum : sums) total += sum[0];
    std::printf("%.6e %g\\n", best, static_cast<double>(total));
}
"""
_ROUNDS = 100_000


def build_peak(level: Level, directory: Path) -> Path:
    """Compiles the loop for a CPU level; gives the program.

    Raises:
        EnvironmentProblemError: There is no C++ compiler that can.
    """
    source, program = directory / "peak.cpp", directory / f"peak-{level.name}"
    source.write_text(_SOURCE, encoding="utf-8")
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    options = ["-std=c++17", "-O3", "-ffp-contract=fast", f"-march={level.march}", *level.tuning]
    defined = f"-DVECTOR_BYTES={level.vector_bytes}"
    try:
        run([*compiler, *options, defined, source, "-o", program])
    except ProcessError as error:
        raise EnvironmentProblemError(f"the peak cannot be measured: {error}") from error
    return program


def measure_peak(program: Path) -> float:
    """Billions of floating-point operations in a second on one core: the best of fifty runs of a millisecond."""
    done = subprocess.run([program, str(_ROUNDS)], check=True, capture_output=True, text=True)
    return float(done.stdout.split()[0]) / 1e9
