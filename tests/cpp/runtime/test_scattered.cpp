// Instances over hand-written tables whose batch axis is not the first one: lengths 3 and 5, batch sizes 1 and 4.
#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "PhysicsTools/TensorFlowAOT/interface/Model.h"
#include "baseline.h"
#include "bindings/parts.h"
#include "check.h"
#include "model.h"
#include "modelwheel/model.hpp"
#include "modelwheel/tfaot_wrapper.hpp"
#include "program.h"

namespace modelwheel {
namespace {

constexpr float kPad = -1;
std::size_t given_length = 0;
const void *last_input = nullptr;

/// in[0]: x, [length, batch, 2]; in[1]: h, [1, batch]. out[0]: y = x + h, [2, length, batch], the features first;
/// out[1]: pairs, [2, batch * 2]: h and -h of each row, and the same doubled; out[2]: sum, [batch], of what is not a
/// pad.
template <std::size_t L, std::size_t B>
bool run_rows(const void *const *in, void *const *out, char *, const modelwheel::Threads &, std::int64_t) {
  const auto *x = static_cast<const float *>(in[0]), *h = static_cast<const float *>(in[1]);
  auto *y = static_cast<float *>(out[0]), *pairs = static_cast<float *>(out[1]), *sum = static_cast<float *>(out[2]);
  last_input = x;
  for (std::size_t row = 0; row < B; ++row) {
    sum[row] = 0;
    for (std::size_t i = 0; i < L; ++i)
      for (std::size_t c = 0; c < 2; ++c) {
        const float value = x[(i * B + row) * 2 + c];
        if (i >= given_length) CHECK(value == kPad);
        y[(c * L + i) * B + row] = value + h[row];
        if (value > 0) sum[row] += value;
      }
    for (std::size_t i = 0; i < 2; ++i) {
      pairs[i * B * 2 + row * 2] = h[row] * static_cast<float>(i + 1);
      pairs[i * B * 2 + row * 2 + 1] = -h[row] * static_cast<float>(i + 1);
    }
  }
  return true;
}

constexpr std::int64_t x_shape[] = {5, -1, 2}, h_shape[] = {1, -1}, y_shape[] = {2, 5, -1}, pairs_shape[] = {2, -1},
                       sum_shape[] = {-1};
constexpr modelwheel_tensor inputs[] = {{"x", "x", MODELWHEEL_FLOAT32, 4, 3, x_shape, 1, 10, 40},
                                        {"h", "h", MODELWHEEL_FLOAT32, 4, 2, h_shape, 1, 1, 4}};
constexpr modelwheel_tensor outputs[] = {{"y", "y", MODELWHEEL_FLOAT32, 4, 3, y_shape, 1, 10, 40},
                                         {"pairs", "pairs", MODELWHEEL_FLOAT32, 4, 2, pairs_shape, 2, 4, 16},
                                         {"sum", "sum", MODELWHEEL_FLOAT32, 4, 1, sum_shape, 1, 1, 4}};
constexpr modelwheel_extent x_extents[] = {{0, 1}, {1, 0}, {2, 0}}, h_extents[] = {{1, 0}, {1, 0}},
                            y_extents[] = {{2, 0}, {0, 1}, {1, 0}}, pairs_extents[] = {{2, 0}, {2, 0}},
                            sum_extents[] = {{1, 0}};
constexpr const modelwheel_extent *input_extents[] = {x_extents, h_extents};
constexpr const modelwheel_extent *output_extents[] = {y_extents, pairs_extents, sum_extents};
constexpr const void *pads[] = {&kPad, nullptr};
constexpr std::size_t batch_sizes[] = {1, 4}, lengths[] = {3, 5};
constexpr std::size_t input_staging[] = {0, 192}, output_staging[] = {256, 448, 576};
const Variant variants[] = {{1, 640, input_staging, output_staging, 1.0, run_rows<3, 1>, 0, 0.0, 0.0, nullptr},
                            {4, 640, input_staging, output_staging, 2.5, run_rows<3, 4>, 0, 0.0, 0.0, nullptr},
                            {1, 640, input_staging, output_staging, 1.0, run_rows<5, 1>, 0, 0.0, 0.0, nullptr},
                            {4, 640, input_staging, output_staging, 2.5, run_rows<5, 4>, 0, 0.0, 0.0, nullptr}};
const char *const level_names[] = {BASELINE};
const Level levels[] = {{BASELINE, variants}};

}  // namespace

extern "C" const char modelwheel_weights[64] = {};
const Tables tables = {levels, 0, "cheapest", nullptr, 0, pads, nullptr};
// clang-format off
const modelwheel_api api = {sizeof(modelwheel_api), MODELWHEEL_ABI_VERSION, "scattered", "1.0", "{}", 2, inputs, 3, outputs,
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
  std::size_t rows, length;
  AlignedVector<float> x, h, y, pairs, sum;

  Arrays(std::size_t row_count, std::size_t given)
      : rows(row_count),
        length(given),
        x(rows * 2 * length),
        h(rows),
        y(rows * 2 * length),
        pairs(rows * 4),
        sum(rows) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i + 1);
    for (std::size_t i = 0; i < rows; ++i) h[i] = static_cast<float>(100 * (i + 1));
  }

  modelwheel_status run(const Instance &instance) {
    const void *const in[] = {x.data(), h.data()};
    void *const out[] = {y.data(), pairs.data(), sum.data()};
    given_length = length;
    return run_length(instance.model, rows, length, in, out, nullptr, nullptr);
  }

  void check_results() const {
    for (std::size_t row = 0; row < rows; ++row) {
      float expected = 0;
      for (std::size_t i = 0; i < length; ++i)
        for (std::size_t c = 0; c < 2; ++c) {
          const float value = x[(i * rows + row) * 2 + c];
          CHECK(y[(c * length + i) * rows + row] == value + h[row]);
          expected += value;
        }
      CHECK(sum[row] == expected);
      for (std::size_t i = 0; i < 2; ++i) {
        CHECK(pairs[(i * rows + row) * 2] == h[row] * static_cast<float>(i + 1));
        CHECK(pairs[(i * rows + row) * 2 + 1] == -h[row] * static_cast<float>(i + 1));
      }
    }
  }
};

