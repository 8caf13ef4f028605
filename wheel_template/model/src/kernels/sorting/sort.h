// src/kernels/sorting/sort.h - sorts arrays together along one axis, by a compiled comparator.
#pragma once

#include <cstring>

#include "kernels/base/level.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// XLA's compiled comparators: params holds {&a0, &b0, &a1, &b1, ...}; the other pointers may be null.
using SortComparator = void(bool *result, const void *options, const void **params, const void *buffers,
                            const void *status, const void *profile);

inline constexpr int kMaxSortOperands = 16;

/// Contiguous arrays of shape [outer, size, inner], which are sorted together along the middle axis: the comparator
/// sees the elements of all arrays at one place. The sort is stable, whether XLA asks for that or not.
struct Sort {
  std::int64_t outer, size, inner;
  int operands;
  /// Size of an element of each operand: 1, 2, 4, 8 or 16 bytes.
  std::size_t item_bytes[kMaxSortOperands];
};

/// One line along the middle axis of each operand.
class SortLine {
 public:
  SortLine(const Sort &sort, SortComparator *comparator, char *const *operands, std::int64_t offset)
      : sort_(sort), comparator_(comparator) {
    for (int i = 0; i < sort.operands; ++i)
      first_[i] = operands[i] + static_cast<std::size_t>(offset) * sort.item_bytes[i];
  }

  char *item(int operand, std::int64_t index) const {
    return first_[operand] + static_cast<std::size_t>(index * sort_.inner) * sort_.item_bytes[operand];
  }

  /// Whether the elements at index a come before those at index b.
  bool less(std::int64_t a, std::int64_t b) const {
    const void *params[2 * kMaxSortOperands];
    for (int i = 0; i < sort_.operands; ++i) {
      params[2 * i] = item(i, a);
      params[2 * i + 1] = item(i, b);
    }
    bool result = false;
    comparator_(&result, nullptr, params, nullptr, nullptr, nullptr);
    return result;
  }

 private:
  const Sort &sort_;
  SortComparator *comparator_;
  char *first_[kMaxSortOperands];
};

/// Merges two sorted runs of indices, [begin, middle) and [middle, end).
inline void merge_runs(const SortLine &line, const std::int64_t *from, std::int64_t begin, std::int64_t middle,
                       std::int64_t end, std::int64_t *to) {
  std::int64_t left = begin, right = middle, next = begin;
  if (middle < end && line.less(from[middle], from[middle - 1]))
    while (left < middle && right < end) to[next++] = line.less(from[right], from[left]) ? from[right++] : from[left++];
  while (left < middle) to[next++] = from[left++];
  while (right < end) to[next++] = from[right++];
}

/// The order of a line's elements, as indices, in one of the two arrays: a bottom-up merge sort.
inline const std::int64_t *sorted_indices(const SortLine &line, std::int64_t size, std::int64_t *from,
                                          std::int64_t *to) {
  for (std::int64_t i = 0; i < size; ++i) from[i] = i;
  for (std::int64_t run = 1; run < size; run *= 2) {
    for (std::int64_t begin = 0; begin < size; begin += 2 * run)
      merge_runs(line, from, begin, smaller_of(begin + run, size), smaller_of(begin + 2 * run, size), to);
    std::int64_t *sorted = to;
    to = from;
    from = sorted;
  }
  return from;
}

/// Reorders one operand of a line.
template <int Bytes>
void permute(const SortLine &line, int operand, const std::int64_t *order, std::int64_t size, char *copy) {
  for (std::int64_t i = 0; i < size; ++i) std::memcpy(copy + i * Bytes, line.item(operand, order[i]), Bytes);
  for (std::int64_t i = 0; i < size; ++i) std::memcpy(line.item(operand, i), copy + i * Bytes, Bytes);
}

/// Bytes of scratch memory that `sort` needs.
constexpr std::size_t sort_scratch(const Sort &s) {
  std::size_t largest = 1;
  for (int i = 0; i < s.operands; ++i) largest = larger_of(largest, s.item_bytes[i]);
  return 2 * scratch_bytes<std::int64_t>(s.size) + scratch_bytes<char>(s.size * static_cast<std::int64_t>(largest));
}

/// Reorders all operands of a line.
inline void permute_all(const Sort &s, const SortLine &line, const std::int64_t *order, char *copy) {
  for (int operand = 0; operand < s.operands; ++operand) {
    switch (s.item_bytes[operand]) {
      case 1: permute<1>(line, operand, order, s.size, copy); break;
      case 2: permute<2>(line, operand, order, s.size, copy); break;
      case 4: permute<4>(line, operand, order, s.size, copy); break;
      case 8: permute<8>(line, operand, order, s.size, copy); break;
      default: permute<16>(line, operand, order, s.size, copy);
    }
  }
}

/// Sorts the operands in place. `memory` has sort_scratch(s) bytes and is 64-byte aligned.
MODELWHEEL_NOINLINE inline void sort_arrays(const Sort &s, SortComparator *comparator, char *const *operands,
                                            void *memory) {
  Scratch scratch(memory);
  std::int64_t *first = scratch.take<std::int64_t>(s.size), *second = scratch.take<std::int64_t>(s.size);
  char *copy = scratch.take<char>(0);
  for (std::int64_t o = 0; o < s.outer; ++o)
    for (std::int64_t i = 0; i < s.inner; ++i) {
      const SortLine line(s, comparator, operands, o * s.size * s.inner + i);
      permute_all(s, line, sorted_indices(line, s.size, first, second), copy);
    }
}

/// The same for a braced list of operands.
template <std::size_t N>
void sort(const Sort &s, SortComparator *comparator, char *const (&operands)[N], void *memory) {
  static_assert(N <= kMaxSortOperands, "raise kMaxSortOperands to sort so many arrays together");
  sort_arrays(s, comparator, operands, memory);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
