// A model with state, by every C++ interface: y = x + sum of all x so far, for batches of 1 and 4 rows, and a count.
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "baseline.h"
#include "bindings/instance_pool.h"
#include "check.h"
#include "model.h"
#include "modelwheel/compiled_function.hpp"
#include "modelwheel/model.hpp"
#include "program.h"
#include "throws.h"

namespace {

bool fail_next = false;

/// in[0]: rows of x[2]; in[1] and in[2]: the state, changed in place also where the run fails later.
template <std::size_t B>
bool run_rows(const void *const *in, void *const *out, char *, const modelwheel::Threads &, std::int64_t) {
  for (std::size_t i = 0; i < 3; ++i) CHECK(reinterpret_cast<std::uintptr_t>(in[i]) % 64 == 0);
  const auto *x = static_cast<const float *>(in[0]);
  auto *y = static_cast<float *>(out[0]);
  auto *count = static_cast<std::int32_t *>(const_cast<void *>(in[1]));
  auto *sum = static_cast<float *>(const_cast<void *>(in[2]));
  for (std::size_t i = 0; i < 2 * B; ++i) y[i] = x[i] + (sum[i % 2] += x[i]);
  ++*count;
  const bool failed = fail_next;
  fail_next = false;
  return !failed;
}

}  // namespace

// At 64: the first sum.
extern "C" const char modelwheel_weights[128] = {3, 0, 0, 0};

namespace modelwheel {
namespace {

constexpr std::int64_t pairs[] = {-1, 2}, none[] = {1}, two[] = {2};
constexpr modelwheel_tensor inputs[] = {{"x", "x", MODELWHEEL_FLOAT32, 4, 2, pairs, 1, 2, 8}};
constexpr modelwheel_tensor outputs[] = {{"y", "y", MODELWHEEL_FLOAT32, 4, 2, pairs, 1, 2, 8}};
constexpr modelwheel_tensor states[] = {{"count", "count", MODELWHEEL_INT32, 4, 0, none, 0, 1, 4},
                                        {"sum", "sum", MODELWHEEL_FLOAT32, 4, 1, two, 0, 2, 8}};
constexpr std::size_t first_state[] = {0, 64};
constexpr std::size_t batch_sizes[] = {1, 4};
constexpr std::size_t staging[] = {0}, output_staging[] = {64};
constexpr Variant variants[] = {{1, 128, staging, output_staging, 1.0, run_rows<1>, 0, 0.0, 0.0, nullptr},
                                {4, 128, staging, output_staging, 2.0, run_rows<4>, 0, 0.0, 0.0, nullptr}};
const char *const level_names[] = {BASELINE};
const Level levels[] = {{BASELINE, variants}};

}  // namespace

const Tables tables = {levels, 0, "cheapest", nullptr, 0, nullptr, first_state};
// clang-format off
const modelwheel_api api = {sizeof(modelwheel_api), MODELWHEEL_ABI_VERSION, "sums", "1.0", "{}", 1, inputs, 1, outputs,
                            2, batch_sizes, 1, "it keeps state between calls", 1, level_names, create, destroy, level,
                            error, run, run_batch_size, set_batch_rule, set_batch_strategy, batch_rule,
                            run_interruptible, 0, nullptr, nullptr, nullptr, run_length, 2, states, reset, get_state, set_state, copy_state, instance_bytes, create_in, rows_per_thread, set_threads, estimate, run_part, run_views};
// clang-format on

}  // namespace modelwheel

namespace {

using modelwheel::api;
using InstancePool = modelwheel::InstancePoolOf<modelwheel::AtomicSlot>;

struct State {
  std::int32_t count = -1;
  std::array<float, 2> sum{};

