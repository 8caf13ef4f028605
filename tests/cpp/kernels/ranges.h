// ranges.h - whether ranges of a result, each computed by itself, have the bits of the whole.
#pragma once

#include <cmath>
#include <cstring>

#include "check.h"
#include "kernels/parts/shared.h"
#include "modelwheel/abi.h"
#include "random.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Cuts [0, size) into one to five ranges, and calls `compute` with each; it returns false if it must not be computed.
template <class Compute>
bool in_ranges(Random &random, std::int64_t size, const Compute &compute) {
  const std::int64_t count = divide_up(size, random.integer(1, 5));
  for (std::int64_t first = 0; first < size; first += count)
    if (!compute(Range{first, smaller_of(first + count, size)})) return false;
  return true;
}

/// Compares results, what lies between their elements included.
template <class T>
void check_same_bits(const Buffer<T> &whole, const Buffer<T> &parts) {
  CHECK(std::memcmp(whole.data(), parts.data(), static_cast<std::size_t>(whole.size()) * sizeof(T)) == 0);
}

/// Two to nine threads that are one: it does the parts from the last to the first. The scratch memory of a part has
/// `part_bytes(most)` bytes, and ends before that of another.
class OneThread {
 public:
  template <class Bytes>
  OneThread(Random &random, const Bytes &part_bytes)
      : most_(random.integer(2, 9)),
        bytes_(part_bytes(most_)),
        scratch_(most_ * static_cast<std::int64_t>(bytes_)),
        threads_{static_cast<std::size_t>(most_), run, nullptr, scratch_.data(), bytes_} {}

  Shared shared() const { return {threads_, most_}; }

 private:
  static void run(void *, std::size_t parts, modelwheel_task task, void *argument) {
    while (parts-- > 0) task(argument, parts);
  }

  std::int64_t most_;
  std::size_t bytes_;
  Buffer<char> scratch_;
  Threads threads_;
};

}  // namespace modelwheel::MODELWHEEL_LEVEL
