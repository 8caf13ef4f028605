// src/kernels/gemm/tile.h - the innermost part of matrix products and convolutions: one tile of the result.
//
// A tile is a few rows by a few vectors of columns, held in registers while the inner dimension is walked
// (Goto & van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS 34(3), 2008). Rows are
// reached through pointers and the inner dimension through a table of segments, so that a convolution needs no
// im2col copy (after Dukhan, "The indirect convolution algorithm", arXiv:1907.02129).
#pragma once

#include "kernels/elementwise/epilogue.h"
#include "kernels/gemm/kernels.h"
#include "kernels/gemm/shape.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Most rows of a tile with so many vectors: the widest has fewer.
constexpr int tile_rows(int vectors) { return vectors == 4 ? 6 : kTileRows; }

/// Most vectors of a tile whose vectors have `Lanes` elements. Narrow ones are for fewer columns than two of them have.
template <class T, int Lanes>
inline constexpr int kMaxVectors = Lanes == kLanes<T> ? kTileVectors : 2;

/// Shared by a column of tiles: the part of the inner dimension to sum over, and the columns of rhs.
template <class T>
struct Strip {
  const Segment *segments;
  std::int64_t num_segments;
  /// Elements of each segment, and how far apart they are on the left.
  std::int64_t depth, lhs_step;
  /// Columns of rhs, in place or packed; rows are `rhs_step` elements apart.
  const T *rhs;
  std::int64_t rhs_step;
  /// Packed: the rows of a segment follow those of the previous one, and Segment::rhs is ignored.
  bool packed;
  /// Add to the result instead of overwriting it.
  bool accumulate;
  /// First column of the last vector; it may overlap the one before, so that no column past the end is touched.
  std::int64_t last;
  /// How far apart kPanel columns are in rhs, and where the last vector is.
  std::int64_t panel, rhs_last;
  /// Applied to complete sums, which are then not stored themselves; may be null.
  const Epilogue<T> *epilogue;
  /// Column of the result in which the strip begins.
  std::int64_t column;
};

/// Vectors of one row of rhs.
template <class T, int Lanes, int Vectors>
MODELWHEEL_INLINE void load_rhs(const T *rhs, std::int64_t panel, std::int64_t last,
                                Vector<T, Lanes> (&right)[Vectors]) {
  MODELWHEEL_UNROLL
  for (int j = 0; j < Vectors; ++j)
    right[j] = load<T, Lanes>(rhs + (j + 1 < Vectors ? j * Lanes / kPanel * panel + j * Lanes % kPanel : last));
}

/// Adds the products of one element of each row with vectors of one row of rhs.
template <class T, int Lanes, int Rows, int Vectors>
MODELWHEEL_INLINE void add_products(const T *const (&row)[Rows], std::int64_t at, const T *rhs, std::int64_t panel,
                                    std::int64_t last, Vector<T, Lanes> (&sum)[Rows][Vectors]) {
  Vector<T, Lanes> right[Vectors];
  load_rhs<T, Lanes>(rhs, panel, last, right);
  MODELWHEEL_UNROLL
  for (int j = 0; j < Vectors; ++j) {
    if (Rows > 1) keep_in_register(right[j]);
  }
  MODELWHEEL_UNROLL
  for (int i = 0; i < Rows; ++i) {
    const Vector<T, Lanes> left = splat<T, Lanes>(row[i][at]);
    MODELWHEEL_UNROLL
    for (int j = 0; j < Vectors; ++j) sum[i][j] += left * right[j];
  }
}

/// Stores complete sums, or what an epilogue makes of them. `column` is that of the first vector, `last` how much
/// further the last one begins.
template <class T, int Lanes, int Rows, int Vectors>
MODELWHEEL_INLINE void store_sums(const Epilogue<T> *epilogue, T *const *out, std::int64_t column, std::int64_t last,
                                  Vector<T, Lanes> (&sum)[Rows][Vectors]) {
  std::int64_t at[Vectors];
  MODELWHEEL_UNROLL
  for (int j = 0; j < Vectors; ++j) at[j] = j + 1 < Vectors ? j * Lanes : last;
  if (epilogue != nullptr) {
    const T *place[Rows];
    MODELWHEEL_UNROLL
    for (int i = 0; i < Rows; ++i) place[i] = out[i];
    finish_vectors<T, Lanes>(*epilogue, place, column, at, sum);
  }
  MODELWHEEL_UNROLL
  for (int i = 0; i < Rows; ++i) {
    T *to = epilogue != nullptr ? epilogue->result + (out[i] - epilogue->sums) : out[i];
    MODELWHEEL_UNROLL
    for (int j = 0; j < Vectors; ++j) store<T, Lanes>(to + at[j], sum[i][j]);
  }
}

#ifdef MODELWHEEL_ELEMENT
/// out[i][j] = sum of lhs[i][...] * rhs[...][j] for `Rows` rows and `Vectors` vectors of columns.
template <class T, int Lanes, int Rows, int Vectors>
MODELWHEEL_NOINLINE void tile(const Strip<T> &strip, const T *const *lhs, T *const *out) {
  constexpr int kWidth = Lanes;
  const std::int64_t last = strip.last;
  Vector<T, Lanes> sum[Rows][Vectors];
  const T *row[Rows];
  MODELWHEEL_UNROLL
  for (int i = 0; i < Rows; ++i) {
    row[i] = lhs[i];
    MODELWHEEL_UNROLL
    for (int j = 0; j < Vectors; ++j)
      sum[i][j] =
          strip.accumulate ? load<T, Lanes>(out[i] + (j + 1 < Vectors ? j * kWidth : last)) : Vector<T, Lanes>{};
  }
  const T *rhs = strip.rhs;
  const std::int64_t lhs_step = strip.lhs_step, rhs_step = strip.rhs_step;
  const std::int64_t panel = strip.panel, rhs_last = strip.rhs_last;
  for (std::int64_t s = 0; s < strip.num_segments; ++s) {
    std::int64_t at = strip.segments[s].lhs;
    if (!strip.packed) rhs = strip.rhs + strip.segments[s].rhs;
    for (std::int64_t k = strip.depth; k > 0; --k) {
      add_products<T, Lanes, Rows, Vectors>(row, at, rhs, panel, rhs_last, sum);
      at += lhs_step;
      rhs += rhs_step;
    }
  }
  store_sums<T, Lanes>(strip.epilogue, out, strip.column, last, sum);
}
#endif

/// Runs the tile of the given size, 1 <= vectors <= kMaxVectors and 1 <= rows <= tile_rows(vectors), or one row of
/// kRowVectors.
template <class T, int Lanes>
MODELWHEEL_INLINE void tile_of(int rows, int vectors, const Strip<T> &strip, const T *const *lhs, T *const *out) {
  GemmCalls<T>::tile(kWidthOf<T, Lanes>, vectors, rows, strip, lhs, out);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
