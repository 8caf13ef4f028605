// src/kernels/gemm/wide.h - products with enough columns for vectors to run along them.
//
// Loops around the tile of tile.h: columns in strips, the inner dimension in blocks that stay in cache, rows
// in tiles (Goto & van de Geijn, ACM TOMS 34(3), 2008). rhs is used in place if its columns are contiguous
// and close; otherwise each strip is packed into scratch memory. lhs is never packed.
#pragma once

#include <cstring>

#include "kernels/base/shuffle.h"
#include "kernels/gemm/shape.h"
#include "kernels/gemm/tile.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Longest inner dimension summed at once: a packed strip of that length stays in the second-level cache.
inline constexpr std::int64_t kMaxDepth = 384;
/// Widest strip that is packed.
template <class T>
inline constexpr std::int64_t kMaxWidth = kTileVectors * kLanes<T>;

/// Elements of scratch memory that gemm_wide needs, for an inner dimension of `depth` elements and `n` columns.
template <class T>
constexpr std::int64_t gemm_wide_scratch(std::int64_t depth, std::int64_t n) {
  const std::int64_t width = divide_up(n, kLanes<T>) * kLanes<T>;
  return smaller_of(depth, kMaxDepth) * smaller_of(width, kMaxWidth<T>);
}

/// A range of columns: `vectors` vectors from `first`, the last of them `last` columns further.
struct Columns {
  std::int64_t first;
  int vectors;
  std::int64_t last;
};

/// So many vectors of columns. A last vector that would reach past the end moves left, over columns that are then
/// computed twice to the same result.
template <int Lanes>
MODELWHEEL_INLINE constexpr Columns columns_from(std::int64_t done, std::int64_t n, std::int64_t vectors) {
  const std::int64_t end = larger_of(n - Lanes, std::int64_t{0});
  if (vectors == 1) return {smaller_of(done, end), 1, 0};
  return {done, static_cast<int>(vectors), smaller_of((vectors - 1) * Lanes, end - done)};
}

/// How far apart kPanel columns of a strip are in rhs, in place or packed when the product is computed.
constexpr std::int64_t panel_of(const Gemm &g) { return g.panel == 0 ? kPanel : g.panel; }

/// Where the last vector of a strip is in rhs.
constexpr std::int64_t last_offset(const Gemm &g, const Columns &columns) {
  return g.panel == 0 ? columns.last : column_offset(g, columns.last);
}

/// The columns of the next strip. Strips are equally wide, as far as possible.
template <class T, int Lanes>
constexpr Columns next_columns(std::int64_t done, std::int64_t n, int max_vectors) {
  const std::int64_t left = divide_up(n - done, Lanes);
  if (max_vectors == kRowVectors && left >= kRowVectors) return columns_from<Lanes>(done, n, kRowVectors);
  return columns_from<Lanes>(done, n, divide_up(left, divide_up(left, kMaxVectors<T, Lanes>)));
}

/// Copies `depth` rows of n contiguous columns to rows of `width` elements. Elements past column n are not used, but
/// must not be left to chance: subnormal numbers would slow the product down.
template <class T, int Lanes>
MODELWHEEL_INLINE void pack_rows(const T *from, std::int64_t rhs_k, std::int64_t depth, std::int64_t n,
                                 std::int64_t width, T *packed) {
  constexpr std::int64_t kWidth = Lanes;
  std::int64_t k = 0;
  if (n < kWidth) {
    // A whole vector may be read as long as it ends within the last row.
    for (; k < depth && k * rhs_k + kWidth <= (depth - 1) * rhs_k + n; ++k)
      store<T, Lanes>(packed + k * width, load<T, Lanes>(from + k * rhs_k));
    for (; k < depth; ++k)
      for (std::int64_t j = 0; j < width; ++j) packed[k * width + j] = j < n ? from[k * rhs_k + j] : T{0};
  }
  for (; k < depth; ++k) {
    for (std::int64_t j = 0; j + kWidth < n; j += kWidth)
      store<T, Lanes>(packed + k * width + j, load<T, Lanes>(from + k * rhs_k + j));
    store<T, Lanes>(packed + k * width + n - kWidth, load<T, Lanes>(from + k * rhs_k + n - kWidth));
  }
}

