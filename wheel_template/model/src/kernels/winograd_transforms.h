// src/kernels/winograd_transforms.h - the transforms of Winograd's convolution F(2x2, 3x3).
//
// A tile of 2 x 2 outputs with windows of 3 x 3 is computed from a patch of 4 x 4 inputs d and the filter g by 16
// products instead of 36: A^T [(G g G^T) * (B^T d B)] A (Lavin & Gray, "Fast Algorithms for Convolutional Neural
// Networks", arXiv:1509.09308, section 4.1). Each output is made from the inputs of its own window alone: d[3] and g
// never reach output 0, nor d[0] output 1. So what is not finite in a window does not spread to other windows.
#pragma once

#include "convolution_shape.h"
#include "gemm_tile.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Sides of a tile, of a filter and of a patch.
inline constexpr int kTileSide = 2;
inline constexpr int kFilterSide = 3;
inline constexpr int kPatchSide = kTileSide + kFilterSide - 1;
/// Products of each tile, feature of the input and feature of the output.
inline constexpr int kPatchSize = kPatchSide * kPatchSide;

/// G x: filters.
template <class V>
MODELWHEEL_INLINE void transform_filter(const V (&x)[kFilterSide], V (&to)[kPatchSide]) {
  const V outer = (x[0] + x[2]) * 0.5F, inner = x[1] * 0.5F;
  to[0] = x[0];
  to[1] = outer + inner;
  to[2] = outer - inner;
  to[3] = x[2];
}

/// B^T x: inputs.
template <class V>
MODELWHEEL_INLINE void transform_input(const V (&x)[kPatchSide], V (&to)[kPatchSide]) {
  to[0] = x[0] - x[2];
  to[1] = x[1] + x[2];
  to[2] = x[2] - x[1];
  to[3] = x[1] - x[3];
}

/// A^T x: outputs.
template <class V>
MODELWHEEL_INLINE void transform_output(const V (&x)[kPatchSide], V (&to)[kTileSide]) {
  to[0] = x[0] + x[1] + x[2];
  to[1] = x[1] - x[2] - x[3];
}

/// Transforms a vector of columns of a filter; tap (i, j) is at `from` + i * step[0] + j * step[1], product p goes to
/// `to` + p * plane.
template <class T>
MODELWHEEL_INLINE void transform_filters(const T *from, const std::int64_t (&step)[2], T *to, std::int64_t plane) {
  Vector<T> half[kPatchSide][kFilterSide];
  MODELWHEEL_UNROLL
  for (int j = 0; j < kFilterSide; ++j) {
    const T *const tap = from + j * step[1];
    const Vector<T> column[kFilterSide] = {load(tap), load(tap + step[0]), load(tap + 2 * step[0])};
    Vector<T> whole[kPatchSide];
    transform_filter(column, whole);
    MODELWHEEL_UNROLL
    for (int i = 0; i < kPatchSide; ++i) half[i][j] = whole[i];
  }
  MODELWHEEL_UNROLL
  for (int i = 0; i < kPatchSide; ++i, to += kPatchSide * plane) {
    Vector<T> whole[kPatchSide];
    transform_filter(half[i], whole);
    MODELWHEEL_UNROLL
    for (int j = 0; j < kPatchSide; ++j) store(to + j * plane, whole[j]);
  }
}

/// Transforms a vector of features of a patch, whose element (i, j) is at `at(i, j)`.
template <class T, class At>
MODELWHEEL_INLINE void transform_features(const At &at, T *to, std::int64_t plane) {
  Vector<T> inner[2][kPatchSide];
  MODELWHEEL_UNROLL
  for (int j = 0; j < kPatchSide; ++j) {
    MODELWHEEL_UNROLL
    for (int i = 0; i < 2; ++i) {
      inner[i][j] = load(at(i + 1, j));
      keep_in_register(inner[i][j]);
    }
  }
  MODELWHEEL_UNROLL
  for (int i = 0; i < kPatchSide; ++i, to += kPatchSide * plane) {
    Vector<T> row[kPatchSide], whole[kPatchSide];
    MODELWHEEL_UNROLL
    for (int j = 0; j < kPatchSide; ++j)
      row[j] = i == 0   ? load(at(0, j)) - inner[1][j]
               : i == 1 ? inner[0][j] + inner[1][j]
               : i == 2 ? inner[1][j] - inner[0][j]
                        : inner[0][j] - load(at(3, j));
    transform_input(row, whole);
    MODELWHEEL_UNROLL
    for (int j = 0; j < kPatchSide; ++j) store(to + j * plane, whole[j]);
  }
}

/// The sums of a vector of columns of a tile, from its products at `from` + p * plane: sum[i * kTileSide + j].
template <class T>
MODELWHEEL_INLINE void transform_products(const T *from, std::int64_t plane,
                                          Vector<T> (&sum)[kTileSide * kTileSide][1]) {
  Vector<T> half[kTileSide][kPatchSide];
  MODELWHEEL_UNROLL
  for (int j = 0; j < kPatchSide; ++j) {
    const T *p = from + j * plane;
    const std::int64_t row = kPatchSide * plane;
    const Vector<T> column[kPatchSide] = {load(p), load(p + row), load(p + 2 * row), load(p + 3 * row)};
    Vector<T> of_column[kTileSide];
    transform_output(column, of_column);
    half[0][j] = of_column[0];
    half[1][j] = of_column[1];
  }
  MODELWHEEL_UNROLL
  for (int i = 0; i < kTileSide; ++i) {
    Vector<T> whole[kTileSide];
    transform_output(half[i], whole);
    MODELWHEEL_UNROLL
    for (int j = 0; j < kTileSide; ++j) sum[i * kTileSide + j][0] = whole[j];
  }
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
