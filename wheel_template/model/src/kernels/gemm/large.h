// src/kernels/gemm/large.h - products with weights in panels that are too large for the caches next to the core.
//
// Each weight is read once for all rows that fit the second-level cache. While one strip of columns is multiplied, the
// next one is fetched, evenly over the whole time: a core can wait for few lines at once, and those of its operands are
// among them. Rows are packed, some of the inner dimension at a time, so that a tile can have many of them (Goto & van
// de Geijn, ACM TOMS 34(3), 2008).
#pragma once

#include "kernels/base/shuffle.h"
#include "kernels/gemm/kernels.h"
#include "kernels/gemm/tile.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Vectors of a tile of up to kLargeRows rows: two rows of rhs vectors need few loads, and there are registers for the
/// sums.
inline constexpr int kLargeVectors = 2;
template <class T>
inline constexpr std::int64_t kLargeWidth = kLargeVectors * kLanes<T>;

/// Fewest weights: half of a small second-level cache.
inline constexpr std::int64_t kLargeWeights = 32 * 1024;
/// Fewest columns, and most rows for each column: packing rows takes longer for few columns, and fetching the weights
/// is a smaller part of the time with many rows.
inline constexpr std::int64_t kLargeColumns = 128, kLargeRowsPerColumn = 2;
/// Longest inner dimension summed at once, and most elements of packed rows: they stay in the second-level cache.
inline constexpr std::int64_t kLargeDepth = 512;
inline constexpr std::int64_t kLargeLhs = 128 * 1024;

/// Whether columns and weights suit gemm_large.
template <class T>
constexpr bool has_large_weights(std::int64_t depth, std::int64_t n, std::int64_t panel) {
  return panel != 0 && n >= kLargeColumns && n % kLargeWidth<T> == 0 && depth * n >= kLargeWeights;
}

/// Whether gemm_large computes it: each panel is read from one end to the other.
template <class T>
constexpr bool prefers_large(const Gemm &g) {
  if (!has_large_weights<T>(g.num_segments * g.depth, g.n, g.panel)) return false;
  const std::int64_t rows = num_rows(g);
  if (rows < kLeastLargeRows || rows > kLargeRowsPerColumn * g.n) return false;
  if (g.out_n != 1 || g.lhs_k != 1 || g.rhs_k != kPanel) return false;
  for (std::int64_t s = 1; s < g.num_segments; ++s)
    if (g.segments[s].rhs != g.segments[0].rhs + s * g.depth * kPanel) return false;
  return true;
}

/// Part of the inner dimension that is summed at once.
constexpr std::int64_t large_depth(std::int64_t depth) { return divide_up(depth, divide_up(depth, kLargeDepth)); }

/// Most rows that are packed together.
constexpr std::int64_t large_rows(std::int64_t depth) { return kLargeLhs / large_depth(depth); }

/// Elements of scratch memory that gemm_large needs for at most so many rows and such a depth.
template <class T>
constexpr std::int64_t gemm_large_scratch(std::int64_t rows, std::int64_t depth, std::int64_t n, std::int64_t panel) {
  if (!has_large_weights<T>(depth, n, panel)) return 0;
  return smaller_of(kLargeLhs, smaller_of(depth, kLargeDepth) * smaller_of(rows, kLargeRowsPerColumn * n));
}

/// A tile of packed rows with a strip of columns.
template <class T>
struct LargeTile {
  /// Element k of all rows, then k + 1 of all.
  const T *lhs;
  const T *rhs;
  std::int64_t panel, depth;
  /// What is fetched meanwhile, `ahead_step` elements for each k.
  const T *ahead;
  std::int64_t ahead_step;
  /// As in Strip.
  bool accumulate;
  const Epilogue<T> *epilogue;
  std::int64_t column;
  T *const *out;
  /// Whether the results are fetched, too.
  bool fetches;
};

/// Adds the products of one element of each packed row with two vectors of rhs.
template <class T, int Rows>
MODELWHEEL_INLINE void add_large(const T *lhs, const T *rhs, std::int64_t second,
                                 Vector<T> (&sum)[Rows][kLargeVectors]) {
  Vector<T> right[kLargeVectors] = {load(rhs), load(rhs + second)};
  keep_in_register(right[0]);
  keep_in_register(right[1]);
  MODELWHEEL_UNROLL
  for (int i = 0; i < Rows; ++i) {
    const Vector<T> left = splat<T>(lhs[i]);
    MODELWHEEL_UNROLL
    for (int j = 0; j < kLargeVectors; ++j) sum[i][j] += left * right[j];
  }
}