/// Copies the columns of a strip to consecutive rows of `width` elements.
template <class T, int Lanes>
MODELWHEEL_NOINLINE void pack(const Gemm &g, const Strip<T> &strip, const T *rhs, std::int64_t n, std::int64_t width,
                              T *packed) {
  for (std::int64_t s = 0; s < strip.num_segments; ++s, packed += strip.depth * width) {
    const T *from = rhs + strip.segments[s].rhs;
    if (g.rhs_n == 1) {
      pack_rows<T, Lanes>(from, g.rhs_k, strip.depth, n, width, packed);
      continue;
    }
    if (g.rhs_k == 1) transpose(from, g.rhs_n, n, strip.depth, packed, width);
    for (std::int64_t k = 0; k < strip.depth; ++k)
      for (std::int64_t j = g.rhs_k == 1 ? n : 0; j < width; ++j)
        packed[k * width + j] = j < n ? from[k * g.rhs_k + j * g.rhs_n] : T{0};
  }
}

/// The tiles, equally high as far as possible, of so many rows of a strip with so many vectors.
constexpr std::int64_t tiles_of_rows(int vectors, std::int64_t rows) {
  return divide_up(rows, tile_rows(smaller_of(vectors, kTileVectors)));
}

/// Computes some rows of a strip, from the cursor's on; returns the cursor of the next row. `k` and `column` are
/// offsets in rows of lhs and out. Rows that cannot be written vector by vector go through a buffer.
template <class T, int Lanes>
MODELWHEEL_NOINLINE RowCursor<T> strip_rows(const Gemm &g, Strip<T> strip, int vectors, std::int64_t n,
                                            RowCursor<T> cursor, std::int64_t rows, std::int64_t k,
                                            std::int64_t column) {
  alignas(64) T buffer[kTileRows][kMaxWidth<T>];
  const bool direct = g.out_n == 1 && n >= Lanes;
  const Epilogue<T> *const epilogue = strip.epilogue;
  if (!direct) {
    std::memset(buffer, 0, sizeof buffer);
    strip.epilogue = nullptr;
  }
  for (std::int64_t tiles = tiles_of_rows(vectors, rows); tiles > 0; --tiles) {
    const int count = static_cast<int>(divide_up(rows, tiles));
    rows -= count;
    const T *from[kTileRows];
    T *to[kTileRows], *destination[kTileRows];
    for (int i = 0; i < count; ++i) {
      cursor.next(from[i], destination[i]);
      from[i] += k;
      destination[i] += column;
      to[i] = direct ? destination[i] : buffer[i];
    }
    if (!direct && strip.accumulate)
      for (int i = 0; i < count; ++i)
        for (std::int64_t j = 0; j < n; ++j) buffer[i][j] = destination[i][j * g.out_n];
    tile_of<T, Lanes>(count, vectors, strip, from, to);
    if (!direct)
      for (int i = 0; i < count; ++i)
        for (std::int64_t j = 0; j < n; ++j) destination[i][j * g.out_n] = buffer[i][j];
    if (!direct && epilogue != nullptr)
      for (int i = 0; i < count; ++i) finish_rows(*epilogue, destination[i], 1, 0, strip.column, n);
  }
  return cursor;
}

/// Whether a strip of rhs is worth copying together: many rows use it, and in place it would crowd a few cache sets.
template <class T, int Lanes>
constexpr bool worth_packing(const Gemm &g, std::int64_t rows) {
  if (g.panel != 0) return false;
  if (g.rhs_n != 1 || g.n < Lanes) return true;
  const std::int64_t stride = g.rhs_k * static_cast<std::int64_t>(sizeof(T));
  return g.n > kMaxWidth<T> && stride >= 512 && rows >= (stride < 4096 ? 128 : 64);
}

/// How the inner dimension is cut into blocks that keep a strip of rhs in cache while several tiles use it.
struct Blocks {
  /// Segments of each block, and how many elements of each segment.
  std::int64_t segments, step;
};

constexpr Blocks blocks_of(const Gemm &g, std::int64_t rows, bool packed) {
  const std::int64_t limit = packed || rows > kTileRows ? kMaxDepth : larger_of(g.num_segments * g.depth, kMaxDepth);
  const std::int64_t step = divide_up(g.depth, divide_up(g.depth, limit));
  // Scratch memory has room for whole segments up to the limit.
  const std::int64_t batches = divide_up(g.num_segments, limit / step);
  return {step < g.depth || g.num_segments == 0 ? 1 : divide_up(g.num_segments, batches), step};
}

