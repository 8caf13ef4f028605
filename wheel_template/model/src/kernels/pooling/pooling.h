// src/kernels/pooling/pooling.h - the largest element or the sum of each window of an image, features contiguous.
//
// Vectors run along the features. Taps are taken in the order of XLA's kernels, so that results have the same bits.
#pragma once

#include "kernels/base/axis.h"
#include "kernels/base/reducer.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// XLA's reduce-window over the two spatial axes of [batch, rows, columns, features], without gaps and dilation.
/// What is outside the input is left out, or, of maxima, may be `padding`; a window of nothing gives `initial`.
struct Pooling {
  Reducer reducer;
  double initial;
  std::int64_t batch, features;
  std::int64_t in_size[2], window[2], out_size[2], stride[2], pad_low[2];
  /// How far apart the pixels of the input are: at least `features` elements.
  std::int64_t in_step;
  /// What every element of the input, and then the result, is multiplied by.
  double in_factor, factor;
  /// Whether windows have pixels outside the input, and what each of their elements is.
  bool is_padded = false;
  double padding = 0;
};

/// One axis of a pooling as that of a convolution, whose steps are in elements.
constexpr Axis axis_of(const Pooling &p, int axis, std::int64_t step) {
  return {p.in_size[axis], p.window[axis], p.out_size[axis], p.stride[axis], p.pad_low[axis], 1, 1, step, 0, 0, 0};
}

/// Part of an image under a window: rows, and pixels of a row.
template <class T>
struct Patch {
  using Row = const T *;
  Row first;
  std::int64_t rows, row_step, columns, step;
  MODELWHEEL_INLINE const T *features(Row row, std::int64_t x, std::int64_t f) const { return row + x * step + f; }
};

/// A whole window, of which some pixels are outside the image. Rows are numbers.
template <class T>
struct PaddedPatch {
  using Row = std::int64_t;
  Row first;
  std::int64_t rows, row_step, columns;
  const T *image;
  const Axis &y, &x;
  std::int64_t first_column;
  /// As many elements as are read together.
  const T *padding;
  MODELWHEEL_INLINE const T *features(Row row, std::int64_t column, std::int64_t f) const {
    const std::int64_t at = first_column + column;
    const bool inside = row >= 0 && row < y.in_size && at >= 0 && at < x.in_size;
    return inside ? image + row * y.in_step + at * x.in_step + f : padding;
  }
};

/// `Vectors` vectors of `Lanes` features from feature f on, whose sums do not wait for each other. `Columns` are those
/// of the patch if it is not 0. Without `Factors`, nothing is multiplied.
template <class T, int Lanes, int Vectors, int Columns, Reducer reducer, bool Factors, class Patch>
MODELWHEEL_INLINE void pool_vectors(const Pooling &p, const Patch &patch, T *out, std::int64_t f) {
  const Vector<T, Lanes> in_factor = splat<T, Lanes>(static_cast<T>(p.in_factor));
  const Vector<T, Lanes> factor = splat<T, Lanes>(static_cast<T>(p.factor));
  Vector<T, Lanes> total[Vectors];
  for (Vector<T, Lanes> &one : total) one = splat<T, Lanes>(static_cast<T>(p.initial));
  typename Patch::Row row = patch.first;
  for (std::int64_t y = 0; y < patch.rows; ++y, row += patch.row_step)
    for (std::int64_t x = 0; x < (Columns != 0 ? Columns : patch.columns); ++x) {
      const T *const pixel = patch.features(row, x, f);
      for (int v = 0; v < Vectors; ++v) {
        const Vector<T, Lanes> value = load<T, Lanes>(pixel + v * Lanes);
        total[v] = reduced<reducer>(total[v], Factors ? value * in_factor : value);
      }
    }
  for (int v = 0; v < Vectors; ++v) store<T, Lanes>(out + f + v * Lanes, Factors ? total[v] * factor : total[v]);
}

/// `Chains` vectors at a time from feature f on, as often as there are so many; returns where they end.
template <class T, int Chains, int Columns, Reducer reducer, bool Factors, class Patch>
MODELWHEEL_INLINE std::int64_t pool_chains(const Pooling &p, const Patch &patch, T *out, std::int64_t f) {
  for (; f + Chains * kLanes<T> <= p.features; f += Chains * kLanes<T>)
    pool_vectors<T, kLanes<T>, Chains, Columns, reducer, Factors>(p, patch, out, f);
  return f;
}

/// The features from f on in the longest vectors that all features of a pixel fill. The last may overlap the one
/// before.
template <class T, int Lanes, int Columns, Reducer reducer, bool Factors, class Patch>
MODELWHEEL_INLINE void pool_rest(const Pooling &p, const Patch &patch, T *out, std::int64_t f) {
  constexpr int kQuarter = 16 / static_cast<int>(sizeof(T));
  if (p.features >= Lanes) {
    for (; f < p.features; f += Lanes) {
      f = smaller_of(f, p.features - Lanes);
      pool_vectors<T, Lanes, 1, Columns, reducer, Factors>(p, patch, out, f);
    }
  } else if constexpr (Lanes > 1) {
    pool_rest<T, (Lanes > kQuarter ? Lanes / 2 : 1), Columns, reducer, Factors>(p, patch, out, f);
  }
}

