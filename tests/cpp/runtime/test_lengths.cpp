// Instances over hand-written tables with two compiled lengths, 3 and 5, and batch sizes 1 and 2.
#include <string>
#include <vector>

#include "baseline.h"
#include "check.h"
#include "model.h"
#include "modelwheel/model.hpp"
#include "program.h"

namespace modelwheel {
namespace {

constexpr float kPad = -1;
constexpr std::int16_t kWeightPad = 7;
std::size_t last_length = 0;
std::size_t given_length = 0;

/// in[0]: x, [batch, 2, length]; in[1]: w, [length], the same for all rows. out[0]: y = x * w as [batch, length, 2];
/// out[1]: [batch * (2 * length + 1)], for each row x doubled and one end; out[2]: [batch], the sum that ignores pads.
template <std::size_t L, std::size_t B>
bool run_rows(const void *const *in, void *const *out, char *, const modelwheel::Threads &, std::int64_t) {
  const auto *x = static_cast<const float *>(in[0]);
  const auto *w = static_cast<const std::int16_t *>(in[1]);
  last_length = L;
  for (std::size_t i = given_length; i < L; ++i) CHECK(w[i] == kWeightPad);
  for (std::size_t row = 0; row < B; ++row) {
    auto *y = static_cast<float *>(out[0]) + row * L * 2;
    auto *flat = static_cast<float *>(out[1]) + row * (2 * L + 1);
    float sum = 0;
    for (std::size_t c = 0; c < 2; ++c)
      for (std::size_t i = 0; i < L; ++i) {
        const float value = x[(row * 2 + c) * L + i];
        if (i >= given_length) CHECK(value == kPad || value == 0);  // 0 in rows that fill a batch
        y[i * 2 + c] = value * w[i];
        flat[2 * i + c] = value;
        if (value > 0) sum += value;
      }
    flat[2 * L] = 99;  // beyond a shorter length: it is cut off
    static_cast<float *>(out[2])[row] = sum;
  }
  return true;
}

constexpr std::int64_t x_shape[] = {-1, 2, 5}, w_shape[] = {5}, y_shape[] = {-1, 5, 2}, flat_shape[] = {-1};
constexpr modelwheel_tensor inputs[] = {{"x", "x", MODELWHEEL_FLOAT32, 4, 3, x_shape, 1, 10, 40},
                                        {"w", "w", MODELWHEEL_INT16, 2, 1, w_shape, 0, 5, 10}};
constexpr modelwheel_tensor outputs[] = {{"y", "y", MODELWHEEL_FLOAT32, 4, 3, y_shape, 1, 10, 40},
                                         {"flat", "flat", MODELWHEEL_FLOAT32, 4, 1, flat_shape, 11, 11, 44},
                                         {"sum", "sum", MODELWHEEL_FLOAT32, 4, 1, flat_shape, 1, 1, 4}};
constexpr modelwheel_extent x_extents[] = {{1, 0}, {2, 0}, {0, 1}}, w_extents[] = {{0, 1}},
                            y_extents[] = {{1, 0}, {0, 1}, {2, 0}}, flat_extents[] = {{1, 2}}, sum_extents[] = {{1, 0}};
constexpr const modelwheel_extent *input_extents[] = {x_extents, w_extents};
constexpr const modelwheel_extent *output_extents[] = {y_extents, flat_extents, sum_extents};
constexpr const void *pads[] = {&kPad, &kWeightPad};
constexpr std::size_t batch_sizes[] = {1, 2}, lengths[] = {3, 5};
constexpr std::size_t input_staging[] = {0, 128}, output_staging[] = {192, 320, 448};
const Variant variants[] = {{1, 512, input_staging, output_staging, 9.0, run_rows<3, 1>, 0, 0.0, 0.0, nullptr},
                            {2, 512, input_staging, output_staging, 1.0, run_rows<3, 2>, 0, 0.0, 0.0, nullptr},
                            {1, 512, input_staging, output_staging, 1.0, run_rows<5, 1>, 0, 0.0, 0.0, nullptr},
                            {2, 512, input_staging, output_staging, 1.5, run_rows<5, 2>, 0, 0.0, 0.0, nullptr}};
const char *const level_names[] = {BASELINE};
const Level levels[] = {{BASELINE, variants}};

}  // namespace

extern "C" const char modelwheel_weights[64] = {};
const Tables tables = {levels, 0, "cheapest", nullptr, 0, pads, nullptr};
// clang-format off
const modelwheel_api api = {sizeof(modelwheel_api), MODELWHEEL_ABI_VERSION, "lengths", "1.0", "{}", 2, inputs, 3, outputs,
                            2, batch_sizes, 1, nullptr, 1, level_names, create, destroy, level, error, run,
                            run_batch_size, set_batch_rule, set_batch_strategy, batch_rule, run_interruptible,
                            2, lengths, input_extents, output_extents, run_length, 0, nullptr, reset, get_state, set_state, copy_state, instance_bytes, create_in, rows_per_thread, set_threads, estimate, run_part, run_views};
// clang-format on

}  // namespace modelwheel

using namespace modelwheel;

