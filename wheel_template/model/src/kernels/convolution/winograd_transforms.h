// src/kernels/convolution/winograd_transforms.h - the transforms of Winograd's convolutions F(2, 3), F(2, 5) and F(2x2,
// 3x3).
//
// Two adjacent outputs with windows of r taps are computed from a patch of r + 1 inputs d and the filter g by r + 1
// products instead of 2 r: A^T [(G g) * (B^T d)]; over two axes by (r + 1)^2 instead of 4 r^2, with a transform along
// each (Lavin & Gray, "Fast Algorithms for Convolutional Neural Networks", arXiv:1509.09308, section 4.1; the matrices
// are those of Toom and Cook's method for the points 0, +-p, ... and infinity). Each output is made from the inputs of
// its own window alone: d[r] and g never reach output 0, nor d[0] output 1. So what is not finite in a window does not
// spread to other windows, and large numbers cost others no digits; with more than two outputs they would.
#pragma once

#include "kernels/convolution/shape.h"
#include "kernels/gemm/tile.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Outputs of a tile, and inputs of a patch, along an axis with so many taps. A filter of one tap is not transformed.
constexpr int tile_side(std::int64_t taps) { return taps == 1 ? 1 : 2; }
constexpr int patch_side(std::int64_t taps) { return tile_side(taps) + static_cast<int>(taps) - 1; }

/// The transforms along an axis with so many taps.
template <int Taps>
struct Transform;

template <>
struct Transform<1> {
  template <class V>
  static MODELWHEEL_INLINE void filter(const V (&x)[1], V (&to)[1]) {
    to[0] = x[0];
  }
  template <class V>
  static MODELWHEEL_INLINE void input(const V (&x)[1], V (&to)[1]) {
    to[0] = x[0];
  }
  template <class V>
  static MODELWHEEL_INLINE void output(const V (&x)[1], V (&to)[1]) {
    to[0] = x[0];
  }
};

/// The points 0, 1, -1 and infinity.
template <>
struct Transform<3> {
  /// G x.
  template <class V>
  static MODELWHEEL_INLINE void filter(const V (&x)[3], V (&to)[4]) {
    const V outer = (x[0] + x[2]) * 0.5F, inner = x[1] * 0.5F;
    to[0] = x[0];
    to[1] = outer + inner;
    to[2] = outer - inner;
    to[3] = x[2];
  }

  /// B^T x.
  template <class V>
  static MODELWHEEL_INLINE void input(const V (&x)[4], V (&to)[4]) {
    to[0] = x[0] - x[2];
    to[1] = x[1] + x[2];
    to[2] = x[2] - x[1];
    to[3] = x[1] - x[3];
  }

  /// A^T x.
  template <class V>
  static MODELWHEEL_INLINE void output(const V (&x)[4], V (&to)[2]) {
    to[0] = x[0] + x[1] + x[2];
    to[1] = x[1] - x[2] - x[3];
  }
};

/// The points 0, a, -a, b, -b and infinity. With a and b near 1, but not too near to each other, errors are least;
/// these and their products have few digits, so that they are exact.
template <>
struct Transform<5> {
  static constexpr float a = 11.0F / 16, b = 23.0F / 16;
  static constexpr float aa = a * a, bb = b * b;

  /// The polynomial with the coefficients x at p and -p, times `scale`.
  template <class V>
  static MODELWHEEL_INLINE void filter_at(const V (&x)[5], double p, double scale, V &at, V &opposite) {
    const auto power = [&](double of_p) { return static_cast<float>(scale * of_p); };
    const V even = x[0] * power(1) + x[2] * power(p * p) + x[4] * power(p * p * p * p);
    const V odd = x[1] * power(p) + x[3] * power(p * p * p);
    at = even + odd;
    opposite = even - odd;
  }

  template <class V>
  static MODELWHEEL_INLINE void filter(const V (&x)[5], V (&to)[6]) {
    constexpr double of_a = double{aa}, of_b = double{bb};
    to[0] = x[0] * static_cast<float>(1 / (of_a * of_b));
    filter_at(x, a, 0.5 / (of_a * (of_a - of_b)), to[1], to[2]);
    filter_at(x, b, 0.5 / (of_b * (of_b - of_a)), to[3], to[4]);
    to[5] = x[4];
  }

  template <class V>
  static MODELWHEEL_INLINE void input(const V (&x)[6], V (&to)[6]) {
    const V even_a = x[4] - x[2] * bb, odd_a = x[3] - x[1] * bb;
    const V even_b = x[4] - x[2] * aa, odd_b = x[3] - x[1] * aa;
    to[0] = x[0] * (aa * bb) - x[2] * (aa + bb) + x[4];
    to[1] = even_a + odd_a * a;
    to[2] = even_a - odd_a * a;
    to[3] = even_b + odd_b * b;
    to[4] = even_b - odd_b * b;
    to[5] = x[1] * (aa * bb) - x[3] * (aa + bb) + x[5];
  }

  template <class V>
  static MODELWHEEL_INLINE void output(const V (&x)[6], V (&to)[2]) {
    to[0] = x[0] + (x[1] + x[2]) + (x[3] + x[4]);
    to[1] = (x[1] - x[2]) * a + (x[3] - x[4]) * b + x[5];
  }
};

