"""The peak of a core: multiply-adds in registers, and reading memory, at one CPU level."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ..errors import EnvironmentProblemError
from ..levels import Level
from ..util.processes.process import ProcessError
from .native import compile_cpp

_SOURCE = """\
// Chains of multiply-adds that do not wait for each other: as many as hide the latency of two units.
#include <chrono>
#include <cstdio>
#include <cstdlib>

typedef float Vector __attribute__((vector_size(VECTOR_BYTES)));

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Reads more than the caches hold, ten times; the best in bytes a second.
int read_memory() {
    constexpr std::size_t bytes = std::size_t{256} << 20, number = bytes / sizeof(Vector);
    auto *const memory = static_cast<Vector *>(std::aligned_alloc(sizeof(Vector), bytes));
    if (memory == nullptr) return 1;
    for (std::size_t i = 0; i < number; ++i) memory[i] = Vector{} + 1.0f;
    double best = 0;
    Vector sums[4] = {};
    for (int turn = 0; turn < 10; ++turn) {
        const auto start = std::chrono::steady_clock::now();
        for (std::size_t i = 0; i < number; i += 4)
            for (std::size_t part = 0; part < 4; ++part) sums[part] += memory[i + part];
        const double rate = static_cast<double>(bytes) / seconds_since(start);
        if (rate > best) best = rate;
    }
    const Vector total = sums[0] + sums[1] + sums[2] + sums[3];
    std::printf("%.6e %g\\n", best, static_cast<double>(total[0]));
    return 0;
}

}  // namespace

int main(int count, char **values) {
    if (count == 1) return read_memory();
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
        const double work = 2.0 * chains * (VECTOR_BYTES / 4) * static_cast<double>(rounds);
        const double flops = work / seconds_since(start);
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
    options = ["-O3", "-ffp-contract=fast", f"-march={level.march}", *level.tuning]
    try:
        compile_cpp(source, program, *options, f"-DVECTOR_BYTES={level.vector_bytes}")
    except ProcessError as error:
        raise EnvironmentProblemError(f"the peak cannot be measured: {error}") from error
    return program


def measure_peak(program: Path) -> float:
    """Billions of floating-point operations in a second on one core: the best of fifty runs of a millisecond."""
    return _best(program, str(_ROUNDS))


def measure_bandwidth(program: Path) -> float:
    """Billions of bytes that one core reads from memory in a second."""
    return _best(program)


def _best(program: Path, *arguments: str) -> float:
    done = subprocess.run([program, *arguments], check=True, capture_output=True, text=True)
    return float(done.stdout.split()[0]) / 1e9