namespace {

struct Instance {
  modelwheel_model *model = nullptr;
  Instance() { CHECK(create(nullptr, &model, nullptr, 0) == MODELWHEEL_OK); }
  ~Instance() { destroy(model); }
};

/// Arrays of exactly the bytes that a call may touch, so that sanitizers see any other access.
struct Arrays {
  std::vector<float> x, y, flat, sum;
  std::vector<std::int16_t> w;

  Arrays(std::size_t rows, std::size_t length)
      : x(rows * 2 * length), y(rows * length * 2), flat(rows * (2 * length + 1)), sum(rows), w(length) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i + 1);
    for (std::size_t i = 0; i < length; ++i) w[i] = static_cast<std::int16_t>(i + 2);
  }

  modelwheel_status run(const Instance &instance, std::size_t rows, std::size_t length) {
    const void *const in[] = {x.data(), w.data()};
    void *const out[] = {y.data(), flat.data(), sum.data()};
    given_length = length;
    return run_length(instance.model, rows, length, in, out, nullptr, nullptr);
  }
};

void every_length_gives_its_own_results() {
  const Instance instance;
  for (std::size_t length = 1; length <= 5; ++length)
    for (std::size_t rows = 1; rows <= 5; ++rows) {
      Arrays arrays(rows, length);
      CHECK(arrays.run(instance, rows, length) == MODELWHEEL_OK);
      CHECK(last_length == (length <= 3 ? 3 : 5));
      for (std::size_t row = 0; row < rows; ++row) {
        float sum = 0;
        for (std::size_t c = 0; c < 2; ++c)
          for (std::size_t i = 0; i < length; ++i) {
            const float value = arrays.x[(row * 2 + c) * length + i];
            sum += value;
            CHECK(arrays.y[(row * length + i) * 2 + c] == value * static_cast<float>(i + 2));
            CHECK(arrays.flat[row * (2 * length + 1) + 2 * i + c] == value);
          }
        CHECK(arrays.sum[row] == sum);
      }
    }
}

void without_a_length_the_largest_is_meant() {
  const Instance instance;
  Arrays arrays(2, 5);
  const void *const in[] = {arrays.x.data(), arrays.w.data()};
  void *const out[] = {arrays.y.data(), arrays.flat.data(), arrays.sum.data()};
  given_length = 5;
  last_length = 0;
  CHECK(run(instance.model, 2, in, out) == MODELWHEEL_OK && last_length == 5);
  CHECK(arrays.y[19] == arrays.x[19] * 6);
  Arrays(1, 2).run(instance, 1, 2);
  given_length = 5;
  CHECK(run_batch_size(instance.model, 2, in, out) == MODELWHEEL_OK && last_length == 5);
}

void batches_are_composed_by_the_costs_of_the_largest_length() {
  const Instance instance;
  char text[32];
  CHECK(batch_rule(instance.model, 3, text, sizeof text, nullptr) == MODELWHEEL_OK);
  CHECK(std::string(text) == "3:2,1" || std::string(text) == "3:1,2");
}

void other_lengths_are_refused() {
  const Instance instance;
  Arrays arrays(1, 5);
  CHECK(arrays.run(instance, 1, 0) == MODELWHEEL_INVALID_ARGUMENT);
  CHECK(std::string(error(instance.model)) == "lengths takes lengths from 1 to 5, got 0");
  CHECK(arrays.run(instance, 1, 6) == MODELWHEEL_INVALID_ARGUMENT);
  CHECK(std::string(error(instance.model)) == "lengths takes lengths from 1 to 5, got 6");
  CHECK(run_length(nullptr, 1, 1, nullptr, nullptr, nullptr, nullptr) == MODELWHEEL_INVALID_ARGUMENT);
}

/// Calls a function that must throw an Error; returns its sentence.
template <class Function>
std::string sentence_of(const Function &function) {
  try {
    function();
  } catch (const Error &error) {
    return error.what();
  }
  return "nothing was thrown";
}

void the_class_checks_sizes_at_the_length() {
  Model model(modelwheel::api);
  CHECK(model.lengths().size() == 2 && model.lengths()[1] == 5);
  Arrays a(2, 4);
  given_length = 4;
  model.run_length(2, 4, {a.x, a.w}, {a.y, a.flat, a.sum});
  CHECK(last_length == 5 && a.y[15] == a.x[15] * 5);
  const auto run = [&](std::size_t length) { model.run_length(2, length, {a.x, a.w}, {a.y, a.flat, a.sum}); };
  CHECK(sentence_of([&] { run(3); }) == "lengths: input 'x' must have 12 elements for 2 rows, got 16");
  CHECK(sentence_of([&] { run(6); }) == "lengths: got the length 6; lengths from 1 to 5 were compiled");
  modelwheel_api older = modelwheel::api;  // a library from before there were lengths
  older.struct_size = kTableBytes;
  Model fixed(older);
  CHECK(fixed.lengths().size() == 0);
  CHECK(sentence_of([&] { fixed.run_length(2, 4, {a.x, a.w}, {a.y, a.flat, a.sum}); }) ==
        "lengths: got the length 4, but its shapes are fixed");
}

}  // namespace

int main() {
  every_length_gives_its_own_results();
  without_a_length_the_largest_is_meant();
  batches_are_composed_by_the_costs_of_the_largest_length();
  other_lengths_are_refused();
  the_class_checks_sizes_at_the_length();
  return check_report();
}