void rows_are_taken_from_between_each_other() {
  for (const char *rule : {"7:4,1,1,1", "7:1,1,1,4", "7:4,4", "7:1,4,1,1"}) {
    const Instance instance;
    CHECK(set_batch_rule(instance.model, rule) == MODELWHEEL_OK);
    for (std::size_t length = 1; length <= 5; ++length) {
      Arrays arrays(7, length);
      CHECK(arrays.run(instance) == MODELWHEEL_OK);
      arrays.check_results();
    }
  }
}

void every_number_of_rows_and_length_gives_its_own_results() {
  const Instance instance;
  for (std::size_t length = 1; length <= 5; ++length)
    for (std::size_t rows = 1; rows <= 9; ++rows) {
      Arrays arrays(rows, length);
      CHECK(arrays.run(instance) == MODELWHEEL_OK);
      arrays.check_results();
    }
}

void whole_arrays_are_used_in_place() {
  const Instance instance;
  Arrays arrays(4, 5);
  CHECK(arrays.run(instance) == MODELWHEEL_OK && last_input == arrays.x.data());
  arrays.check_results();
  Arrays more(5, 5);
  CHECK(set_batch_rule(instance.model, "5:4,1") == MODELWHEEL_OK);
  CHECK(more.run(instance) == MODELWHEEL_OK && last_input != more.x.data());
  const void *const in[] = {arrays.x.data(), arrays.h.data()};
  void *const out[] = {arrays.y.data(), arrays.pairs.data(), arrays.sum.data()};
  given_length = 5;
  CHECK(run_batch_size(instance.model, 4, in, out) == MODELWHEEL_OK && last_input == arrays.x.data());
}

