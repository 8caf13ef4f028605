// src/kernels/branches.h - branches of a program that need nothing of each other, for the threads of the caller.
#pragma once

#include "parts.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Calls branch(i, scratch memory) for each i < shared.most, in order or on the threads: some of them on each. Whether
/// all have succeeded. The scratch memory is for the case that they run in order.
template <class Branch>
MODELWHEEL_NOINLINE bool run_branches(const Shared &shared, const Branch &branch, char *scratch) {
  const auto some = [&](std::int64_t first, std::int64_t step, char *memory) {
    bool done = true;
    for (std::int64_t i = first; done && i < shared.most; i += step) done = branch(i, memory);
    return done;
  };
  const std::int64_t parts = shared.parts();
  if (parts < 2) return some(0, 1, scratch);
  bool done[kMostParts];
  shared.run(parts, [&](std::int64_t i, void *memory) { done[i] = some(i, parts, static_cast<char *>(memory)); });
  bool all = true;
  for (std::int64_t i = 0; i < parts; ++i) all = all && done[i];
  return all;
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
