// Parts of work, and the steps of a model, on the threads of a tbb::task_arena.
#include <cstdio>

#if __has_include(<tbb/task_arena.h>)

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "check.h"
#include "modelwheel/model.hpp"
#include "modelwheel/tbb.hpp"
#include "toy_functions.h"

namespace {

void count(void *argument, std::size_t part) { ++(*static_cast<std::vector<std::atomic<int>> *>(argument))[part]; }

void every_part_is_done_once() {
  tbb::task_arena arena(3);
  for (int turn = 0; turn < 100; ++turn)
    for (const std::size_t parts : {1, 2, 4, 16}) {
      std::vector<std::atomic<int>> done(parts);
      modelwheel::run_in_arena(&arena, parts, count, &done);
      for (const std::atomic<int> &one : done) CHECK(one == 1);
    }
}

/// Each part ends only when both have begun.
void threads_of_the_arena_work() {
  tbb::task_arena arena(2);
  std::atomic<int> began{0};
  const modelwheel_task meet = [](void *argument, std::size_t) {
    auto &here = *static_cast<std::atomic<int> *>(argument);
    ++here;
    while (here != 2) std::this_thread::yield();
  };
  modelwheel::run_in_arena(&arena, 2, meet, &began);
  CHECK(began == 2);
}

/// A call from inside, where all other threads may be busy.
void a_thread_of_the_arena_may_call() {
  tbb::task_arena arena(1);
  arena.execute([&arena] {
    std::vector<std::atomic<int>> done(8);
    modelwheel::run_in_arena(&arena, 8, count, &done);
    for (const std::atomic<int> &one : done) CHECK(one == 1);
  });
}

std::vector<float> results(modelwheel::Model &model) {
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<std::int32_t> n = {1, 0, -1, 3};
  std::vector<float> y(8);
  modelwheel::AlignedVector<bool> positive(4);
  std::vector<std::int64_t> pair(8);
  model.run(4, {x, n}, {y, positive, pair});
  return y;
}

void a_model_gives_the_same() {
  tbb::task_arena arena(4);
  model_toy::Model alone, shared;
  modelwheel::use_threads(shared, arena);
  CHECK(results(shared) == results(alone));
  shared.set_threads(1, nullptr, nullptr);
  CHECK(results(shared) == results(alone));
}

}  // namespace

int main() {
  every_part_is_done_once();
  threads_of_the_arena_work();
  a_thread_of_the_arena_may_call();
  a_model_gives_the_same();
  return check_report();
}

#else

int main() {
  std::puts("libtbb-dev is not installed");
  return 77;
}

#endif
