// ranges.h - whether ranges of a result, each computed by itself, have the bits of the whole.
#pragma once

#include <cstring>

#include "check.h"
#include "kernels/ranges.h"
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

}  // namespace modelwheel::MODELWHEEL_LEVEL
