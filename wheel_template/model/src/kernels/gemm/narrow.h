// src/kernels/gemm/narrow.h - products with few columns: vectors run along the inner dimension instead.
#pragma once

#include "kernels/base/shuffle.h"
#include "kernels/elementwise/epilogue.h"
#include "kernels/gemm/shape.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Rows computed together.
inline constexpr int kNarrowRows = 4;
/// Most rows for which one column after the other is computed.
inline constexpr std::int64_t kNarrowRun = 32;

/// Whether gemm_narrow is faster than gemm_wide: vectors must run along lhs, and summing their lanes costs about as
/// much as ten further vectors. There is scratch memory for less than a vector of columns; short segments have no
/// vectors, however many of them there are.
template <class T>
constexpr bool prefers_narrow(const Gemm &g) {
  const std::int64_t vectors = g.depth / kLanes<T> + g.depth % kLanes<T> / kPart<T>;
  return g.panel == 0 && g.lhs_k == 1 && g.n < kLanes<T> &&
         g.n * (g.num_segments * vectors + 10) < g.num_segments * g.depth;
}

/// Elements of scratch memory that gemm_narrow may need.
template <class T>
constexpr std::int64_t gemm_narrow_scratch(std::int64_t depth, std::int64_t n) {
  return n < kLanes<T> ? n * depth : 0;
}

/// Rows and columns of which each has its part of the inner dimension contiguous.
template <class T>
struct NarrowRun {
  /// Evenly spaced rows.
  const T *lhs;
  std::int64_t rows, lhs_step;
  /// The first column. Its segments follow each other when packed; otherwise Segment::rhs is their place.
  const T *rhs;
  std::int64_t rhs_step;
  bool packed;
  T *out;
  std::int64_t out_step;
};

/// Adds to `sum` the products of four rows with `Columns` columns over one segment.
template <class T, int Columns, int Sums>
MODELWHEEL_INLINE void narrow_segment(const T *const (&row)[kNarrowRows], const T *column, std::int64_t column_step,
                                      std::int64_t depth, Vector<T> (&sum)[Sums][Columns][kNarrowRows],
                                      Part<T> (&part)[Columns][kNarrowRows]) {
  constexpr std::int64_t kWidth = kLanes<T>, kSmall = kPart<T>;
  std::int64_t k = 0;
  for (; k + Sums * kWidth <= depth; k += Sums * kWidth) {
    MODELWHEEL_UNROLL
    for (int u = 0; u < Sums; ++u) {
      MODELWHEEL_UNROLL
      for (int i = 0; i < kNarrowRows; ++i) {
        const Vector<T> left = load(row[i] + k + u * kWidth);
        MODELWHEEL_UNROLL
        for (int j = 0; j < Columns; ++j) sum[u][j][i] += left * load(column + j * column_step + k + u * kWidth);
      }
    }
  }
  for (; k + kSmall <= depth; k += kSmall) {
    MODELWHEEL_UNROLL
    for (int i = 0; i < kNarrowRows; ++i) {
      const Part<T> left = load<T, kSmall>(row[i] + k);
      MODELWHEEL_UNROLL
      for (int j = 0; j < Columns; ++j) part[j][i] += left * load<T, kSmall>(column + j * column_step + k);
    }
  }
  for (; k < depth; ++k) {
    MODELWHEEL_UNROLL
    for (int i = 0; i < kNarrowRows; ++i) {
      MODELWHEEL_UNROLL
      for (int j = 0; j < Columns; ++j) part[j][i][0] += row[i][k] * column[j * column_step + k];
    }
  }
}

/// The sums over the lanes of each of four rows.
template <class T>
MODELWHEEL_INLINE void store_sums(const Vector<T> (&sum)[kNarrowRows], const Part<T> (&part)[kNarrowRows],
                                  T *const (&out)[kNarrowRows]) {
  MODELWHEEL_UNROLL
  for (int first = 0; first < kNarrowRows; first += kPart<T>) {
    Part<T> square[kPart<T>];
    MODELWHEEL_UNROLL
    for (int i = 0; i < kPart<T>; ++i) square[i] = part[first + i] + sum_of_parts<T>(sum[first + i]);
    transpose_square<T>(square);
    MODELWHEEL_UNROLL
    for (int i = 1; i < kPart<T>; ++i) square[0] += square[i];
    MODELWHEEL_UNROLL
    for (int i = 0; i < kPart<T>; ++i) *out[first + i] = square[0][i];
  }
}

