// src/kernels/elementwise/elementwise.h - straight-line code for each element of the rows of a matrix, such as the
// gates of a recurrent layer.
//
// The code itself is generated: a type `Code` with the numbers `kReads`, `kMasks`, `kWrites` and `kColumns`, and a
// function `at<Lanes, Count>(in, mask, out, j)` that reads `Count` vectors of some rows from column j on and then
// writes those of others. It is the same for all batch sizes.
#pragma once

#include "kernels/base/level.h"
#include "kernels/elementwise/activation.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Memory as rows: where the first one begins, and how far apart they are, in elements.
template <class T>
struct Plane {
  T *first;
  std::int64_t step;
};

/// `x` where a mask is -1, `y` where it is 0.
template <int Lanes>
MODELWHEEL_INLINE Floats<Lanes> chosen(std::int32_t mask, Floats<Lanes> x, Floats<Lanes> y) {
  return splat<std::int32_t, Lanes>(mask) != 0 ? x : y;
}

/// `Count` vectors of columns at a time from column j on; returns where they end.
template <class Code, int Lanes, int Count>
MODELWHEEL_INLINE std::int64_t compute_columns(const float *const *in, const std::int32_t *mask, float *const *out,
                                               std::int64_t j) {
  // One copy of the code, which is long: rows are few vectors wide.
  _Pragma("GCC unroll 1") for (; j + Lanes * Count <= Code::kColumns; j += Lanes * Count)
      Code::template at<Lanes, Count>(in, mask, out, j);
  return j;
}

/// Computes all rows. What is written is apart from what is read, or has the same place for each element.
template <class Code>
MODELWHEEL_NOINLINE void elementwise(std::int64_t rows, const Plane<const float> *reads, const Plane<const char> *masks,
                                     const Plane<float> *writes) {
  constexpr int kVector = kLanes<float>, kQuarter = 16 / static_cast<int>(sizeof(float));
  // Two vectors: a core computes one while it waits for the other.
  constexpr int kCount = Code::kColumns % (2 * kVector) == 0 ? 2 : 1;
  for (std::int64_t i = 0; i < rows; ++i) {
    // Copies, which nothing that is written can change.
    const float *in[Code::kReads];
    float *out[Code::kWrites];
    std::int32_t mask[Code::kMasks + 1];
    MODELWHEEL_UNROLL
    for (int k = 0; k < Code::kReads; ++k) in[k] = reads[k].first + i * reads[k].step;
    MODELWHEEL_UNROLL
    for (int k = 0; k < Code::kMasks; ++k) mask[k] = masks[k].first[i * masks[k].step] != 0 ? -1 : 0;
    MODELWHEEL_UNROLL
    for (int k = 0; k < Code::kWrites; ++k) out[k] = writes[k].first + i * writes[k].step;
    std::int64_t j = compute_columns<Code, kVector, kCount>(in, mask, out, 0);
    if constexpr (kVector != kQuarter && Code::kColumns % kVector >= kQuarter)
      j = compute_columns<Code, kQuarter, 1>(in, mask, out, j);
    if constexpr (Code::kColumns % kQuarter != 0) compute_columns<Code, 1, 1>(in, mask, out, j);
  }
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
