// src/steps.h - what the generated straight-line functions use in addition to the kernels.
//
// The generated files are compiled with the instructions of their level. Everything here is `static`, so that each
// keeps its own copy: an inline function would be merged by the linker, and a baseline CPU might run the copy of v4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "memory.h"
#include "program.h"

namespace modelwheel {

/// Runs a kernel over all its work groups; true on success.
template <std::size_t N>
static bool call(Kernel *kernel, const KernelArgument (&arguments)[N], WorkGroups count = {1, 1, 1}) {
  for (WorkGroups id{0, 0, 0}; id.z < count.z; ++id.z)
    for (id.y = 0; id.y < count.y; ++id.y)
      for (id.x = 0; id.x < count.x; ++id.x) {
        const KernelFrame frame{&count, &id, N, arguments};
        if (kernel(&frame) != nullptr) return false;
      }
  return true;
}

/// The branch that XLA's conditional takes: a predicate selects branch 0 when true; an index out of range the last.
[[maybe_unused]] static std::int32_t branch_of(const char *index, std::size_t index_bytes, std::int32_t branches) {
  if (index_bytes == 1) return *index != 0 ? 0 : 1;
  std::int32_t value;
  std::memcpy(&value, index, sizeof value);
  return value >= 0 && value < branches ? value : branches - 1;
}

/// The caller's buffer of an input; it is never written.
[[maybe_unused]] static char *input(const void *buffer) { return static_cast<char *>(const_cast<void *>(buffer)); }

/// A copy of a tensor of the state, which becomes its next value.
[[maybe_unused]] static char *state(const void *buffer) { return static_cast<char *>(const_cast<void *>(buffer)); }

/// The caller's buffer of an output.
[[maybe_unused]] static char *output(void *buffer) { return static_cast<char *>(buffer); }

/// A constant, by its offset in the weights; it is never written.
#ifdef MODELWHEEL_EXPANDED_WEIGHTS
[[maybe_unused]] static char *constant(std::size_t offset) { return modelwheel_expanded_weights + offset; }
#else
[[maybe_unused]] static char *constant(std::size_t offset) { return const_cast<char *>(modelwheel_weights) + offset; }
#endif

/// Memory seen as elements.
template <class T>
static T *as(char *memory) {
  return reinterpret_cast<T *>(memory);
}

/// Bytes of scratch memory that a gap of `size` does not hold.
[[maybe_unused]] static constexpr std::size_t beyond(std::size_t size, std::size_t needed) {
  return needed > size ? needed : 0;
}

/// Scratch memory of `needed` bytes: a gap of `size` between values, if it is large enough.
[[maybe_unused]] static char *gap_or(std::size_t size, std::size_t needed, char *gap, char *scratch) {
  return needed > size ? scratch : gap;
}

/// The larger of two sizes.
[[maybe_unused]] static constexpr std::size_t larger(std::size_t a, std::size_t b) { return a > b ? a : b; }

}  // namespace modelwheel
