// src/profile.cpp - runs the model again and again: profile LEVEL ROWS SECONDS THREADS INPUTS
//
// INPUTS is a file with the bytes of all inputs, one after the other. The first line of the answer has nanoseconds,
// ticks of the counter and runs of the whole measurement; then comes a line with ticks and runs for each step. With
// more than one thread, one and all of them take turns, and after an empty line the answer has the same for all of
// them.
#include "profile.h"

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "bindings/thread_pool.h"
#include "program.h"

namespace modelwheel {
extern "C" {
std::uint64_t modelwheel_step_ticks[max_steps];
std::uint64_t modelwheel_step_runs[max_steps];
}
}  // namespace modelwheel

namespace {

using modelwheel::api;
using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const char *sentence) {
  std::fprintf(stderr, "profile: %s\n", sentence);
  std::exit(1);
}

std::size_t bytes_of(const modelwheel_tensor &tensor, std::size_t rows) {
  return (tensor.leading_per_row == 0 ? 1 : rows) * tensor.row_bytes;
}

// At an address that the code can use in place.
void *allocate(std::size_t bytes) {
  void *const memory = std::calloc(bytes + 64, 1);
  if (memory == nullptr) fail("out of memory");
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  return static_cast<char *>(memory) + (64 - address % 64) % 64;
}

void run(modelwheel_model *model, std::size_t rows, const void *const *inputs, void *const *outputs) {
  if (api.run_batch_size(model, rows, inputs, outputs) != MODELWHEEL_OK) fail(api.error(model));
}

constexpr int rounds = 10;

/// What one side of the measurement took.
struct Taken {
  double nanoseconds = 0;
  std::uint64_t ticks = 0, runs = 0;
  std::vector<std::uint64_t> step_ticks = std::vector<std::uint64_t>(modelwheel::max_steps);
  std::vector<std::uint64_t> step_runs = std::vector<std::uint64_t>(modelwheel::max_steps);
};

void do_parts(void *pool, std::size_t parts, modelwheel_task task, void *argument) {
  static_cast<modelwheel::ThreadPool *>(pool)->run(parts, [=](std::size_t part) { task(argument, part); }, [] {});
}

void print(const Taken &taken) {
  std::printf("%.0f %" PRIu64 " %" PRIu64 "\n", taken.nanoseconds, taken.ticks, taken.runs);
  std::uint32_t last = modelwheel::max_steps;
  while (last > 0 && taken.step_runs[last - 1] == 0) --last;
  for (std::uint32_t step = 0; step < last; ++step)
    std::printf("%" PRIu64 " %" PRIu64 "\n", taken.step_ticks[step], taken.step_runs[step]);
}

/// Runs the model for some seconds, after two runs that do not count.
template <class Run>
void measure(const Run &run, double seconds, Taken &taken) {
  run();
  run();
  std::memset(modelwheel::modelwheel_step_ticks, 0, sizeof modelwheel::modelwheel_step_ticks);
  std::memset(modelwheel::modelwheel_step_runs, 0, sizeof modelwheel::modelwheel_step_runs);
  const auto start = Clock::now();
  const std::uint64_t first = modelwheel::ticks();
  std::chrono::duration<double, std::nano> elapsed{0};
  while (elapsed.count() < seconds * 1e9) {
    run();
    ++taken.runs;
    elapsed = Clock::now() - start;
  }
  taken.nanoseconds += elapsed.count();
  taken.ticks += modelwheel::ticks() - first;
  for (std::uint32_t step = 0; step < modelwheel::max_steps; ++step) {
    taken.step_ticks[step] += modelwheel::modelwheel_step_ticks[step];
    taken.step_runs[step] += modelwheel::modelwheel_step_runs[step];
  }
}

void measure_all(modelwheel_model *model, std::size_t rows, double seconds, std::size_t threads,
                 const void *const *inputs, void *const *outputs) {
  const auto once = [&] { run(model, rows, inputs, outputs); };
  Taken alone, shared;
  if (threads < 2) {
    measure(once, seconds, alone);
    return print(alone);
  }
  modelwheel::ThreadPool pool(threads - 1);
  for (int round = 0; round < rounds; ++round)
    for (const bool all : {false, true}) {
      if (api.set_threads(model, all ? threads : 1, do_parts, &pool) != MODELWHEEL_OK) fail(api.error(model));
      measure(once, seconds / rounds / 2, all ? shared : alone);
    }
  print(alone);
  std::printf("\n");
  print(shared);
}

}  // namespace

int main(int count, char **values) {
  if (count != 6) fail("usage: profile LEVEL ROWS SECONDS THREADS INPUTS");
  const auto rows = static_cast<std::size_t>(std::atoll(values[2]));
  std::FILE *const file = std::fopen(values[5], "rb");
  if (file == nullptr) fail("the inputs cannot be read");
  const void **const inputs = static_cast<const void **>(allocate(api.num_inputs * sizeof(void *)));
  void **const outputs = static_cast<void **>(allocate(api.num_outputs * sizeof(void *)));
  for (std::size_t i = 0; i < api.num_inputs; ++i) {
    const std::size_t bytes = bytes_of(api.inputs[i], rows);
    void *const memory = allocate(bytes);
    if (std::fread(memory, 1, bytes, file) != bytes) fail("the inputs are too short");
    inputs[i] = memory;
  }
  std::fclose(file);
  for (std::size_t i = 0; i < api.num_outputs; ++i) outputs[i] = allocate(bytes_of(api.outputs[i], rows));
  modelwheel_model *model;
  char problem[256];
  if (api.create(values[1], &model, problem, sizeof problem) != MODELWHEEL_OK) fail(problem);
  measure_all(model, rows, std::atof(values[3]), static_cast<std::size_t>(std::atoll(values[4])), inputs, outputs);
  api.destroy(model);
  return 0;
}
