// Threads that share the rows of one evaluation. Runs under the thread sanitizer too.
#define MODELWHEEL_LEVEL any_level

#ifndef _WIN32
#include <sys/wait.h>
#include <unistd.h>
#endif

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "bindings/parts.h"
#include "bindings/recent_calls.h"
#include "bindings/thread_pool.h"
#include "check.h"
#include "kernels/parts/branches.h"
#include "toy_model.h"

namespace {

using modelwheel::Evaluation;
using modelwheel::ThreadPool;

void test_every_part_is_done_once() {
  for (const std::size_t workers : {0, 1, 3}) {
    ThreadPool pool(workers);
    for (const std::size_t parts : {1, 2, 4, 100}) {
      std::vector<std::atomic<int>> done(parts);
      pool.run(parts, [&done](std::size_t i) noexcept { ++done[i]; }, []() noexcept {});
      for (const std::atomic<int> &count : done) CHECK(count == 1);
    }
  }
}

void test_several_callers_share_a_pool() {
  ThreadPool pool(2);
  std::atomic<int> done{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller)
    callers.emplace_back([&pool, &done] {
      for (int i = 0; i < 100; ++i) {
        int mine[3] = {};
        pool.run(3, [&mine](std::size_t part) noexcept { ++mine[part]; }, []() noexcept {});
        done += mine[0] + mine[1] + mine[2];
      }
    });
  for (std::thread &caller : callers) caller.join();
  CHECK(done == 900);
}

/// Another thread has the second part until `idle` was called.
void test_who_waits_is_called() {
  ThreadPool pool(1);
  std::atomic<int> began{0};
  std::atomic<bool> called{false};
  const std::thread::id owner = std::this_thread::get_id();
  pool.run(
      2,
      [&](std::size_t) noexcept {
        ++began;
        while (began != 2) std::this_thread::yield();
        while (!called && std::this_thread::get_id() != owner) std::this_thread::yield();
      },
      [&called]() noexcept { called = true; });
  CHECK(called);
}

void test_threads_are_awake_for_a_while() {
  modelwheel::LazyThreadPool lazy(3);
  CHECK(lazy.find() == nullptr);
  ThreadPool &pool = lazy.get();
  CHECK(lazy.find() == &pool && !pool.is_awake());  // no thread has started
  pool.run(2, [](std::size_t) noexcept {}, []() noexcept {});
  while (pool.is_awake()) std::this_thread::yield();
  std::atomic<int> done{0};
  pool.run(2, [&done](std::size_t) noexcept { ++done; }, []() noexcept {});
  CHECK(done == 2);
}

/// Times of calls of a pretended model.
class Pretended {
 public:
  /// Whether threads would be woken for a call after a pause; then it takes `woken` microseconds, and else `alone`.
  bool call(double cost, int pause, int alone, int woken) {
    now_ += std::chrono::microseconds(pause);
    const bool wakes = calls_.pays(1e3 * cost, now_);
    const auto began = now_;
    now_ += std::chrono::microseconds(wakes ? woken : alone);
    calls_.add(1e3 * cost, began, now_, wakes ? 2 : 1);
    return wakes;
  }