/// How windows of so many taps along both axes are computed.
template <int RowTaps, int ColumnTaps>
struct Tiling {
  using Rows = Transform<RowTaps>;
  using Columns = Transform<ColumnTaps>;
  static constexpr int kTaps[2] = {RowTaps, ColumnTaps};
  static constexpr int kTile[2] = {tile_side(RowTaps), tile_side(ColumnTaps)};
  static constexpr int kPatch[2] = {patch_side(RowTaps), patch_side(ColumnTaps)};
  static constexpr int kTileSize = kTile[0] * kTile[1];
  static constexpr int kPatchSize = kPatch[0] * kPatch[1];
  /// Transforms for five taps multiply the errors of sums. Shorter sums make up for that.
  static constexpr bool kShortSums = ColumnTaps == 5;
};

/// Transforms a vector of columns of a filter; tap (i, j) is at `from` + i * step[0] + j * step[1], product p goes to
/// `to` + p * plane.
template <class T, class W>
MODELWHEEL_INLINE void transform_filters(const T *from, const std::int64_t (&step)[2], T *to, std::int64_t plane) {
  Vector<T> half[W::kPatch[0]][W::kTaps[1]];
  MODELWHEEL_UNROLL
  for (int j = 0; j < W::kTaps[1]; ++j) {
    Vector<T> column[W::kTaps[0]], whole[W::kPatch[0]];
    MODELWHEEL_UNROLL
    for (int i = 0; i < W::kTaps[0]; ++i) column[i] = load(from + i * step[0] + j * step[1]);
    W::Rows::filter(column, whole);
    MODELWHEEL_UNROLL
    for (int i = 0; i < W::kPatch[0]; ++i) half[i][j] = whole[i];
  }
  MODELWHEEL_UNROLL
  for (int i = 0; i < W::kPatch[0]; ++i, to += W::kPatch[1] * plane) {
    Vector<T> whole[W::kPatch[1]];
    W::Columns::filter(half[i], whole);
    MODELWHEEL_UNROLL
    for (int j = 0; j < W::kPatch[1]; ++j) store(to + j * plane, whole[j]);
  }
}

/// Transforms a row of a patch and stores it.
template <class T, class W>
MODELWHEEL_INLINE void transform_row(const Vector<T> (&row)[W::kPatch[1]], T *to, std::int64_t plane) {
  Vector<T> whole[W::kPatch[1]];
  W::Columns::input(row, whole);
  MODELWHEEL_UNROLL
  for (int j = 0; j < W::kPatch[1]; ++j) store(to + j * plane, whole[j]);
}

/// Transforms a vector of features of a patch, whose element (i, j) is at `at(i, j)`.
template <class T, class W, class At>
MODELWHEEL_INLINE void transform_features(const At &at, T *to, std::int64_t plane) {
  constexpr int kColumns = W::kPatch[1];
  Vector<T> row[kColumns];
  if constexpr (W::kPatch[0] == 1) {
    MODELWHEEL_UNROLL
    for (int j = 0; j < kColumns; ++j) row[j] = load(at(0, j));
    transform_row<T, W>(row, to, plane);
  } else {
    // Transform<3>::input, of which the inner rows stay in registers.
    static_assert(W::kPatch[0] == 4);
    Vector<T> inner[2][kColumns];
    MODELWHEEL_UNROLL
    for (int j = 0; j < kColumns; ++j) {
      MODELWHEEL_UNROLL
      for (int i = 0; i < 2; ++i) {
        inner[i][j] = load(at(i + 1, j));
        keep_in_register(inner[i][j]);
      }
    }
    MODELWHEEL_UNROLL
    for (int i = 0; i < 4; ++i, to += kColumns * plane) {
      MODELWHEEL_UNROLL
      for (int j = 0; j < kColumns; ++j)
        row[j] = i == 0   ? load(at(0, j)) - inner[1][j]
                 : i == 1 ? inner[0][j] + inner[1][j]
                 : i == 2 ? inner[1][j] - inner[0][j]
                          : inner[0][j] - load(at(3, j));
      transform_row<T, W>(row, to, plane);
    }
  }
}

/// The sums of a vector of columns of a tile, from its products at `from` + p * plane: sum[i * kTile[1] + j].
template <class T, class W>
MODELWHEEL_INLINE void transform_products(const T *from, std::int64_t plane, Vector<T> (&sum)[W::kTileSize][1]) {
  Vector<T> half[W::kTile[0]][W::kPatch[1]];
  MODELWHEEL_UNROLL
  for (int j = 0; j < W::kPatch[1]; ++j) {
    Vector<T> column[W::kPatch[0]], of_column[W::kTile[0]];
    MODELWHEEL_UNROLL
    for (int i = 0; i < W::kPatch[0]; ++i) column[i] = load(from + (i * W::kPatch[1] + j) * plane);
    W::Rows::output(column, of_column);
    MODELWHEEL_UNROLL
    for (int i = 0; i < W::kTile[0]; ++i) half[i][j] = of_column[i];
  }
  MODELWHEEL_UNROLL
  for (int i = 0; i < W::kTile[0]; ++i) {
    Vector<T> whole[W::kTile[1]];
    W::Columns::output(half[i], whole);
    MODELWHEEL_UNROLL
    for (int j = 0; j < W::kTile[1]; ++j) sum[i * W::kTile[1] + j][0] = whole[j];
  }
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