void parts_of_a_batch_are_run_by_themselves() {
  for (std::size_t length = 1; length <= 5; length += 2) {
    Arrays arrays(9, length);
    const void *const in[] = {arrays.x.data(), arrays.h.data()};
    void *const out[] = {arrays.y.data(), arrays.pairs.data(), arrays.sum.data()};
    given_length = length;
    for (std::size_t first = 0; first < 9; first += 4) {
      const Instance instance;
      const std::size_t rows = first + 4 < 9 ? 4 : 9 - first;
      CHECK(run_part(instance.model, first, rows, 9, length, in, out, nullptr, nullptr) == MODELWHEEL_OK);
    }
    arrays.check_results();
  }
  const Instance instance;
  Arrays four(4, 5);  // as many as a compiled size, which runs half of them and padding
  const void *const in[] = {four.x.data(), four.h.data()};
  void *const out[] = {four.y.data(), four.pairs.data(), four.sum.data()};
  given_length = 5;
  for (const char *rule : {"2:1,1", "2:4"}) {
    std::fill(four.y.begin(), four.y.end(), 0.0f);
    for (const std::size_t first : {std::size_t{0}, std::size_t{2}}) {
      CHECK(set_batch_rule(instance.model, rule) == MODELWHEEL_OK);
      CHECK(run_part(instance.model, first, 2, 4, 5, in, out, nullptr, nullptr) == MODELWHEEL_OK);
    }
    four.check_results();
  }
  CHECK(run_part(instance.model, 4, 6, 9, 5, nullptr, nullptr, nullptr, nullptr) == MODELWHEEL_INVALID_ARGUMENT);
  CHECK(std::string(error(instance.model)) == "6 rows from number 4 on are not among 9 rows");
  CHECK(run_part(instance.model, 9, 0, 9, 5, nullptr, nullptr, nullptr, nullptr) == MODELWHEEL_OK);
  CHECK(run_part(nullptr, 0, 1, 1, 5, nullptr, nullptr, nullptr, nullptr) == MODELWHEEL_INVALID_ARGUMENT);
}

/// Threads of Python share the rows of a call, in parts that begin where another one ends.
void threads_share_rows_that_are_scattered() {
  Arrays arrays(11, 5);
  const void *const in[] = {arrays.x.data(), arrays.h.data()};
  void *const out[] = {arrays.y.data(), arrays.pairs.data(), arrays.sum.data()};
  given_length = 5;
  const Instance instance;
  const Evaluation all{11, 5, in, out, nullptr, nullptr};
  PartedEvaluation parts(modelwheel::api, LengthTable(modelwheel::api), all, 3);
  const std::vector<modelwheel_model *> models(count_parts(11, 3), instance.model);
  CHECK(parts.run(nullptr, models, 1).first == MODELWHEEL_OK);
  arrays.check_results();
}

/// The x of `arrays` in other layouts, each in memory of exactly the bytes that it takes.
struct Layout {
  AlignedVector<float> memory, second;
  std::vector<std::ptrdiff_t> strides;
  std::vector<const void *> columns;
  const char *data;

  modelwheel_view view() const {
    return {columns.empty() ? data : nullptr, strides.empty() ? nullptr : strides.data(),
            columns.empty() ? nullptr : columns.data()};
  }
};

/// The axes [length, batch, 2] in some order in memory, those in `reversed` from their ends.
Layout strided_layout(const Arrays &arrays, const std::vector<std::size_t> &order, const std::vector<bool> &reversed) {
  const std::size_t extents[] = {arrays.length, arrays.rows, 2};
  Layout layout{AlignedVector<float>(arrays.x.size()), {}, std::vector<std::ptrdiff_t>(3), {}, nullptr};
  std::ptrdiff_t step = sizeof(float), start = 0;
  for (std::size_t i = 3; i-- > 0;) {
    const std::size_t axis = order[i];
    layout.strides[axis] = reversed[axis] ? -step : step;
    if (reversed[axis]) start += step * static_cast<std::ptrdiff_t>(extents[axis] - 1);
    step *= static_cast<std::ptrdiff_t>(extents[axis]);
  }
  char *const data = reinterpret_cast<char *>(layout.memory.data()) + start;
  for (std::size_t i = 0; i < arrays.length; ++i)
    for (std::size_t row = 0; row < arrays.rows; ++row)
      for (std::size_t c = 0; c < 2; ++c) {
        const auto at = static_cast<std::ptrdiff_t>(i) * layout.strides[0] +
                        static_cast<std::ptrdiff_t>(row) * layout.strides[1] +
                        static_cast<std::ptrdiff_t>(c) * layout.strides[2];
        *reinterpret_cast<float *>(data + at) = arrays.x[(i * arrays.rows + row) * 2 + c];
      }
  layout.data = data;
  return layout;
}