 private:
  modelwheel::RecentCalls calls_;
  modelwheel::RecentCalls::Time now_{std::chrono::hours(1)};
};

void test_long_calls_wake_threads() {
  constexpr int kPause = 1000;
  Pretended exact, low, high;
  for (int i = 0; i < 4; ++i) {
    CHECK(!exact.call(66, kPause, 66, 86));
    CHECK(exact.call(500, kPause, 500, 300));
  }
  // Estimates are right up to a factor, which the first calls show.
  CHECK(high.call(280, kPause, 66, 86));
  CHECK(!high.call(280, kPause, 66, 86) && !high.call(280, kPause, 66, 86));
  CHECK(high.call(2800, kPause, 660, 400) && !high.call(280, kPause, 66, 86));
  CHECK(!low.call(50, kPause, 300, 180));
  CHECK(low.call(50, kPause, 300, 180) && low.call(50, kPause, 300, 180) && low.call(40, kPause, 240, 150));
}

void test_calls_in_a_row_wake_threads() {
  Pretended calls;
  CHECK(!calls.call(66, 1000, 66, 86) && calls.call(66, 50, 66, 86) && !calls.call(66, 1000, 66, 86));
}

/// A call that took long because the machine was busy wakes threads once.
void test_a_delay_is_forgotten() {
  Pretended calls;
  CHECK(!calls.call(66, 1000, 5000, 86) && calls.call(66, 1000, 66, 86) && !calls.call(66, 1000, 66, 86));
}

void test_calls_of_unknown_cost_wake_threads() {
  Pretended calls;
  CHECK(calls.call(0, 1000, 66, 86) && calls.call(0, 1000, 66, 86));
}

#if !defined(_WIN32) && !defined(__SANITIZE_THREAD__)  // the sanitizer has no threads in the child
void test_the_child_of_a_fork_has_threads_of_its_own() {
  modelwheel::LazyThreadPool lazy(2);
  std::atomic<int> done{0};
  const auto count = [&done](std::size_t) noexcept { ++done; };
  lazy.get().run(2, count, []() noexcept {});
  const pid_t child = fork();
  if (child == 0) {
    if (lazy.find() != nullptr) _exit(1);
    lazy.get().run(2, count, []() noexcept {});
    _exit(done == 4 ? 0 : 1);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(done == 2);
}
#endif

struct Rows {
  std::vector<float> x, y;
  std::vector<std::int32_t> n;
  bool positive[64] = {};
  std::vector<std::int64_t> pair;
  const void *inputs[2];
  void *outputs[3];

  explicit Rows(std::size_t rows) : x(2 * rows), y(2 * rows), n(rows), pair(2 * rows) {
    for (std::size_t i = 0; i < 2 * rows; ++i) x[i] = static_cast<float>(i * i % 17);
    for (std::size_t i = 0; i < rows; ++i) n[i] = static_cast<std::int32_t>(i) - 3;
    inputs[0] = x.data(), inputs[1] = n.data();
    outputs[0] = y.data(), outputs[1] = positive, outputs[2] = pair.data();
  }
};

/// Runs in parts on instances of the toy model; returns the status. Without a pool, one instance runs all.
modelwheel_status run_parts_on(ThreadPool *pool, Rows &rows, std::size_t per_part, modelwheel_interrupt interrupt,
                               void *context) {
  const modelwheel::LengthTable lengths(toy_api());
  const Evaluation all{rows.n.size(), 0, rows.inputs, rows.outputs, interrupt, context};
  modelwheel::PartedEvaluation evaluation(toy_api(), lengths, all, per_part);
  std::vector<modelwheel::Instance> instances;
  std::vector<modelwheel_model *> models;
  for (std::size_t i = 0; i < modelwheel::count_parts(rows.n.size(), per_part); ++i) {
    if (i == 0 || pool != nullptr) instances.push_back(modelwheel::make_instance(toy_api()));
    models.push_back(instances.back().get());
  }
  return evaluation.run(pool, models, 1).first;
}

modelwheel_status run_parts(Rows &rows, std::size_t per_part, modelwheel_interrupt interrupt, void *context) {
  ThreadPool pool(2);
  return run_parts_on(&pool, rows, per_part, interrupt, context);
}

void test_parts_give_what_the_whole_gives() {
  for (const std::size_t rows : {2, 5, 64})
    for (const std::size_t per_part : {std::size_t{1}, std::size_t{3}, rows - 1, rows}) {
      Rows whole(rows), parted(rows), in_order(rows);
      const modelwheel::Instance model = modelwheel::make_instance(toy_api());
      CHECK(toy_api().run(model.get(), rows, whole.inputs, whole.outputs) == MODELWHEEL_OK);
      CHECK(run_parts(parted, per_part, nullptr, nullptr) == MODELWHEEL_OK);
      CHECK(run_parts_on(nullptr, in_order, per_part, nullptr, nullptr) == MODELWHEEL_OK);
      for (const Rows *other : {&parted, &in_order}) {
        CHECK(other->y == whole.y && other->pair == whole.pair);
        for (std::size_t i = 0; i < rows; ++i) CHECK(other->positive[i] == whole.positive[i]);
      }
    }
}

/// Fails in whichever part this thread does first; on a busy machine others may do all of them.
void test_a_part_that_fails() {
  Rows rows(64);
  toy_fail_next = true;
  while (toy_fail_next) {
    const modelwheel_status status = run_parts(rows, 2, nullptr, nullptr);
    CHECK(status == (toy_fail_next ? MODELWHEEL_OK : MODELWHEEL_INTERNAL));
  }
  toy_fail_next = true;
  CHECK(run_parts_on(nullptr, rows, 2, nullptr, nullptr) == MODELWHEEL_INTERNAL && !toy_fail_next);
}

void test_only_the_caller_is_asked_whether_to_end() {
  struct Asked {
    std::thread::id owner = std::this_thread::get_id();
    bool here = false, elsewhere = false;
  } asked;
  const auto end = [](void *context) {
    auto *found = static_cast<Asked *>(context);
    found->here = true;
    found->elsewhere |= std::this_thread::get_id() != found->owner;
    return 1;
  };
  Rows rows(64);
  // Others may do all parts before this thread asks.
  while (!asked.here) {
    const modelwheel_status status = run_parts(rows, 32, end, &asked);
    CHECK(status == (asked.here ? MODELWHEEL_INTERRUPTED : MODELWHEEL_OK));
  }
  CHECK(!asked.elsewhere);
}

void test_rows_are_split_where_it_pays() {
  const modelwheel::Instance instance = modelwheel::make_instance(toy_api());
  modelwheel_model *model = instance.get();
  const auto split = [model](std::size_t rows, std::size_t threads) {
    return toy_api().rows_per_thread(model, rows, 0, threads);
  };
  CHECK(split(0, 4) == 0 && split(1, 4) == 1);
  CHECK(split(16, 1) == 16 && split(16, 0) == 16 && split(16, 2) == 8 && split(16, 4) == 4);
  CHECK(split(2, 2) == 1);  // 1 and the cost of another thread instead of 1.5 for two rows
  CHECK(split(4, 2) == 4 && split(4, 4) == 4 && split(3, 2) == 3);  // four rows share their step
  CHECK(split(5, 2) == 3);                                          // as many as four rows cost
  CHECK(toy_api().set_batch_rule(model, "16:4,4,4,4") == MODELWHEEL_OK && split(16, 2) == 8);
  CHECK(toy_api().rows_per_thread(model, 16, 7, 2) == 16);  // no such length
  CHECK(toy_api().rows_per_thread(nullptr, 16, 0, 2) == 16);
}

void test_calls_are_estimated() {
  const modelwheel::Instance instance = modelwheel::make_instance(toy_api());
  modelwheel_model *model = instance.get();
  const double one = toy_api().estimate(model, 1, 0, 1);
  CHECK(one > 0.0 && toy_api().estimate(model, 0, 0, 1) == 0.0 && toy_api().estimate(model, 16, 0, 1) > one);
  CHECK(toy_api().estimate(model, 1, 7, 1) == 0.0);  // no such length
  CHECK(toy_api().estimate(nullptr, 1, 0, 1) == 0.0);
}

void test_threads_are_estimated_to_gain_what_they_share() {
  const modelwheel::Instance instance = modelwheel::make_instance(toy_api());
  const auto estimate = [&](std::size_t rows, std::size_t threads) {
    return toy_api().estimate(instance.get(), rows, 0, threads);
  };
  for (const std::size_t threads : {0, 1, 2, 4}) {
    CHECK(estimate(0, threads) == 0.0);
    CHECK(estimate(1, threads) == estimate(1, 1));  // has no step to share
  }
  const double one = estimate(4, 1), two = estimate(4, 2), four = estimate(4, 4);
  CHECK(two > 0.6 * one && two < 0.75 * one);  // 0.8 of it is shared
  CHECK(four > 0.4 * one && four < two);
  CHECK(estimate(16, 2) < 2 * one + two);  // two rows of four for each thread
  CHECK(estimate(16, 4) < estimate(16, 2));
}

void test_threads_share_the_steps_of_a_run() {
  const modelwheel::Instance instance = modelwheel::make_instance(toy_api());
  Rows alone(64), shared(64);
  CHECK(toy_api().run(instance.get(), 64, alone.inputs, alone.outputs) == MODELWHEEL_OK);
  ThreadPool pool(3);
  modelwheel::share_steps(toy_api(), instance.get(), 4, &pool);
  for (int i = 0; i < 50; ++i) {
    if (i == 40) modelwheel::share_steps(toy_api(), instance.get(), 4, nullptr);
    CHECK(toy_api().run(instance.get(), 64, shared.inputs, shared.outputs) == MODELWHEEL_OK);
    CHECK(shared.y == alone.y && shared.pair == alone.pair);
  }
}

/// An older library's table ends before.
void test_steps_of_an_older_library_are_not_shared() {
  modelwheel_api older = toy_api();
  older.struct_size = offsetof(modelwheel_api, set_threads);
  older.set_threads = nullptr;
  ThreadPool pool(1);
  modelwheel::share_steps(older, nullptr, 2, &pool);
}

/// Each branch fills scratch memory, which no other has at the same time.
void test_branches_run_once_with_memory_of_their_own() {
  namespace level = modelwheel::MODELWHEEL_LEVEL;
  constexpr std::size_t kBytes = 4096;
  ThreadPool pool(2);
  std::vector<char> scratch(3 * kBytes), alone(kBytes);
  for (const std::size_t count : {1, 2, 3})
    for (const std::int64_t branches : {2, 3, 5}) {
      const modelwheel::Threads threads{count, modelwheel::run_on_threads, &pool, scratch.data(), kBytes};
      for (const std::int64_t fails : {-1, 0, 1}) {
        std::vector<int> done(static_cast<std::size_t>(branches));
        const auto branch = [&](std::int64_t i, const modelwheel::Threads &own, char *memory) {
          CHECK(own.count == 1);
          std::memset(memory, static_cast<int>(i), kBytes);
          for (std::size_t byte = 0; byte < kBytes; ++byte) CHECK(memory[byte] == static_cast<char>(i));
          ++done[static_cast<std::size_t>(i)];
          return i != fails;
        };
        CHECK(level::run_branches({threads, branches}, 1, branch, alone.data()) == (fails < 0));
        for (const int times : done) CHECK(times == 1 || (times == 0 && fails >= 0));
      }
    }
}

void test_more_threads_than_branches_share_their_steps() {
  namespace level = modelwheel::MODELWHEEL_LEVEL;
  ThreadPool pool(3);
  char scratch[4] = {}, whole = 0;
  for (const std::size_t count : {2, 3, 4})
    for (const std::int64_t parts : {1, 2, 3}) {
      const modelwheel::Threads threads{count, modelwheel::run_on_threads, &pool, scratch, 1};
      const bool by_steps = count > 2 && parts > 2;
      std::atomic<int> done{0};
      const auto branch = [&](std::int64_t, const modelwheel::Threads &own, char *memory) {
        CHECK(own.count == (by_steps ? count : 1) && (memory == &whole) == by_steps);
        return ++done > 0;
      };
      CHECK(level::run_branches({threads, 2}, parts, branch, &whole) && done == 2);
    }
}

}  // namespace

int main() {
  test_every_part_is_done_once();
  test_several_callers_share_a_pool();
  test_who_waits_is_called();
  test_threads_are_awake_for_a_while();
  test_long_calls_wake_threads();
  test_calls_in_a_row_wake_threads();
  test_a_delay_is_forgotten();
  test_calls_of_unknown_cost_wake_threads();
#if !defined(_WIN32) && !defined(__SANITIZE_THREAD__)
  test_the_child_of_a_fork_has_threads_of_its_own();
#endif
  test_parts_give_what_the_whole_gives();
  test_a_part_that_fails();
  test_only_the_caller_is_asked_whether_to_end();
  test_rows_are_split_where_it_pays();
  test_calls_are_estimated();
  test_threads_are_estimated_to_gain_what_they_share();
  test_threads_share_the_steps_of_a_run();
  test_steps_of_an_older_library_are_not_shared();
  test_branches_run_once_with_memory_of_their_own();
  test_more_threads_than_branches_share_their_steps();
  return check_report();
}
