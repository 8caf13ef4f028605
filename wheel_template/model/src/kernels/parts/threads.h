// src/kernels/parts/threads.h - the threads of the caller that share the steps of a run.
#pragma once

#include <cstddef>

#include "kernels/base/thresholds.h"

namespace modelwheel {

/// Most of them: for as many parts the generated code knows the scratch memory.
inline constexpr std::size_t kMostThreads = kMostParts;

struct Threads {
  std::size_t count;
  /// A modelwheel_parallel_for, and what it takes first.
  void (*run)(void *context, std::size_t parts, void (*task)(void *argument, std::size_t part), void *argument);
  void *context;
  /// Scratch memory of the parts of a step, so many bytes for each.
  char *scratch;
  std::size_t part_bytes;
};

}  // namespace modelwheel
