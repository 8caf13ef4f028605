// src/kernels/attention/softmax.h - softmax of the rows of a matrix in place: exp(x - largest) over the sum of these.
//
// Three passes over some rows while they are in the first-level cache, several rows together, so that the sums across
// the lanes of one row do not wait for those of another.
#pragma once

#include "kernels/elementwise/activation.h"
#include "kernels/pooling/row_reduction.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Rows of softmax_of_rows begin at multiples of so many elements.
template <class T>
constexpr std::int64_t softmax_step(std::int64_t size) {
  return divide_up(size, kLanes<T>) * kLanes<T>;
}

/// One value for each of some rows, from vectors of partial ones.
template <class T, Reducer reducer>
MODELWHEEL_INLINE Part<T> reduce_each(const Vector<T> (&partial)[kWindows<T>]) {
  Part<T> total[kWindows<T>];
  MODELWHEEL_UNROLL
  for (int i = 0; i < kWindows<T>; ++i) total[i] = reduce_parts<T, reducer>(partial[i]);
  transpose_square<T>(total);
  MODELWHEEL_UNROLL
  for (int i = 1; i < kPart<T>; ++i) total[0] = reduced<reducer>(total[0], total[i]);
  return total[0];
}

/// Replaces kWindows<T> rows of whole vectors, `step` elements apart, by the softmax of `scale` times them.
template <class T>
MODELWHEEL_NOINLINE void softmax_of_group(T *x, std::int64_t step, T scale) {
  constexpr int kRows = kWindows<T>, kWidth = kLanes<T>;
  const Vector<T> factor = splat<T>(scale);
  Vector<T> largest[kRows], sum[kRows];
  MODELWHEEL_UNROLL
  for (int i = 0; i < kRows; ++i) largest[i] = splat<T>(-static_cast<T>(__builtin_inf()));
  for (std::int64_t k = 0; k < step; k += kWidth) {
    MODELWHEEL_UNROLL
    for (int i = 0; i < kRows; ++i)
      largest[i] = reduced<Reducer::kMaximum>(largest[i], load<T>(x + i * step + k) * factor);
  }
  const Part<T> most = reduce_each<T, Reducer::kMaximum>(largest);
  MODELWHEEL_UNROLL
  for (int i = 0; i < kRows; ++i) {
    largest[i] = splat<T>(most[i]);
    sum[i] = Vector<T>{};
  }
  for (std::int64_t k = 0; k < step; k += kWidth) {
    MODELWHEEL_UNROLL
    for (int i = 0; i < kRows; ++i) {
      // Rounded before it is subtracted, as the largest is: their difference is 0 however large they are.
      Vector<T> scaled = load<T>(x + i * step + k) * factor;
      keep_in_register(scaled);
      const Vector<T> power = exponential_of_minus<kWidth>(magnitude<kWidth>(largest[i] - scaled, 150)).unlifted();
      store<T>(x + i * step + k, power);
      sum[i] += power;
    }
  }
  const Part<T> total = reduce_each<T, Reducer::kSum>(sum);
  MODELWHEEL_UNROLL
  for (int i = 0; i < kRows; ++i) sum[i] = splat<T>(1 / total[i]);
  for (std::int64_t k = 0; k < step; k += kWidth) {
    MODELWHEEL_UNROLL
    for (int i = 0; i < kRows; ++i) store<T>(x + i * step + k, load<T>(x + i * step + k) * sum[i]);
  }
}

/// Memory of so many rows for softmax_of_rows: they are replaced some at a time.
template <class T>
constexpr std::int64_t softmax_rows(std::int64_t rows) {
  return divide_up(rows, kWindows<T>) * kWindows<T>;
}

/// Replaces rows of `size` elements, softmax_step(size) apart, by the softmax of `scale` times them. There is memory
/// for softmax_rows(rows) of them, in any state. NaN, or infinity of the sign of `scale`, makes the whole row NaN.
template <class T>
void softmax_of_rows(T *x, std::int64_t rows, std::int64_t size, T scale) {
  const std::int64_t step = softmax_step<T>(size), all = softmax_rows<T>(rows);
  // What is behind a row has the exponential 0.
  const T nothing = scale < 0 ? static_cast<T>(__builtin_inf()) : -static_cast<T>(__builtin_inf());
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t k = size; k < step; ++k) x[i * step + k] = nothing;
  for (std::int64_t k = rows * step; k < all * step; ++k) x[k] = 0;
  for (std::int64_t i = 0; i < all; i += kWindows<T>) softmax_of_group<T>(x + i * step, step, scale);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