/// An array [length, batch] for each feature; with strides, [batch, length].
Layout columns_layout(const Arrays &arrays, bool transposed) {
  const std::size_t count = arrays.length * arrays.rows;
  Layout layout{AlignedVector<float>(count), AlignedVector<float>(count), {}, {}, nullptr};
  for (std::size_t i = 0; i < arrays.length; ++i)
    for (std::size_t row = 0; row < arrays.rows; ++row) {
      const std::size_t place = transposed ? row * arrays.length + i : i * arrays.rows + row;
      layout.memory[place] = arrays.x[(i * arrays.rows + row) * 2];
      layout.second[place] = arrays.x[(i * arrays.rows + row) * 2 + 1];
    }
  if (transposed) layout.strides = {sizeof(float), static_cast<std::ptrdiff_t>(arrays.length * sizeof(float)), 0};
  layout.columns = {layout.memory.data(), layout.second.data()};
  return layout;
}

std::vector<Layout> all_layouts(const Arrays &arrays) {
  std::vector<Layout> layouts;
  for (const auto &order : std::vector<std::vector<std::size_t>>{{0, 1, 2}, {1, 0, 2}, {2, 1, 0}, {1, 2, 0}})
    for (const auto &reversed :
         std::vector<std::vector<bool>>{{false, false, false}, {true, false, true}, {false, true, false}})
      layouts.push_back(strided_layout(arrays, order, reversed));
  for (const bool transposed : {false, true}) layouts.push_back(columns_layout(arrays, transposed));
  return layouts;
}

void views_give_what_dense_arrays_give() {
  const Instance instance;
  for (std::size_t length = 1; length <= 5; ++length)
    for (std::size_t rows = 1; rows <= 6; ++rows) {
      Arrays arrays(rows, length);
      const std::ptrdiff_t none[] = {0, sizeof(float)};
      given_length = length;
      for (const Layout &layout : all_layouts(arrays)) {
        const modelwheel_view in[] = {layout.view(), {arrays.h.data(), none, nullptr}};
        for (auto *results : {&arrays.y, &arrays.pairs, &arrays.sum}) std::fill(results->begin(), results->end(), 0.0f);
        void *const out[] = {arrays.y.data(), arrays.pairs.data(), arrays.sum.data()};
        for (std::size_t first = 0; first < rows; first += 4)
          CHECK(run_views(instance.model, first, std::min<std::size_t>(4, rows - first), rows, length, in, out, nullptr,
                          nullptr) == MODELWHEEL_OK);
        arrays.check_results();
      }
    }
  CHECK(run_views(instance.model, 0, 1, 1, 5, nullptr, nullptr, nullptr, nullptr) == MODELWHEEL_INVALID_ARGUMENT);
  CHECK(std::string(error(instance.model)) == "the buffer of input 'x' is null");
  const modelwheel_view empty[] = {{nullptr, nullptr, nullptr}, {nullptr, nullptr, nullptr}};
  CHECK(run_views(instance.model, 0, 1, 1, 5, empty, nullptr, nullptr, nullptr) == MODELWHEEL_INVALID_ARGUMENT);
  CHECK(run_views(nullptr, 0, 1, 1, 5, nullptr, nullptr, nullptr, nullptr) == MODELWHEEL_INVALID_ARGUMENT);
}

/// Of four rows with a gap behind each, and of arrays that are dense after all, nothing is copied.
void dense_rows_of_a_view_are_used_in_place() {
  const Instance instance;
  Arrays arrays(4, 5), one(1, 5);
  given_length = 5;
  const std::ptrdiff_t dense[] = {32, 8, 4}, gaps[] = {8, 64 * 5, 4}, step[] = {4, 4};
  const modelwheel_view whole[] = {{arrays.x.data(), dense, nullptr}, {arrays.h.data(), nullptr, nullptr}};
  void *const out[] = {arrays.y.data(), arrays.pairs.data(), arrays.sum.data()};
  CHECK(run_views(instance.model, 0, 4, 4, 5, whole, out, nullptr, nullptr) == MODELWHEEL_OK);
  CHECK(last_input == arrays.x.data());
  arrays.check_results();
  AlignedVector<float> spread(4 * 80);
  const modelwheel_view apart[] = {{spread.data(), gaps, nullptr}, {one.h.data(), step, nullptr}};
  void *const out_of_one[] = {one.y.data(), one.pairs.data(), one.sum.data()};
  CHECK(run_views(instance.model, 0, 1, 1, 5, apart, out_of_one, nullptr, nullptr) == MODELWHEEL_OK);
  CHECK(last_input == spread.data());
}