  bool operator==(const State &other) const { return count == other.count && sum == other.sum; }
};

using Handle = std::unique_ptr<modelwheel_model, void (*)(modelwheel_model *)>;

Handle make() { return modelwheel::make_instance(api); }

State read(const Handle &model) {
  State state;
  void *buffers[] = {&state.count, state.sum.data()};
  CHECK(api.get_state(model.get(), buffers) == MODELWHEEL_OK);
  return state;
}

modelwheel_status run(const Handle &model, std::vector<float> x) {
  std::vector<float> y(x.size());
  const void *in[] = {x.data()};
  void *out[] = {y.data()};
  return api.run(model.get(), x.size() / 2, in, out);
}

const State kFirst{3, {0, 0}};

void runs_change_the_state_of_their_instance() {
  const Handle one = make(), other = make();
  CHECK(read(one) == kFirst);
  CHECK(run(one, {1, 2}) == MODELWHEEL_OK && run(one, {1, 2, 3, 4, 5, 6, 7, 8}) == MODELWHEEL_OK);
  CHECK((read(one) == State{5, {17, 22}}));
  CHECK(read(other) == kFirst);
  CHECK(api.copy_state(other.get(), one.get()) == MODELWHEEL_OK && read(other) == read(one));
  CHECK(api.copy_state(one.get(), one.get()) == MODELWHEEL_OK);
  CHECK(api.reset(one.get()) == MODELWHEEL_OK && read(one) == kFirst);
  CHECK((read(other) == State{5, {17, 22}}));
}

void a_run_that_fails_leaves_the_state() {
  const Handle model = make();
  CHECK(run(model, {1, 2}) == MODELWHEEL_OK);
  const State before = read(model);
  fail_next = true;
  CHECK(run(model, {1, 2}) == MODELWHEEL_INTERNAL && read(model) == before);
  CHECK(run(model, {1, 2, 3, 4}) == MODELWHEEL_UNSUPPORTED && read(model) == before);  // two rows were not compiled
  CHECK(run(model, {}) == MODELWHEEL_OK && read(model) == before);
  CHECK(run(model, {1, 2}) == MODELWHEEL_OK && (read(model) == State{5, {2, 4}}));
}

void a_null_buffer_leaves_a_tensor_out() {
  const Handle model = make();
  const float sum[] = {7, 8};
  const void *given[] = {nullptr, sum};
  CHECK(api.set_state(model.get(), given) == MODELWHEEL_OK && (read(model) == State{3, {7, 8}}));
  std::int32_t count = -1;
  void *wanted[] = {&count, nullptr};
  CHECK(api.get_state(model.get(), wanted) == MODELWHEEL_OK && count == 3);
  CHECK(api.set_state(model.get(), nullptr) == MODELWHEEL_INVALID_ARGUMENT);
  CHECK(std::strstr(api.error(model.get()), "is null") != nullptr);
  CHECK(api.get_state(model.get(), nullptr) == MODELWHEEL_INVALID_ARGUMENT);
  CHECK(api.copy_state(model.get(), nullptr) == MODELWHEEL_INVALID_ARGUMENT);
  for (const modelwheel_status status : {api.reset(nullptr), api.set_state(nullptr, given),
                                         api.get_state(nullptr, wanted), api.copy_state(nullptr, model.get())})
    CHECK(status == MODELWHEEL_INVALID_ARGUMENT);
}

void the_class_for_any_model_checks_buffers() {
  modelwheel::Model model(api), other(api);
  CHECK(model.states().size() == 2 && std::strcmp(model.states()[1].name, "sum") == 0);
  std::vector<float> y(2), sum(2);
  std::array<std::int32_t, 1> count{};
  model.run(1, {std::vector<float>{1, 2}}, {y});
  model.get_state({count, sum});
  CHECK(count[0] == 4 && sum[1] == 2 && y[1] == 4);
  other.copy_state(model);
  model.reset();
  model.get_state({count, sum});
  CHECK(count[0] == 3 && sum[1] == 0);
  other.get_state({count, sum});
  CHECK(count[0] == 4 && sum[1] == 2);
  model.set_state({std::array<std::int32_t, 1>{9}, sum});
  model.get_state({count, sum});
  CHECK(count[0] == 9 && sum[1] == 2);
  CHECK(throws("expected 2 states, got 1", [&] { model.set_state({sum}); }));
  CHECK(throws("state 'sum' must be float32, got int32", [&] { model.get_state({count, count}); }));
  CHECK(throws("state 'sum' must have 2 elements, got 3", [&] { model.set_state({count, std::vector<float>(3)}); }));
}

void functions_have_variables_of_their_own() {
  using modelwheel::CompiledFunction;
  const std::shared_ptr<modelwheel_model> shared = make();
  const auto mode = CompiledFunction::AllocMode::ARGS_VARIABLES_RESULTS_PROFILES_AND_TEMPS;
  CompiledFunction one(api, 1, mode, shared), four(api, 4, mode, shared);
  const auto count = [](CompiledFunction &function) { return *static_cast<std::int32_t *>(function.variable_data(0)); };
  CHECK(one.num_variables() == 2 && one.LookupVariableIndex("sum") == 1 && one.variable_size(1) == 8);
  CHECK(std::strcmp(one.GetVariableName(0), "count") == 0 && one.GetVariableName(2) == nullptr);
  CHECK(one.Run() && one.Run() && four.Run());
  CHECK(count(one) == 5 && count(four) == 4);
  fail_next = true;
  CHECK(!one.Run() && count(one) == 5);
  std::int32_t own = 70;
  one.set_variable_data(0, &own);
  CHECK(one.Run() && own == 71);
  one.reset();
  CHECK(own == 3);
}

void one_instance_serves_one_call_at_a_time() {
  InstancePool pool(api, nullptr);
  std::atomic<int> ran{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&pool, &ran] {
      for (int i = 0; i < 200; ++i) try {
          const InstancePool::Loan model = pool.lend();
          const float x[] = {1, 2};
          float y[2];
          const void *in[] = {x};
          void *out[] = {y};
          ran += api.run_batch_size(model.get(), 1, in, out) == MODELWHEEL_OK ? 1 : 0;
        } catch (const modelwheel::Error &) {
        }
    });
  for (std::thread &thread : threads) thread.join();
  const InstancePool::Loan model = pool.lend();
  std::int32_t count = 0;
  void *buffers[] = {&count, nullptr};
  CHECK(api.get_state(model.get(), buffers) == MODELWHEEL_OK && ran > 0 && count == 3 + ran);
  CHECK(throws("sums: another call is under way", [&] { pool.lend(); }));
}

void a_library_from_before_states_has_none() {
  modelwheel_api old = api;
  old.struct_size = offsetof(modelwheel_api, num_states);
  CHECK(modelwheel::is_compatible(old) && modelwheel::num_states(old) == 0 && modelwheel::num_states(api) == 2);
}

}  // namespace

int main() {
  runs_change_the_state_of_their_instance();
  a_run_that_fails_leaves_the_state();
  a_null_buffer_leaves_a_tensor_out();
  the_class_for_any_model_checks_buffers();
  functions_have_variables_of_their_own();
  one_instance_serves_one_call_at_a_time();
  a_library_from_before_states_has_none();
  return check_report();
}
