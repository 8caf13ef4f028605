// What C and C++ callers get while one allocation after the other fails, also that of a thread: a status or an
// exception, and the right results from the next call.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>
#include <vector>

#include "PhysicsTools/TensorFlowAOT/interface/Model.h"
#include "bindings/instance_pool.h"
#include "bindings/parts.h"
#include "bindings/thread_pool.h"
#include "check.h"
#include "toy_functions.h"

extern "C" {  // tests/support/allocations.c
void allocations_fail(long nth, int all_after);
int allocations_end(void);
}

namespace {

enum class Outcome { kDone, kOutOfMemory, kOther };

/// What came of an action while the allocation `nth` fails, and whether there was one.
std::pair<Outcome, bool> starve(const std::function<bool()> &action, long nth, bool all_after) {
  Outcome outcome = Outcome::kOther;
  allocations_fail(nth, all_after ? 1 : 0);
  try {
    if (action()) outcome = Outcome::kDone;
  } catch (const std::bad_alloc &) {
    outcome = Outcome::kOutOfMemory;
  } catch (const modelwheel::Error &error) {
    if (error.status() == MODELWHEEL_OUT_OF_MEMORY) outcome = Outcome::kOutOfMemory;
  }
  return {outcome, allocations_end() != 0};
}

/// Checks that `action` does what it should, or says that there is no memory, whichever allocation fails, and that it
/// works afterwards.
void check_each(const char *name, const std::function<bool()> &action) {
  CHECK(action());
  for (const bool all_after : {false, true})
    for (long nth = 0;; ++nth) {
      const auto [outcome, happened] = starve(action, nth, all_after);
      if (outcome == Outcome::kOther) std::printf("  %s, allocation %ld\n", name, nth);
      CHECK(outcome != Outcome::kOther && (happened || outcome == Outcome::kDone));
      CHECK(action());
      if (!happened) break;
    }
}

struct Rows {
  std::vector<float> x, y;
  std::vector<std::int32_t> n;
  std::vector<char> positive;
  std::vector<std::int64_t> pair;
  const void *inputs[2];
  void *outputs[3];

  explicit Rows(std::size_t rows) : x(2 * rows), y(2 * rows), n(rows), positive(rows), pair(2 * rows) {
    for (std::size_t i = 0; i < rows; ++i) n[i] = static_cast<std::int32_t>(i);
    inputs[0] = x.data(), inputs[1] = n.data();
    outputs[0] = y.data(), outputs[1] = positive.data(), outputs[2] = pair.data();
  }

