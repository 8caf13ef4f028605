// src/kernels/pooling/row_reduction.h - the largest element or the sum of each window of a row, elements contiguous.
//
// Vectors run along the window. Their lanes are added at the end, so that sums round differently from those of XLA's
// kernels, which add one element after the other, but not more: every sum is a tree with shorter branches.
#pragma once

#include "kernels/base/reducer.h"
#include "kernels/base/shuffle.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Windows that follow each other along rows. What is outside the row is left out; a window of nothing gives `initial`.
struct RowReduction {
  Reducer reducer;
  double initial;
  std::int64_t rows, size;
  /// Windows of each row, their size, and how many elements before the row the first begins.
  std::int64_t windows, window, pad_low;
};

/// Windows of a row that are reduced together: vectors of independent sums, and a square to transpose at the end.
template <class T>
inline constexpr int kWindows = kPart<T>;

/// Reduces the lanes of a vector to one part.
template <class T, Reducer reducer>
MODELWHEEL_INLINE Part<T> reduce_parts(Vector<T> v) {
  T lanes[kLanes<T>];
  store<T>(lanes, v);
  Part<T> total = load<T, kPart<T>>(lanes);
  MODELWHEEL_UNROLL
  for (int i = kPart<T>; i < kLanes<T>; i += kPart<T>) total = reduced<reducer>(total, load<T, kPart<T>>(lanes + i));
  return total;
}

/// Reduces windows of `size` elements, one for each lane of a part.
template <class T, Reducer reducer>
MODELWHEEL_INLINE void reduce_windows(const T *const (&from)[kWindows<T>], std::int64_t size, T initial, T *out) {
  constexpr int kCount = kWindows<T>, kSmall = kPart<T>;
  // -0 changes no sum.
  const T nothing = reducer == Reducer::kSum ? static_cast<T>(-0.0) : initial;
  Vector<T> wide[kCount];
  MODELWHEEL_UNROLL
  for (int i = 0; i < kCount; ++i) wide[i] = splat<T>(nothing);
  std::int64_t k = 0;
  for (; k + kLanes<T> <= size; k += kLanes<T>) {
    MODELWHEEL_UNROLL
    for (int i = 0; i < kCount; ++i) wide[i] = reduced<reducer>(wide[i], load(from[i] + k));
  }
  Part<T> total[kCount];
  MODELWHEEL_UNROLL
  for (int i = 0; i < kCount; ++i) total[i] = reduce_parts<T, reducer>(wide[i]);
  for (; k + kSmall <= size; k += kSmall) {
    MODELWHEEL_UNROLL
    for (int i = 0; i < kCount; ++i) total[i] = reduced<reducer>(total[i], load<T, kSmall>(from[i] + k));
  }
  transpose_square<T>(total);
  MODELWHEEL_UNROLL
  for (int i = 1; i < kSmall; ++i) total[0] = reduced<reducer>(total[0], total[i]);
  for (; k < size; ++k) {
    Part<T> last{};
    MODELWHEEL_UNROLL
    for (int i = 0; i < kCount; ++i) last[i] = from[i][k];
    total[0] = reduced<reducer>(total[0], last);
  }
  store<T, kSmall>(out, reduced<reducer>(splat<T, kSmall>(initial), total[0]));
}

/// Reduces `count` windows of `size` elements that are `step` apart.
template <class T, Reducer reducer>
MODELWHEEL_NOINLINE void reduce_equal_windows(const T *in, std::int64_t count, std::int64_t step, std::int64_t size,
                                              T initial, T *out) {
  const T *from[kWindows<T>];
  std::int64_t done = 0;
  for (; done + kWindows<T> <= count; done += kWindows<T>) {
    MODELWHEEL_UNROLL
    for (int i = 0; i < kWindows<T>; ++i) from[i] = in + (done + i) * step;
    reduce_windows<T, reducer>(from, size, initial, out + done);
  }
  if (done == count) return;
  // Past the end, the last window is reduced again.
  T last[kWindows<T>];
  MODELWHEEL_UNROLL
  for (int i = 0; i < kWindows<T>; ++i) from[i] = in + smaller_of(done + i, count - 1) * step;
  reduce_windows<T, reducer>(from, size, initial, last);
  for (int i = 0; done < count; ++i, ++done) out[done] = last[i];
}

template <class T, Reducer reducer>
MODELWHEEL_NOINLINE void reduce_rows(const RowReduction &r, const T *in, T *out) {
  const T initial = static_cast<T>(r.initial);
  if (r.pad_low == 0 && r.windows * r.window == r.size) {
    reduce_equal_windows<T, reducer>(in, r.rows * r.windows, r.window, r.window, initial, out);
    return;
  }
  if (r.windows == 1) {
    const std::int64_t begin = larger_of(-r.pad_low, std::int64_t{0});
    const std::int64_t end = larger_of(smaller_of(r.window - r.pad_low, r.size), begin);
    reduce_equal_windows<T, reducer>(in + begin, r.rows, r.size, end - begin, initial, out);
    return;
  }
  for (std::int64_t row = 0; row < r.rows; ++row, in += r.size)
    for (std::int64_t w = 0; w < r.windows;) {
      const std::int64_t start = w * r.window - r.pad_low, inside = larger_of(start, std::int64_t{0});
      const std::int64_t size = larger_of(smaller_of(start + r.window, r.size) - inside, std::int64_t{0});
      // All whole windows together.
      const std::int64_t count = size < r.window ? 1 : smaller_of((r.size - start) / r.window, r.windows - w);
      reduce_equal_windows<T, reducer>(size > 0 ? in + inside : in, count, r.window, size, initial, out);
      out += count;
      w += count;
    }
}

/// Computes a reduction.
template <class T>
void row_reduction(const RowReduction &r, const T *in, T *out) {
  if (r.reducer == Reducer::kMaximum)
    reduce_rows<T, Reducer::kMaximum>(r, in, out);
  else
    reduce_rows<T, Reducer::kSum>(r, in, out);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