/// `Columns` columns of a run.
template <class T, int Columns>
MODELWHEEL_NOINLINE void narrow_run(const Gemm &g, const NarrowRun<T> &run) {
  // Enough independent sums to hide the latency of an addition.
  constexpr int kSums = Columns == 1 ? 2 : 1;
  for (std::int64_t done = 0; done < run.rows; done += kNarrowRows) {
    Vector<T> sum[kSums][Columns][kNarrowRows] = {};
    Part<T> part[Columns][kNarrowRows] = {};
    std::int64_t at[kNarrowRows];
    // Past the end, the last row is computed again.
    MODELWHEEL_UNROLL
    for (int i = 0; i < kNarrowRows; ++i) at[i] = smaller_of(done + i, run.rows - 1);
    for (std::int64_t s = 0; s < g.num_segments; ++s) {
      const T *row[kNarrowRows];
      MODELWHEEL_UNROLL
      for (int i = 0; i < kNarrowRows; ++i) row[i] = run.lhs + g.segments[s].lhs + at[i] * run.lhs_step;
      const T *column = run.rhs + (run.packed ? s * g.depth : g.segments[s].rhs);
      narrow_segment<T, Columns, kSums>(row, column, run.rhs_step, g.depth, sum, part);
    }
    MODELWHEEL_UNROLL
    for (int j = 0; j < Columns; ++j) {
      T *out[kNarrowRows];
      MODELWHEEL_UNROLL
      for (int i = 0; i < kNarrowRows; ++i) {
        if (kSums > 1) sum[0][j][i] += sum[kSums - 1][j][i];
        out[i] = run.out + at[i] * run.out_step + j * g.out_n;
      }
      store_sums<T>(sum[0][j], part[j], out);
    }
  }
}

#ifdef MODELWHEEL_ELEMENT
/// Computes a product for which prefers_narrow holds; see `gemm`. `scratch` has gemm_narrow_scratch elements.
template <class T>
MODELWHEEL_NOINLINE void gemm_narrow(const Gemm &g, const T *lhs, const T *rhs, T *out, T *scratch,
                                     const Epilogue<T> *epilogue) {
  const bool packed = g.rhs_k != 1;
  const std::int64_t rhs_step = packed ? g.num_segments * g.depth : g.rhs_n;
  if (packed) {
    T *next = scratch;
    for (std::int64_t j = 0; j < g.n; ++j)
      for (std::int64_t s = 0; s < g.num_segments; ++s)
        for (std::int64_t k = 0; k < g.depth; ++k) *next++ = rhs[g.segments[s].rhs + k * g.rhs_k + j * g.rhs_n];
    rhs = scratch;
  }
  const RowAxis &inner = g.rows[kRowAxes - 1];
  const RowAxis outer[kRowAxes] = {g.rows[0], g.rows[1], g.rows[2], {1, 0, 0}};
  RowCursor<T> cursor(outer, lhs, out);
  for (std::int64_t runs = inner.count > 0 ? num_rows(g) / inner.count : 0; runs > 0; --runs) {
    const T *from;
    T *to;
    cursor.next(from, to);
    // Few enough rows to stay in cache while all columns are computed.
    for (std::int64_t done = 0; done < inner.count; done += kNarrowRun) {
      NarrowRun<T> run{from + done * inner.lhs,
                       smaller_of(kNarrowRun, inner.count - done),
                       inner.lhs,
                       rhs,
                       rhs_step,
                       packed,
                       to + done * inner.out,
                       inner.out};
      for (std::int64_t j = 0; j + 2 <= g.n; j += 2) {
        narrow_run<T, 2>(g, run);
        run.rhs += 2 * rhs_step;
        run.out += 2 * g.out_n;
      }
      if (g.n % 2 != 0) narrow_run<T, 1>(g, run);
      if (epilogue != nullptr) finish_rows(*epilogue, to + done * inner.out, run.rows, inner.out, 0, g.n);
    }
  }
}
#endif

}  // namespace modelwheel::MODELWHEEL_LEVEL