  /// Whether the results are right; forgets them.
  bool are_right() {
    bool right = true;
    for (std::size_t i = 0; i < n.size(); ++i) {
      right = right && y[2 * i] == static_cast<float>(n[i]) && pair[2 * i + 1] == -n[i];
      y[2 * i] = -1;
      pair[2 * i + 1] = 1;
    }
    return right;
  }
};

/// Turns the status of a call in C into what `starve` knows.
bool done(modelwheel_status status) {
  if (status == MODELWHEEL_OUT_OF_MEMORY) throw std::bad_alloc();
  return status == MODELWHEEL_OK;
}

/// An executor that makes a thread for each part, and does the part itself where that fails.
void run_on_new_threads(void *, std::size_t parts, modelwheel_task task, void *argument) {
  std::thread threads[16];
  for (std::size_t i = 0; i < parts; ++i) try {
      threads[i] = std::thread(task, argument, i);
    } catch (const std::exception &) {
      task(argument, i);
    }
  for (std::thread &thread : threads)
    if (thread.joinable()) thread.join();
}

void test_calls_in_c() {
  Rows rows(64);
  check_each("C", [&rows] {
    modelwheel_model *model = nullptr;
    char sentence[200];
    if (!done(toy_api().create(nullptr, &model, sentence, sizeof sentence))) return false;
    const modelwheel::Instance owned(model, toy_api().destroy);
    for (int rule = 5; rule < 200; ++rule)  // more than there is room for at first
      if (!done(toy_api().set_batch_rule(model, (std::to_string(rule) + ":4,1").c_str())) && rule == 5) return false;
    return done(toy_api().set_threads(model, 4, run_on_new_threads, nullptr)) &&
           done(toy_api().run(model, 64, rows.inputs, rows.outputs)) && rows.are_right();
  });
}

void test_classes_of_cpp() {
  Rows rows(5);
  check_each("Model", [&rows] {
    model_toy::Model model;
    model.set_batch_rule("5:2,2,2");
    const auto outputs = model({rows.x.data(), rows.x.size()}, {rows.n.data(), rows.n.size()});
    return model.batch_rule(5) == "5:2,2,2" && outputs.y[8] == 4 && outputs.pair[9] == -4;
  });
  check_each("CompiledFunction", [] {
    tfaot_model::toy_bs2 function;
    function.arg_n(0) = 3, function.arg_n(1) = 4;
    return function.Run() && function.result0(1, 0) == 4;
  });
  check_each("CompiledFunction that fails", [] {
    tfaot_model::toy_bs2 function(tfaot_model::toy_bs2::AllocMode::RESULTS_PROFILES_AND_TEMPS_ONLY);
    return !function.Run() && function.error_msg().find("input 'x'") != std::string::npos;
  });
  check_each("tfaot::Model", [] {
    tfaot::Model<tfaot_model::toy> model;
    const tfaot::FloatArrays x(3, {0, 0});
    const tfaot::Int32Arrays n(3, {7});
    const auto outputs = model.run<tfaot::FloatArrays, tfaot::BoolArrays, tfaot::Int64Arrays>(3, x, n);
    return std::get<0>(outputs)[2][1] == 7;
  });
}

void test_rows_in_parts() {
  Rows rows(64);
  const modelwheel::LengthTable lengths(toy_api());
  std::vector<modelwheel::Instance> instances;
  std::vector<modelwheel_model *> models;
  for (int i = 0; i < 8; ++i) {
    instances.push_back(modelwheel::make_instance(toy_api()));
    models.push_back(instances.back().get());
  }
  modelwheel::ThreadPool kept(2);
  for (const bool is_new : {false, true})
    check_each("rows in parts", [&, is_new] {
      std::unique_ptr<modelwheel::ThreadPool> own;
      if (is_new) own = std::make_unique<modelwheel::ThreadPool>(2);
      const modelwheel::Evaluation all{64, 0, rows.inputs, rows.outputs, nullptr, nullptr};
      modelwheel::PartedEvaluation evaluation(toy_api(), lengths, all, 8);
      return done(evaluation.run(is_new ? own.get() : &kept, models, 4).first) && rows.are_right();
    });
}

/// Of the same model for several threads: a rule holds for all instances, or for none.
void test_rules_of_several_instances() {
  using Pool = modelwheel::InstancePoolOf<modelwheel::AtomicSlot>;
  for (const bool all_after : {false, true})
    for (long nth = 0;; ++nth) {
      Pool pool(toy_api(), nullptr);
      {
        const Pool::Loan first = pool.lend(), second = pool.lend();
      }
      const auto set = [&pool] {
        pool.set_batch_rule("3:1,1,1");
        return true;
      };
      const auto [outcome, happened] = starve(set, nth, all_after);
      const Pool::Loan first = pool.lend(), second = pool.lend(), third = pool.lend();
      const std::string rule = modelwheel::batch_rule(toy_api(), first.get(), 3);
      if (outcome == Outcome::kDone) CHECK(rule == "3:1,1,1");
      for (const Pool::Loan *loan : {&second, &third}) CHECK(modelwheel::batch_rule(toy_api(), loan->get(), 3) == rule);
      if (!happened) break;
    }
}

}  // namespace

int main() {
  test_calls_in_c();
  test_classes_of_cpp();
  test_rows_in_parts();
  test_rules_of_several_instances();
  return check_report();
}