/// Most vectors of a strip of some rows.
constexpr int widest_strip(const Gemm &g, std::int64_t rows, bool packed) {
  return rows == 1 && !packed && g.out_n == 1 ? kRowVectors : kTileVectors;
}

/// Computes all columns of some rows; returns the cursor of the next row.
template <class T, int Lanes>
MODELWHEEL_INLINE RowCursor<T> wide_rows(const Gemm &g, RowCursor<T> cursor, std::int64_t rows, const T *rhs,
                                         T *scratch, bool packed, const Blocks &blocks, const Epilogue<T> *epilogue) {
  const int max_vectors = widest_strip(g, rows, packed);
  RowCursor<T> next = cursor;
  for (std::int64_t done = 0; done < g.n;) {
    const Columns columns = next_columns<T, Lanes>(done, g.n, max_vectors);
    const std::int64_t n = smaller_of(columns.last + Lanes, g.n), width = columns.last + Lanes;
    bool accumulate = false;
    // At least once: an empty sum is zero.
    for (std::int64_t s = 0; s == 0 || s < g.num_segments; s += blocks.segments)
      for (std::int64_t k = 0; k == 0 || k < g.depth; k += blocks.step) {
        const T *right = rhs + k * g.rhs_k + column_offset(g, columns.first);
        const bool complete = s + blocks.segments >= g.num_segments && k + blocks.step >= g.depth;
        Strip<T> strip{g.segments + s,
                       smaller_of(blocks.segments, g.num_segments - s),
                       smaller_of(blocks.step, g.depth - k),
                       g.lhs_k,
                       right,
                       g.rhs_k,
                       packed,
                       accumulate,
                       columns.last,
                       panel_of(g),
                       last_offset(g, columns),
                       complete ? epilogue : nullptr,
                       columns.first};
        if (packed) {
          pack<T, Lanes>(g, strip, right, n, width, scratch);
          strip.rhs = scratch;
          strip.rhs_step = width;
        }
        next = strip_rows<T, Lanes>(g, strip, columns.vectors, n, cursor, rows, k * g.lhs_k, columns.first * g.out_n);
        accumulate = true;
      }
    done = columns.first + n;
  }
  return next;
}

/// Bytes of results that are computed before the next rows: strips are narrow, and memory is written fastest in order.
inline constexpr std::int64_t kRowsBytes = 64 * 1024;

/// How many of the rows are computed before the next.
template <class T>
constexpr std::int64_t rows_together(const Gemm &g, std::int64_t rows, bool packed) {
  const std::int64_t fitting = kRowsBytes / larger_of(g.n * static_cast<std::int64_t>(sizeof(T)), std::int64_t{1});
  // A packed strip is used for all rows.
  return packed ? larger_of(rows, std::int64_t{1}) : (fitting / kTileRows + 1) * kTileRows;
}

#ifdef MODELWHEEL_ELEMENT
/// Computes the result by vectors of `Lanes` elements. If these are not the widest, n < 2 * Lanes.
template <class T, int Lanes>
MODELWHEEL_NOINLINE void gemm_lanes(const Gemm &g, const T *lhs, const T *rhs, T *out, T *scratch,
                                    const Epilogue<T> *epilogue) {
  const std::int64_t rows = num_rows(g);
  const bool packed = worth_packing<T, Lanes>(g, rows);
  const Blocks blocks = blocks_of(g, rows, packed);
  const std::int64_t limit = rows_together<T>(g, rows, packed);
  RowCursor<T> cursor(g.rows, lhs, out);
  for (std::int64_t done = 0; done < rows; done += limit)
    cursor = wide_rows<T, Lanes>(g, cursor, smaller_of(limit, rows - done), rhs, scratch, packed, blocks, epilogue);
}
#endif

/// Whether vectors are half as wide, so that few columns are written as a whole.
template <class T>
constexpr bool has_half_vectors(const Gemm &g) {
  return g.n < kLanes<T> && g.n >= kHalfLanes<T>;
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
