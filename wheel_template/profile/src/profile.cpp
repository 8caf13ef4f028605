// src/profile.cpp - runs the model again and again: profile LEVEL ROWS SECONDS THREADS INPUTS
//
// INPUTS is a file with the bytes of all inputs, one after the other. The answer has a block for each round, with an
// empty line between two of them. Its first line has the number of threads, nanoseconds, ticks of the counter and runs;
// then comes a line with ticks and runs for each step. With more than one thread, one and all of them take turns.
#include "profile.h"

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

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

constexpr std::size_t rounds = 10;

/// Runs the model for some seconds, after two runs that do not count, and prints what that took.
template <class Run>
void measure(const Run &run, double seconds, std::size_t threads) {
  run();
  run();
  std::memset(modelwheel::modelwheel_step_ticks, 0, sizeof modelwheel::modelwheel_step_ticks);
  std::memset(modelwheel::modelwheel_step_runs, 0, sizeof modelwheel::modelwheel_step_runs);
  std::uint64_t runs = 0;
  const auto start = Clock::now();
  const std::uint64_t first = modelwheel::ticks();
  std::chrono::duration<double, std::nano> elapsed{0};
  while (elapsed.count() < seconds * 1e9) {
    run();
    ++runs;
    elapsed = Clock::now() - start;
  }
  const std::uint64_t ticks = modelwheel::ticks() - first;
  std::printf("%zu %.0f %" PRIu64 " %" PRIu64 "\n", threads, elapsed.count(), ticks, runs);
  std::uint32_t last = modelwheel::max_steps;
  while (last > 0 && modelwheel::modelwheel_step_runs[last - 1] == 0) --last;
  for (std::uint32_t step = 0; step < last; ++step)
    std::printf("%" PRIu64 " %" PRIu64 "\n", modelwheel::modelwheel_step_ticks[step],
                modelwheel::modelwheel_step_runs[step]);
}

void measure_all(modelwheel_model *model, std::size_t rows, double seconds, std::size_t threads,
                 const void *const *inputs, void *const *outputs) {
  modelwheel::ThreadPool pool(threads - 1);
  const std::size_t sides = threads > 1 ? 2 : 1;
  for (std::size_t turn = 0; turn < rounds * sides; ++turn) {
    const std::size_t used = turn % sides == 0 ? 1 : threads;
    if (sides > 1 && api.set_threads(model, used, modelwheel::run_on_threads, &pool) != MODELWHEEL_OK)
      fail(api.error(model));
    if (turn > 0) std::printf("\n");
    measure([&] { run(model, rows, inputs, outputs); }, seconds / static_cast<double>(rounds * sides), used);
  }
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
