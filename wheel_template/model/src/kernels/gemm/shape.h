// src/kernels/gemm/shape.h - the products that gemm.h computes: rows and an inner dimension of any layout.
#pragma once

#include "kernels/base/level.h"
#include "kernels/base/thresholds.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// A run of the inner dimension that is evenly spaced in memory; a convolution has several for each filter.
struct Segment {
  /// Offset, in elements, of its first element from the start of each lhs row.
  std::int64_t lhs;
  /// Offset, in elements, of its first row from the start of rhs.
  std::int64_t rhs;
};

/// One of the nested axes that the rows of the result run over; offsets in elements.
struct RowAxis {
  std::int64_t count, lhs, out;
};

inline constexpr int kRowAxes = 4;

/// out[row][j] = sum over segments and k of lhs[row + segment.lhs + k*lhs_k] * rhs[segment.rhs + k*rhs_k + j*rhs_n].
struct Gemm {
  /// Outermost first.
  RowAxis rows[kRowAxes];
  const Segment *segments;
  std::int64_t num_segments;
  /// Elements of each segment, and how far apart they are in lhs and rhs.
  std::int64_t depth, lhs_k, rhs_k;
  /// Number of columns, and how far apart they are in rhs and out.
  std::int64_t n, rhs_n, out_n;
  /// If not 0, rhs is in panels of kPanel columns, so many elements apart, and n is a multiple of it. Weights are
  /// packed when they are built, in the same way for all levels: a vector is as close to those of the next k as it can
  /// be. For floats alone: a strip of any level then has whole panels, or is in one.
  std::int64_t panel = 0;
};

/// Whether products of such elements may have weights in panels.
template <class T>
inline constexpr bool kHasPanels = sizeof(T) == sizeof(float);

/// Where a column begins in rhs.
constexpr std::int64_t column_offset(const Gemm &g, std::int64_t column) {
  return g.panel == 0 ? column * g.rhs_n : column / kPanel * g.panel + column % kPanel;
}

/// Number of rows of the result.
constexpr std::int64_t num_rows(const Gemm &g) {
  std::int64_t rows = 1;
  for (const RowAxis &axis : g.rows) rows *= axis.count;
  return rows;
}

/// Fewest results that are not all in the second-level cache when they are written.
inline constexpr std::int64_t kFarResults = 192 * 1024;

/// Whether results are worth fetching before they are written: there are many, and rows of them are not shorter than
/// those of lhs.
constexpr bool fetches_results(const Gemm &g) {
  return g.n >= g.num_segments * g.depth && num_rows(g) * g.n >= kFarResults;
}

/// Walks over the rows of a result.
template <class T>
class RowCursor {
 public:
  RowCursor(const RowAxis *axes, const T *lhs, T *out) : axes_(axes), lhs_(lhs), out_(out) {}

  MODELWHEEL_INLINE void next(const T *&lhs, T *&out) {
    lhs = lhs_;
    out = out_;
    for (int axis = kRowAxes - 1; axis >= 0; --axis) {
      const RowAxis &a = axes_[axis];
      lhs_ += a.lhs;
      out_ += a.out;
      if (++at_[axis] < a.count) return;
      lhs_ -= a.count * a.lhs;
      out_ -= a.count * a.out;
      at_[axis] = 0;
    }
  }

 private:
  const RowAxis *axes_;
  const T *lhs_;
  T *out_;
  std::int64_t at_[kRowAxes] = {};
};

}  // namespace modelwheel::MODELWHEEL_LEVEL