/// All features of a patch: `Chains` vectors at a time where there are so many, then one.
template <class T, int Chains, int Columns, Reducer reducer, bool Factors, class Patch>
MODELWHEEL_INLINE void pool_patch(const Pooling &p, const Patch &patch, T *out) {
  std::int64_t f = 0;
  if constexpr (Chains > 1) f = pool_chains<T, Chains, Columns, reducer, Factors>(p, patch, out, f);
  pool_rest<T, kLanes<T>, Columns, reducer, Factors>(p, patch, out, f);
}

/// All outputs; see pool_patch.
template <class T, int Chains, Reducer reducer, bool Factors>
MODELWHEEL_INLINE void pool_pixels(const Pooling &p, const T *in, T *out) {
  // With few vectors, a loop over two or three columns takes longer than what is in it.
  constexpr int kTwo = Chains < 4 ? 2 : 0, kThree = Chains < 4 ? 3 : 0;
  const Axis rows = axis_of(p, 0, p.in_size[1] * p.in_step), columns = axis_of(p, 1, p.in_step);
  // Worth its divisions where several windows follow each other.
  const Range whole = p.out_size[1] > 1 ? whole_windows(columns) : Range{0, 0};
  for (std::int64_t image = 0; image < p.batch; ++image, in += p.in_size[0] * rows.in_step)
    for (std::int64_t y = 0; y < p.out_size[0]; ++y) {
      const Range inside_y = taps_within(rows, y);
      const T *const row = in + (window_start(rows, y) + inside_y.begin) * rows.in_step;
      for (std::int64_t x = 0; x < p.out_size[1]; ++x, out += p.features) {
        const bool inside = x >= whole.begin && x < whole.end;
        const Range inside_x = inside ? Range{0, p.window[1]} : taps_within(columns, x);
        const Patch<T> patch{row + (window_start(columns, x) + inside_x.begin) * columns.in_step, length(inside_y),
                             rows.in_step, length(inside_x), columns.in_step};
        if (patch.columns == kThree)
          pool_patch<T, Chains, kThree, reducer, Factors>(p, patch, out);
        else if (patch.columns == kTwo)
          pool_patch<T, Chains, kTwo, reducer, Factors>(p, patch, out);
        else
          pool_patch<T, Chains, 0, reducer, Factors>(p, patch, out);
      }
    }
}

template <class T, Reducer reducer>
MODELWHEEL_NOINLINE void pool_images(const Pooling &p, const T *in, T *out) {
  constexpr int kChains = 4;
  constexpr bool kFactors = reducer == Reducer::kSum;
  if (!kFactors && (p.in_factor != 1 || p.factor != 1))
    pool_pixels<T, 1, reducer, true>(p, in, out);
  else if (p.features >= kChains * kLanes<T>)
    pool_pixels<T, kChains, reducer, kFactors>(p, in, out);
  else if (p.features >= 2 * kLanes<T>)
    pool_pixels<T, 2, reducer, kFactors>(p, in, out);
  else
    pool_pixels<T, 1, reducer, kFactors>(p, in, out);
}

/// The largest elements of windows that are not within the image. There are few of them: vectors are short.
template <class T>
MODELWHEEL_NOINLINE void pool_padded(const Pooling &p, const T *in, T *out) {
  const Axis rows = axis_of(p, 0, p.in_size[1] * p.in_step), columns = axis_of(p, 1, p.in_step);
  const Range whole_y = whole_windows(rows), whole_x = whole_windows(columns);
  constexpr int kSize = 16 / static_cast<int>(sizeof(T));
  T padding[kSize];
  for (T &one : padding) one = static_cast<T>(p.padding);
  for (std::int64_t image = 0; image < p.batch; ++image, in += p.in_size[0] * rows.in_step)
    for (std::int64_t y = 0; y < p.out_size[0]; ++y)
      for (std::int64_t x = 0; x < p.out_size[1]; ++x, out += p.features) {
        if (y >= whole_y.begin && y < whole_y.end && x >= whole_x.begin && x < whole_x.end) continue;
        const PaddedPatch<T> patch{window_start(rows, y),    p.window[0], 1, p.window[1], in, rows, columns,
                                   window_start(columns, x), padding};
        pool_rest<T, kSize, 0, Reducer::kMaximum, true>(p, patch, out, 0);
      }
}

/// Computes a pooling.
template <class T>
void pooling(const Pooling &p, const T *in, T *out) {
  if (p.reducer == Reducer::kMaximum)
    pool_images<T, Reducer::kMaximum>(p, in, out);
  else
    pool_images<T, Reducer::kSum>(p, in, out);
  if (p.is_padded) pool_padded(p, in, out);
}

extern template void pool_images<float, Reducer::kMaximum>(const Pooling &, const float *, float *);
extern template void pool_images<float, Reducer::kSum>(const Pooling &, const float *, float *);

}  // namespace modelwheel::MODELWHEEL_LEVEL