void the_class_checks_views() {
  Model model(modelwheel::api);
  Arrays arrays(3, 5);
  given_length = 5;
  const Layout columns = columns_layout(arrays, false);
  const float *pointers[] = {columns.memory.data(), columns.second.data()};
  model.run_views(3, {modelwheel::columns(pointers), arrays.h}, {arrays.y, arrays.pairs, arrays.sum});
  arrays.check_results();
  std::fill(arrays.y.begin(), arrays.y.end(), 0.0f);
  const View x = strided(arrays.x.data(), {24, 8, 4});
  model.run_views(3, {x, strided(arrays.h.data(), {0, 4})}, {arrays.y, arrays.pairs, arrays.sum});
  arrays.check_results();
  const auto refuses = [&](const View &view, const char *sentence) {
    try {
      model.run_views(3, {view, arrays.h}, {arrays.y, arrays.pairs, arrays.sum});
      CHECK(!"refused");
    } catch (const Error &error) {
      if (std::string(error.what()) != sentence) std::puts(error.what());
      CHECK(std::string(error.what()) == sentence);
    }
  };
  const double *wrong = nullptr;
  refuses(strided(wrong, {1, 1, 1}), "scattered: input 'x' must be float32, got float64");
  refuses(strided(arrays.x.data(), {1, 1}), "scattered: input 'x' must have 3 strides, got 2");
  refuses(modelwheel::columns<float>(Span<const float *const>(pointers, 1)),
          "scattered: input 'x' must have 2 columns, got 1");
  refuses(arrays.h, "scattered: input 'x' must have 30 elements, got 3");
}

void the_class_counts_elements() {
  Model model(modelwheel::api);
  Arrays arrays(3, 5);
  given_length = 5;
  model.run(3, {arrays.x, arrays.h}, {arrays.y, arrays.pairs, arrays.sum});
  arrays.check_results();
  Arrays shorter(6, 2);
  given_length = 2;
  model.run_length(6, 2, {shorter.x, shorter.h}, {shorter.y, shorter.pairs, shorter.sum});
  shorter.check_results();
}

struct Wrapper : TfaotWrapper {
  Wrapper() : TfaotWrapper(modelwheel::api, "scattered") {}
};

/// tfaot::Model, CMSSW's own too, has one vector for each row.
void rows_are_whole_in_cmssw() {
  tfaot::Model<Wrapper> model;
  const std::size_t rows = 6;
  Arrays arrays(rows, 5);
  tfaot::FloatArrays x(rows), h(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    h[row] = {arrays.h[row]};
    for (std::size_t i = 0; i < 5; ++i)
      for (std::size_t c = 0; c < 2; ++c) x[row].push_back(arrays.x[(i * rows + row) * 2 + c]);
  }
  given_length = 5;
  model.setBatchRule("6:4,1,1");
  const auto [y, pairs, sum] = model.run<tfaot::FloatArrays, tfaot::FloatArrays, tfaot::FloatArrays>(rows, x, h);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < 5; ++i)
      for (std::size_t c = 0; c < 2; ++c) CHECK(y[row][c * 5 + i] == x[row][i * 2 + c] + h[row][0]);
    const float one = h[row][0];
    CHECK(pairs[row] == std::vector<float>({one, -one, 2 * one, -2 * one}));
    CHECK(sum[row].size() == 1);
  }
}

}  // namespace

int main() {
  rows_are_taken_from_between_each_other();
  every_number_of_rows_and_length_gives_its_own_results();
  whole_arrays_are_used_in_place();
  parts_of_a_batch_are_run_by_themselves();
  threads_share_rows_that_are_scattered();
  views_give_what_dense_arrays_give();
  dense_rows_of_a_view_are_used_in_place();
  the_class_checks_views();
  the_class_counts_elements();
  rows_are_whole_in_cmssw();
  return check_report();
}