#ifdef MODELWHEEL_ELEMENT
template <class T, int Rows>
MODELWHEEL_NOINLINE void large_tile(const LargeTile<T> &t) {
  constexpr int kWidth = kLanes<T>;
  Vector<T> sum[Rows][kLargeVectors];
  MODELWHEEL_UNROLL
  for (int i = 0; i < Rows; ++i) {
    MODELWHEEL_UNROLL
    for (int j = 0; j < kLargeVectors; ++j) sum[i][j] = t.accumulate ? load(t.out[i] + j * kWidth) : Vector<T>{};
  }
  const T *lhs = t.lhs, *rhs = t.rhs, *ahead = t.ahead;
  const std::int64_t second = kWidth / kPanel * t.panel + kWidth % kPanel, ahead_step = 2 * t.ahead_step;
  const std::int64_t ahead_second = t.ahead_step / kPanel * kPanel;
  // One row of results after the other is fetched in the first half of the time.
  const std::int64_t part = t.depth / (4 * Rows) * 2;
  std::int64_t k = t.depth;
  for (int i = t.fetches ? 0 : Rows; i <= Rows; ++i) {
    if (i < Rows) fetch_results<T, kWidth, kLargeVectors>(t.epilogue, t.out[i]);
    for (const std::int64_t end = i < Rows ? k - part : 1; k > end; k -= 2) {
      // Into the second-level cache; the second may be the same line.
      __builtin_prefetch(ahead, 0, 2);
      __builtin_prefetch(ahead + ahead_second, 0, 2);
      ahead += ahead_step;
      add_large<T, Rows>(lhs, rhs, second, sum);
      add_large<T, Rows>(lhs + Rows, rhs + kPanel, second, sum);
      lhs += 2 * Rows;
      rhs += 2 * kPanel;
    }
  }
  if (k > 0) add_large<T, Rows>(lhs, rhs, second, sum);
  store_sums<T, kWidth>(t.epilogue, t.out, t.column, kWidth, sum);
}
#endif

/// One of several parts of some rows, as far as possible equally many.
struct LargeRows {
  std::int64_t first, count;
};

constexpr LargeRows part_of_rows(std::int64_t part, std::int64_t parts, std::int64_t rows) {
  const std::int64_t first = part * rows / parts;
  return {first, (part + 1) * rows / parts - first};
}

/// Copies `depth` elements of each row, so that element k of all rows is followed by element k + 1 of all.
template <class T>
MODELWHEEL_NOINLINE void pack_large(const T *const *rows, std::int64_t count, std::int64_t depth, T *packed) {
  constexpr int kSize = kPart<T>;
  std::int64_t i = 0;
  for (; i + kSize <= count; i += kSize) {
    std::int64_t k = 0;
    for (; k + kSize <= depth; k += kSize) {
      Part<T> square[kSize];
      MODELWHEEL_UNROLL
      for (int r = 0; r < kSize; ++r) square[r] = load<T, kSize>(rows[i + r] + k);
      transpose_square<T>(square);
      MODELWHEEL_UNROLL
      for (int r = 0; r < kSize; ++r) store<T, kSize>(packed + (k + r) * count + i, square[r]);
    }
    for (; k < depth; ++k)
      for (int r = 0; r < kSize; ++r) packed[k * count + i + r] = rows[i + r][k];
  }
  for (; i < count; ++i)
    for (std::int64_t k = 0; k < depth; ++k) packed[k * count + i] = rows[i][k];
}

/// Packs the elements `begin` to `begin + depth` of the inner dimension of one tile.
template <class T>
MODELWHEEL_INLINE void pack_large_rows(const Gemm &g, const T *const *lhs, std::int64_t count, std::int64_t begin,
                                       std::int64_t depth, T *packed) {
  for (std::int64_t k = begin; k < begin + depth;) {
    const std::int64_t segment = k / g.depth, at = k % g.depth;
    const std::int64_t part = smaller_of(g.depth - at, begin + depth - k);
    const T *rows[kLargeRows];
    for (std::int64_t i = 0; i < count; ++i) rows[i] = lhs[i] + g.segments[segment].lhs + at;
    pack_large(rows, count, part, packed);
    packed += part * count;
    k += part;
  }
}

