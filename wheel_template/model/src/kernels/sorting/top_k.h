// src/kernels/sorting/top_k.h - the k largest values of each row, largest first, and where they are.
#pragma once

#include "kernels/base/numeric.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Finds the `k` largest of `size` elements in each row; 0 < k <= size < 2^31.
struct TopK {
  std::int64_t batch, size, k;
};

/// Bits that compare as the values do. Floating-point numbers are totally ordered, as XLA's TopK orders them:
/// -NaN < -inf < ... < -0 < +0 < ... < +inf < +NaN.
inline std::uint32_t total_order(float value) {
  const std::uint32_t bits = bits_as<std::uint32_t>(value);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000U;
}

/// Moves the element at the top of a heap down to where it belongs; parents are larger than their children.
inline void sift_down(std::uint64_t *heap, std::int64_t size) {
  const std::uint64_t moving = heap[0];
  std::int64_t at = 0;
  for (std::int64_t child = 1; child < size; child = 2 * at + 1) {
    if (child + 1 < size && heap[child + 1] > heap[child]) ++child;
    if (heap[child] <= moving) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = moving;
}

/// Adds an element to a heap that has `size` of them.
inline void sift_up(std::uint64_t *heap, std::int64_t size, std::uint64_t element) {
  std::int64_t at = size;
  for (; at > 0 && heap[(at - 1) / 2] < element; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
  heap[at] = element;
}

/// Bytes of scratch memory that `top_k` needs.
constexpr std::size_t top_k_scratch(const TopK &t) { return scratch_bytes<std::uint64_t>(t.k); }

/// Writes values and indices, k for each row. Of equal values the one with the lower index comes first.
/// A heap keeps the best so far, worst on top: keys hold the complement of the order above the index.
template <class T>
MODELWHEEL_NOINLINE void top_k(const TopK &t, const T *in, T *values, std::int32_t *indices, void *scratch) {
  std::uint64_t *heap = static_cast<std::uint64_t *>(scratch);
  for (std::int64_t row = 0; row < t.batch; ++row, in += t.size, values += t.k, indices += t.k) {
    for (std::int64_t i = 0; i < t.size; ++i) {
      const std::uint64_t key = std::uint64_t{~total_order(in[i])} << 32 | static_cast<std::uint32_t>(i);
      if (i < t.k) {
        sift_up(heap, i, key);
      } else if (key < heap[0]) {
        heap[0] = key;
        sift_down(heap, t.k);
      }
    }
    for (std::int64_t left = t.k; left > 0; --left) {
      const std::int32_t index = static_cast<std::int32_t>(heap[0] & 0x7FFFFFFFU);
      indices[left - 1] = index;
      values[left - 1] = in[index];
      heap[0] = heap[left - 1];
      sift_down(heap, left - 1);
    }
  }
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
