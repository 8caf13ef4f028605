// src/kernels/parts/branches.h - branches of a program that need nothing of each other, for the threads of the caller.
#pragma once

#include "kernels/parts/shared.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Calls branch(i, its threads, its scratch memory) for each i < shared.most. Whether all have succeeded.
///
/// Each thread takes the next branch when it has done one. Where there are more threads than branches, and steps with
/// parts for more of them, all threads share the steps of one branch after the other; `scratch` is for this and for a
/// single thread.
template <class Branch>
MODELWHEEL_NOINLINE bool run_branches(const Shared &shared, std::int64_t parts_of_steps, const Branch &branch,
                                      char *scratch) {
  std::int64_t next = 0;
  const auto some = [&](const Threads &threads, char *memory) {
    bool done = true;
    for (std::int64_t i; done && (i = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED)) < shared.most;)
      done = branch(i, threads, memory);
    return done;
  };
  const Threads alone{1, nullptr, nullptr, nullptr, 0};
  const std::int64_t count = shared.parts();
  const bool by_steps = static_cast<std::int64_t>(shared.threads.count) > shared.most && parts_of_steps > shared.most;
  if (count < 2 || by_steps) return some(shared.threads, scratch);
  bool done[kMostParts] = {};
  shared.run(count, [&](std::int64_t i, void *memory) { done[i] = some(alone, static_cast<char *>(memory)); });
  bool all = true;
  for (std::int64_t i = 0; i < count; ++i) all = all && done[i];
  return all;
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