/// A block of a product: some rows, packed, and some of the inner dimension.
template <class T>
struct LargeBlock {
  RowCursor<T> rows;
  std::int64_t count, begin, depth;
  const T *packed;
  /// The first strip of the next block, or null.
  const T *next;
  bool accumulate;
  const Epilogue<T> *epilogue;
};

/// One strip of columns of a block.
template <class T>
MODELWHEEL_INLINE void large_strip(const Gemm &g, const LargeBlock<T> &block, std::int64_t column, const T *rhs,
                                   const T *ahead) {
  const std::int64_t tiles = divide_up(block.count, kLargeRows);
  // Each panel of the next strip is fetched by as many tiles.
  constexpr std::int64_t kPanels = larger_of(kLargeWidth<T> / kPanel, std::int64_t{1});
  const std::int64_t fetching = larger_of(tiles / kPanels, std::int64_t{1}), step = divide_up(kPanel, fetching);
  RowCursor<T> cursor = block.rows;
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const LargeRows rows = part_of_rows(tile, tiles, block.count);
    T *out[kLargeRows];
    for (std::int64_t i = 0; i < rows.count; ++i) {
      const T *from;
      cursor.next(from, out[i]);
      out[i] += column;
    }
    const bool fetches = ahead != nullptr && tile < fetching * kPanels;
    GemmCalls<T>::large_tile(
        static_cast<int>(rows.count),
        {block.packed + rows.first * block.depth, rhs, g.panel, block.depth,
         fetches ? ahead + tile / fetching * g.panel + tile % fetching * step * block.depth : rhs, fetches ? step : 0,
         block.accumulate, block.epilogue, column, out, block.epilogue != nullptr && fetches_results(g)});
  }
}

/// Packs some rows and computes their part of the results; returns the cursor of the next row.
template <class T>
MODELWHEEL_INLINE RowCursor<T> large_block(const Gemm &g, const LargeBlock<T> &block, const T *rhs, T *packed) {
  RowCursor<T> cursor = block.rows;
  const std::int64_t tiles = divide_up(block.count, kLargeRows);
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const LargeRows rows = part_of_rows(tile, tiles, block.count);
    const T *from[kLargeRows];
    T *to;
    for (std::int64_t i = 0; i < rows.count; ++i) cursor.next(from[i], to);
    pack_large_rows(g, from, rows.count, block.begin, block.depth, packed + rows.first * block.depth);
  }
  for (std::int64_t column = 0; column < g.n; column += kLargeWidth<T>) {
    const std::int64_t next = column + kLargeWidth<T>;
    large_strip(g, block, column, rhs + column_offset(g, column),
                next < g.n ? rhs + column_offset(g, next) : block.next);
  }
  return cursor;
}

#ifdef MODELWHEEL_ELEMENT
/// Computes a product for which prefers_large holds; see `gemm`. `scratch` has gemm_large_scratch elements.
template <class T>
MODELWHEEL_NOINLINE void gemm_large(const Gemm &g, const T *lhs, const T *rhs, T *out, T *scratch,
                                    const Epilogue<T> *epilogue) {
  const std::int64_t rows = num_rows(g), depth = g.num_segments * g.depth, step = large_depth(depth);
  const std::int64_t groups = divide_up(rows, large_rows(depth));
  rhs += g.segments[0].rhs;
  RowCursor<T> cursor(g.rows, lhs, out);
  for (std::int64_t group = 0; group < groups; ++group) {
    RowCursor<T> next = cursor;
    for (std::int64_t k = 0; k < depth; k += step) {
      const bool complete = k + step >= depth;
      const T *const from = rhs + k * kPanel;
      const T *const ahead = !complete ? from + step * kPanel : group + 1 < groups ? rhs : nullptr;
      const LargeBlock<T> block{cursor,  part_of_rows(group, groups, rows).count,
                                k,       smaller_of(step, depth - k),
                                scratch, ahead,
                                k > 0,   complete ? epilogue : nullptr};
      next = large_block<T>(g, block, from, scratch);
    }
    cursor = next;
  }
}
#endif

}  // namespace modelwheel::MODELWHEEL_LEVEL
