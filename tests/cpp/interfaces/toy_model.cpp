// toy_model.cpp - see toy_model.h.
#include "toy_model.h"
#include "baseline.h"

#include <algorithm>
#include <cstring>

#include "model.h"
#include "program.h"

thread_local std::array<float, 8> toy_last_x;
thread_local bool toy_fail_next = false;

namespace modelwheel {
namespace {

/// One row, by way of the scratch memory of a part where there are threads.
void run_row(const void *const *in, void *const *out, std::size_t row, char *scratch) {
  const auto *x = static_cast<const float *>(in[0]);
  const auto *n = static_cast<const std::int32_t *>(in[1]);
  if (scratch != nullptr) std::memcpy(scratch, n + row, sizeof *n);
  std::int32_t value = n[row];
  if (scratch != nullptr) std::memcpy(&value, scratch, sizeof value);
  for (std::size_t i = 2 * row; i < 2 * row + 2; ++i)
    static_cast<float *>(out[0])[i] = 2 * x[i] + static_cast<float>(value);
  static_cast<bool *>(out[1])[row] = value > 0;
  static_cast<std::int64_t *>(out[2])[2 * row] = value;
  static_cast<std::int64_t *>(out[2])[2 * row + 1] = -std::int64_t{value};
}

/// The largest batch size is one step that up to four threads share.
template <std::size_t kRows>
bool run_rows(const void *const *in, void *const *out, char *, const Threads &threads, std::int64_t) {
  const auto *x = static_cast<const float *>(in[0]);
  struct Task {
    const void *const *in;
    void *const *out;
    const Threads &threads;
  } task{in, out, threads};
  const auto part = [](void *argument, std::size_t row) {
    const auto &of = *static_cast<const Task *>(argument);
    run_row(of.in, of.out, row, of.threads.scratch + row * of.threads.part_bytes);
  };
  if (kRows == 4 && threads.count >= 4)
    threads.run(threads.context, kRows, part, &task);
  else
    for (std::size_t row = 0; row < kRows; ++row) run_row(in, out, row, nullptr);
  std::copy(x, x + 2 * kRows, toy_last_x.begin());
  const bool failed = toy_fail_next;
  toy_fail_next = false;
  return !failed;
}

constexpr std::int64_t pairs[] = {-1, 2}, singles[] = {-1};
constexpr modelwheel_tensor inputs[] = {{"x", "x", MODELWHEEL_FLOAT32, 4, 2, pairs, 1, 2, 8},
                                        {"n", "n", MODELWHEEL_INT32, 4, 1, singles, 1, 1, 4}};
constexpr modelwheel_tensor outputs[] = {{"y", "y", MODELWHEEL_FLOAT32, 4, 2, pairs, 1, 2, 8},
                                         {"positive", "positive", MODELWHEEL_BOOL, 1, 1, singles, 1, 1, 1},
                                         {"pair", "pair", MODELWHEEL_INT64, 8, 1, singles, 2, 2, 16}};
constexpr std::size_t batch_sizes[] = {1, 2, 4};
constexpr std::size_t input_staging[] = {0, 64}, output_staging[] = {128, 192, 256};
constexpr Variant variants[] = {{1, 320, input_staging, output_staging, 1e5, run_rows<1>, 0, 0.0, 0.0, nullptr},
                                {2, 320, input_staging, output_staging, 1.5e5, run_rows<2>, 0, 0.0, 0.0, nullptr},
                                {4, 320, input_staging, output_staging, 2e5, run_rows<4>, 64, 0.8, 0.0, nullptr}};
const char *const level_names[] = {BASELINE};
const Level levels[] = {{BASELINE, variants}};

}  // namespace

extern "C" const char modelwheel_weights[64] = {};
const Tables tables = {levels, 0, "cheapest", nullptr, 0, nullptr, nullptr};
// clang-format off
const modelwheel_api api = {sizeof(modelwheel_api), MODELWHEEL_ABI_VERSION, "toy", "1.0", "{}", 2, inputs, 3, outputs,
                            3, batch_sizes, 1, nullptr, 1, level_names, create, destroy, level, error, run,
                            run_batch_size, set_batch_rule, set_batch_strategy, batch_rule, run_interruptible,
                            0, nullptr, nullptr, nullptr, run_length, 0, nullptr, reset, get_state,
                            set_state, copy_state, instance_bytes, create_in, rows_per_thread, set_threads, estimate, run_part, run_views};
// clang-format on

}  // namespace modelwheel

const modelwheel_api &toy_api() { return modelwheel::api; }
