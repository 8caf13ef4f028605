// modelwheel/tbb.hpp - the threads of a tbb::task_arena as those that share the large steps of a run.
//
//   tbb::task_arena arena(4);
//   modelwheel::use_threads(model, arena);  // a model_digits::Model, say
#ifndef MODELWHEEL_TBB_HPP
#define MODELWHEEL_TBB_HPP

#include <tbb/task_arena.h>

#include <cstddef>
#include <utility>

#include "modelwheel/thread_pool.hpp"

namespace modelwheel {

/// A modelwheel_parallel_for whose context is a tbb::task_arena, from any thread, one of the arena's too.
inline void run_in_arena(void *context, std::size_t parts, modelwheel_task task, void *argument) {
  auto &arena = *static_cast<tbb::task_arena *>(context);
  share_work(parts, task, argument, [&arena](auto work) { arena.enqueue(std::move(work)); });
}

/// Lets the threads of an arena share the large steps of each run, where that pays; results have the same bits. The
/// arena must live until the model has other threads, or is destroyed.
template <class Model>
void use_threads(Model &model, tbb::task_arena &arena) {
  model.set_threads(static_cast<std::size_t>(arena.max_concurrency()), run_in_arena, &arena);
}

}  // namespace modelwheel

#endif  // MODELWHEEL_TBB_HPP
