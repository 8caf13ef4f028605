// src/kernels/parts/shared.h - steps of a run in parts, for the threads of the caller.
#pragma once

#include "kernels/base/level.h"
#include "kernels/parts/threads.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// The threads of a run, for a step of which at most `most` parts are worth a thread each.
struct Shared {
  const Threads &threads;
  std::int64_t most;

  std::int64_t parts() const {
    return smaller_of(static_cast<std::int64_t>(threads.count), smaller_of(most, kMostParts));
  }

  /// Calls part(i, its scratch memory) for each i < count, on any of the threads.
  template <class Part>
  void run(std::int64_t count, const Part &part) const {
    Task<Part> task{part, threads};
    threads.run(threads.context, static_cast<std::size_t>(count), Task<Part>::run, &task);
  }

 private:
  /// A function, not a lambda: of one that becomes a pointer, GCC 8 keeps a copy that nobody calls.
  template <class Part>
  struct Task {
    const Part &part;
    const Threads &threads;

    static void run(void *argument, std::size_t i) {
      const Task &of = *static_cast<const Task *>(argument);
      of.part(static_cast<std::int64_t>(i), of.threads.scratch + i * of.threads.part_bytes);
    }
  };
};

}  // namespace modelwheel::MODELWHEEL_LEVEL
