// src/kernels/gemm/run.h - products with a short inner dimension and many evenly spaced rows.
//
// Sums stay in registers from the first product to the epilogue, and all tiles of a run of rows are computed by one
// call: with eight or sixteen products for each sum, finding the rows and calling a tile would take as long as the
// tile.
#pragma once

#include "kernels/gemm/wide.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Most vectors of a tile.
template <class T, int Lanes>
inline constexpr int kRunVectors = Lanes == kLanes<T> ? kMostRunVectors : 2;
/// Most rows of a tile with one vector of columns: enough sums are in flight.
inline constexpr int kTallRows = 2 * kRunRows;
/// Longest inner dimension: with a longer one, a tile takes much longer than finding its rows.
inline constexpr std::int64_t kMaxRunDepth = 96;
/// Most elements of rhs that are packed together.
inline constexpr std::int64_t kMaxRunWeights = 64 * 1024;

/// Whether the columns of each strip are whole panels, or in one.
template <class T>
inline constexpr bool kRunInPanels = kPanel % (kRunVectors<T, kLanes<T>> * kLanes<T>) == 0 || kLanes<T> % kPanel == 0;

/// Whether strips of so many columns have nearly as many vectors as they may: otherwise gemm_wide has larger tiles.
template <class T>
constexpr bool fills_strips(std::int64_t n) {
  constexpr std::int64_t kMost = kRunVectors<T, kLanes<T>>;
  const std::int64_t vectors = divide_up(n, kLanes<T>);
  return 6 * vectors >= 5 * kMost * divide_up(vectors, kMost);
}

/// Whether rows of lhs overlap, as the windows of a convolution do.
constexpr bool rows_overlap(const Gemm &g) { return g.rows[kRowAxes - 1].lhs < g.depth; }

/// Whether rows are windows of a convolution, so that each line of an image has as many.
constexpr bool has_windows(const Gemm &g) { return g.num_segments > 1 || rows_overlap(g); }

/// Whether there is one vector of columns, of which gemm_wide has too few sums in flight to keep AVX2's multiplications
/// busy. With more registers it has enough unless rows overlap, as the windows of a convolution do.
template <class T>
constexpr bool runs_at_any_depth(const Gemm &g) {
  const bool gains = kVectorRegisters == 32 ? rows_overlap(g) : kVectorBytes == 32;
  return g.n == kLanes<T> && g.rhs_n == 1 && gains;
}

/// Rows that tiles of `tile` rows compute more than once, if there are `rows`.
constexpr std::int64_t rows_twice(std::int64_t rows, std::int64_t tile) { return divide_up(rows, tile) * tile - rows; }

/// How many of the tiles have one row less, so that none is computed twice; 0 where there are too few for that.
constexpr std::int64_t shorter_tiles(std::int64_t rows) {
  const std::int64_t twice = rows_twice(rows, kRunRows);
  return twice <= divide_up(rows, kRunRows) ? twice : 0;
}

/// Rows of the tiles of a strip with one vector.
constexpr int rows_of_tall(int tiles) {
  return tiles < kShorterTiles ? kTallRows : kTallRows - 1 - (tiles - kShorterTiles);
}

/// The tiles of one vector for more than kRunRows rows: as few as possible, and as high as they must be.
constexpr int tall_tiles(std::int64_t rows) {
  const int height = static_cast<int>(divide_up(rows, divide_up(rows, kTallRows)));
  return height == kTallRows ? kWholeTiles : kShorterTiles + kTallRows - 1 - height;
}

/// Rows of the higher tiles of a strip with several vectors.
constexpr int rows_of_tiles(int tiles) { return tiles < kShorterTiles ? kRunRows : kRunRows - (tiles - kShorterTiles); }

/// The tiles of several vectors for at least kTallRows rows: as few as possible, and about equally high.
constexpr int even_tiles(std::int64_t rows) {
  const std::int64_t count = divide_up(rows, kRunRows);
  return rows == count * kRunRows ? kWholeTiles : kShorterTiles + kRunRows - static_cast<int>(divide_up(rows, count));
}

/// Tiles that a strip has for some lines of windows only.
constexpr bool is_uneven(int vectors, int tiles) {
  return vectors == 1 ? tiles >= kShorterTiles : tiles > kShorterTiles;
}

/// How a strip of so many vectors is computed. Rows that are no windows may be those of a batch, of which there are any
/// number: then tiles have few heights.
constexpr int run_tiles(int vectors, std::int64_t rows, bool windows, bool fetches) {
  if (fetches) return kFetchingTiles;
  if (vectors == 1) return windows ? tall_tiles(rows) : kWholeTiles;
  if (windows) return even_tiles(rows);
  return shorter_tiles(rows) > 0 ? kShorterTiles : kWholeTiles;
}

/// Rows that are computed before the next: the results of some, but enough of them for the weights to be read.
template <class T>
constexpr std::int64_t rows_of_run(const Gemm &g) {
  const std::int64_t bytes = g.n * static_cast<std::int64_t>(sizeof(T)), weights = g.num_segments * g.depth * bytes;
  return (larger_of(kRowsBytes, weights / 8) / bytes / kTallRows + 1) * kTallRows;
}

/// Rows that are left for the last run. No run has fewer rows than a tile.
template <class T>
constexpr std::int64_t rows_of_last_run(const Gemm &g) {
  const std::int64_t rows = g.rows[kRowAxes - 1].count;
  if (rows < 2 * kTallRows) return rows;
  const std::int64_t most = rows_of_run<T>(g);
  return rows - (rows - kTallRows) / most * most;
}

/// Whether gemm_run computes it: what the last tile of each run computes twice costs less than what is saved for the
/// others.
template <class T>
constexpr bool prefers_run(const Gemm &g) {
  const std::int64_t depth = g.num_segments * g.depth, rows = g.rows[kRowAxes - 1].count;
  const bool is_tall = runs_at_any_depth<T>(g);
  if (g.panel == 0 && !is_tall && (depth > kMaxRunDepth || depth * g.n > kMaxRunWeights)) return false;
  if (g.panel != 0 && (!kRunInPanels<T> || (depth > kMaxRunDepth && !is_tall && !fills_strips<T>(g.n)))) return false;
  const std::int64_t vectors = smaller_of(divide_up(g.n, kLanes<T>), std::int64_t{kRunVectors<T, kLanes<T>>});
  const bool windows = has_windows(g), is_balanced = vectors == 1 && windows;
  if (g.out_n != 1 || g.n < kHalfLanes<T> || depth == 0) return false;
  if (rows < (is_balanced ? kRunRows + 1 : kTallRows)) return false;
  const std::int64_t last = rows_of_last_run<T>(g);
  std::int64_t twice = rows_twice(rows, vectors == 1 ? kTallRows : kRunRows);
  if (is_balanced) twice = rows_twice(last, rows_of_tall(tall_tiles(last)));
  if (vectors > 1 && twice > 0 && (windows || shorter_tiles(last) > 0)) twice = 0;
  return twice * depth * vectors <= 16 * rows;
}

/// Elements of scratch memory that gemm_run may need.
template <class T>
constexpr std::int64_t gemm_run_scratch(std::int64_t depth, std::int64_t n) {
  const std::int64_t width = divide_up(n, kLanes<T>) * kLanes<T>;
  return depth <= kMaxRunDepth && depth * n <= kMaxRunWeights ? depth * width : 0;
}

/// Makes the compiler keep a pointer of its own, rather than compute it from others.
template <class T>
MODELWHEEL_INLINE void keep_apart(T *&pointer) {
  asm("" : "+r"(pointer));
}

/// Evenly spaced rows, at least as many as a tile has, and strips of columns beside each other.
template <class T>
struct Run {
  const T *lhs;
  std::int64_t lhs_step;
  T *out;
  std::int64_t out_step, rows;
  /// Where the results of the same columns are that are written next, in elements from here; 0 if there are none.
  std::int64_t ahead = 0;
  /// How many strips there are, as wide as the first, and how far apart they are in rhs.
  std::int64_t strips = 1, next_strip = 0;
};

/// Rows are addressed from every third one: pointers to all of them would not fit the registers.
inline constexpr int kRowsOfBase = 3;

/// Adds the products of one element of each row, `step` apart, with vectors of one row of rhs.
template <class T, int Lanes, int Vectors, int Rows, int Bases>
MODELWHEEL_INLINE void add_run(const T *const (&base)[Bases], std::int64_t step, const T *rhs, std::int64_t panel,
                               std::int64_t last, Vector<T, Lanes> (&sum)[Rows][Vectors]) {
  Vector<T, Lanes> right[Vectors];
  load_rhs<T, Lanes>(rhs, panel, last, right);
  MODELWHEEL_UNROLL
  for (int j = 0; j < Vectors; ++j) keep_in_register(right[j]);
  MODELWHEEL_UNROLL
  for (int i = 0; i < Rows; ++i) {
    const Vector<T, Lanes> left = splat<T, Lanes>(base[i / kRowsOfBase][i % kRowsOfBase * step]);
    MODELWHEEL_UNROLL
    for (int j = 0; j < Vectors; ++j) sum[i][j] += left * right[j];
  }
}

/// Sums of a tile of a run, whose first row is `first`. With `Fetches`, one row of later results, from `ahead` on, is
/// fetched after the other.
template <class T, int Lanes, int Vectors, int Rows, bool Fetches>
MODELWHEEL_INLINE void sum_run(const Strip<T> &strip, const T *rhs, const Segment *end, const Run<T> &run,
                               const T *first, const T *ahead, Vector<T, Lanes> (&sum)[Rows][Vectors]) {
  constexpr int kBases = (Rows + kRowsOfBase - 1) / kRowsOfBase;
  const std::int64_t step = run.lhs_step, lhs_step = strip.lhs_step, rhs_step = strip.rhs_step;
  const std::int64_t part = Fetches ? divide_up(strip.depth, Rows) : strip.depth;
  const T *const all = rhs;
  for (const Segment *segment = strip.segments; segment != end; ++segment) {
    const T *base[kBases];
    MODELWHEEL_UNROLL
    for (int b = 0; b < kBases; ++b) {
      base[b] = first + segment->lhs + kRowsOfBase * b * step;
      keep_apart(base[b]);
    }
    if (!strip.packed) rhs = all + segment->rhs;
    for (std::int64_t left = strip.depth; left > 0; left -= part, ahead += run.out_step) {
      if (Fetches) fetch_results<T, Lanes, Vectors>(strip.epilogue, ahead);
      for (std::int64_t k = Fetches ? smaller_of(part, left) : part; k > 0; --k) {
        add_run<T, Lanes, Vectors, Rows>(base, step, rhs, strip.panel, strip.rhs_last, sum);
        MODELWHEEL_UNROLL
        for (int b = 0; b < kBases; ++b) {
          base[b] += lhs_step;
          keep_apart(base[b]);
        }
        rhs += rhs_step;
      }
    }
  }
}

/// Some rows of a strip, in tiles of `Rows`. The last tile overlaps the one before, so that there may be fewer rows
/// in it. Afterwards `from` and `out` are the rows that follow.
template <class T, int Lanes, int Vectors, int Rows, bool Fetches>
MODELWHEEL_INLINE void tiles_of_run(const Strip<T> &strip, const Epilogue<T> *const &epilogue, const T *rhs,
                                    const Segment *end, const Run<T> &run, std::int64_t column,
                                    const std::int64_t (&at)[Vectors], std::int64_t rows, const T *&from, T *&out) {
  const std::int64_t step = run.lhs_step, out_step = run.out_step;
  for (std::int64_t left = rows; left > 0; left -= Rows) {
    // GCC would otherwise make a second loop of the last tile.
    asm("" : "+r"(left));
    if (left < Rows) {
      from -= (Rows - left) * step;
      out -= (Rows - left) * out_step;
    }
    Vector<T, Lanes> sum[Rows][Vectors];
    MODELWHEEL_UNROLL
    for (int i = 0; i < Rows; ++i) {
      MODELWHEEL_UNROLL
      for (int j = 0; j < Vectors; ++j) sum[i][j] = Vector<T, Lanes>{};
    }
    sum_run<T, Lanes, Vectors, Rows, Fetches>(strip, rhs, end, run, from, out + run.ahead, sum);
    T *to = out;
    if (epilogue != nullptr) {
      const T *place[Rows];
      MODELWHEEL_UNROLL
      for (int i = 0; i < Rows; ++i) place[i] = out + i * out_step;
      finish_vectors<T, Lanes>(*epilogue, place, column, at, sum);
      to = epilogue->result + (out - epilogue->sums);
    }
    MODELWHEEL_UNROLL
    for (int i = 0; i < Rows; ++i) {
      MODELWHEEL_UNROLL
      for (int j = 0; j < Vectors; ++j) store<T, Lanes>(to + at[j], sum[i][j]);
      to += out_step;
      keep_apart(to);
    }
    from += Rows * step;
    out += Rows * out_step;
  }
}

#ifdef MODELWHEEL_ELEMENT
/// Strips of a run: `Vectors` vectors of columns each, in tiles as `Tiles` says.
template <class T, int Lanes, int Vectors, int Tiles>
MODELWHEEL_NOINLINE void strips_of_run(const Strip<T> &given, const Run<T> &all) {
  constexpr int kRows = Vectors == 1 ? rows_of_tall(Tiles) : rows_of_tiles(Tiles);
  // Copies, which are not read again after each store. Tiles follow each other by additions: their first loads wait for
  // nothing else, so that they begin while the sums of the tile before are finished.
  const Strip<T> strip = given;
  const Run<T> run = all;
  const Segment *const end = strip.segments + strip.num_segments;
  constexpr bool kHasShorter = Vectors > 1 && Tiles >= kShorterTiles;
  const std::int64_t shorter = kHasShorter ? (kRows - 1) * (divide_up(run.rows, kRunRows) * kRows - run.rows) : 0;
  const std::int64_t width = strip.last + Lanes;
  std::int64_t at[Vectors], column = strip.column;
  MODELWHEEL_UNROLL
  for (int j = 0; j < Vectors; ++j) at[j] = j + 1 < Vectors ? j * Lanes : strip.last;
  const T *rhs = strip.rhs;
  T *out = run.out;
  for (std::int64_t left = run.strips; left > 0; --left) {
    const T *from = run.lhs;
    T *to = out;
    tiles_of_run<T, Lanes, Vectors, kRows, Tiles == kFetchingTiles>(strip, given.epilogue, rhs, end, run, column, at,
                                                                    run.rows - shorter, from, to);
    if constexpr (kHasShorter)
      tiles_of_run<T, Lanes, Vectors, kRows - 1, false>(strip, given.epilogue, rhs, end, run, column, at, shorter, from,
                                                        to);
    rhs += run.next_strip;
    out += width;
    column += width;
  }
}
#endif

/// A strip of the rows that follow a run, which must not be computed twice, up to so many of both.
template <class T, int Lanes>
MODELWHEEL_NOINLINE void rows_after(const Strip<T> &strip, int vectors, const Run<T> &run, std::int64_t rows) {
  for (std::int64_t done = run.rows; done < rows;) {
    const int count = static_cast<int>(smaller_of(rows - done, std::int64_t{kRunRows}));
    const T *from[kRunRows];
    T *to[kRunRows];
    for (int i = 0; i < count; ++i, ++done) {
      from[i] = run.lhs + done * run.lhs_step;
      to[i] = run.out + done * run.out_step;
    }
    tile_of<T, Lanes>(count, vectors, strip, from, to);
  }
}

/// Strips of fewer rows than a whole tile has.
template <class T, int Lanes>
MODELWHEEL_NOINLINE void strips_of_few_rows(const Strip<T> &given, int vectors, const Run<T> &all) {
  Strip<T> strip = given;
  Run<T> run = all;
  run.rows = 0;
  for (std::int64_t left = all.strips; left > 0; --left) {
    rows_after<T, Lanes>(strip, vectors, run, all.rows);
    strip.rhs += all.next_strip;
    run.out += given.last + Lanes;
    strip.column += given.last + Lanes;
  }
}

/// Whole tiles instead of uneven ones that are not used: the last tile overlaps the one before, if there is one.
template <class T, int Lanes, int Vectors>
MODELWHEEL_INLINE void even_strips(const Strip<T> &strip, const Run<T> &run) {
  constexpr std::int64_t kWhole = Vectors == 1 ? rows_of_tall(kWholeTiles) : rows_of_tiles(kWholeTiles);
  if (run.rows >= kWhole)
    strips_of_run<T, Lanes, Vectors, kWholeTiles>(strip, run);
  else
    strips_of_few_rows<T, Lanes>(strip, Vectors, run);
}

/// Calls one of the kernels of so many vectors that are used; instead of uneven tiles that are not, whole ones.
template <class T, int Lanes, const GemmUses &kUses, int Vectors, int Tiles = kRunTiles - 1>
MODELWHEEL_INLINE void call_tiles(int tiles, const Strip<T> &strip, const Run<T> &run) {
  if constexpr (kUses.strip[kWidthOf<T, Lanes>][Vectors - 1][Tiles] && (Tiles != kFetchingTiles || Lanes == kLanes<T>))
    if (tiles == Tiles) return strips_of_run<T, Lanes, Vectors, Tiles>(strip, run);
  [[maybe_unused]] constexpr bool kHasWhole = kUses.strip[kWidthOf<T, Lanes>][Vectors - 1][kWholeTiles];
  if constexpr (Tiles > 0)
    call_tiles<T, Lanes, kUses, Vectors, Tiles - 1>(tiles, strip, run);
  else if constexpr (kHasWhole)
    is_uneven(Vectors, tiles) ? even_strips<T, Lanes, Vectors>(strip, run) : call_missing();
  else
    call_missing();
}

/// Calls one of the kernels that are used, of at most so many vectors.
template <class T, int Lanes, const GemmUses &kUses, int Vectors = kRunVectors<T, Lanes>>
MODELWHEEL_INLINE void call_strip(int vectors, int tiles, const Strip<T> &strip, const Run<T> &run) {
  if (vectors == Vectors) return call_tiles<T, Lanes, kUses, Vectors>(tiles, strip, run);
  if constexpr (Vectors > 1)
    call_strip<T, Lanes, kUses, Vectors - 1>(vectors, tiles, strip, run);
  else
    call_missing();
}

/// Runs strips of so many vectors by Calls::strip.
template <class T, int Lanes, class Calls>
MODELWHEEL_INLINE void strip_of_width(int vectors, const Strip<T> &strip, const Run<T> &run) {
  // If results are fetched, there are as many rows as whole tiles have.
  const bool windows = strip.num_segments > 1 || run.lhs_step < strip.depth;
  const int tiles = run_tiles(vectors, run.rows, windows, run.ahead != 0);
  Calls::strip(kWidthOf<T, Lanes>, vectors, tiles, strip, run);
}

/// The columns of the next strip.
template <class T, int Lanes>
MODELWHEEL_INLINE constexpr Columns run_columns(std::int64_t done, std::int64_t n) {
  const std::int64_t left = divide_up(n - done, Lanes);
  return columns_from<Lanes>(done, n, divide_up(left, divide_up(left, kRunVectors<T, Lanes>)));
}

/// How many strips, from that of such columns on, are as wide and evenly spaced in rhs: the widest come first.
template <class T, int Lanes>
MODELWHEEL_INLINE constexpr std::int64_t equal_strips(const Gemm &g, const Columns &columns) {
  if (g.panel != 0 && columns.vectors * Lanes % kPanel != 0) return 1;
  const std::int64_t left = divide_up(g.n - columns.first, Lanes), all = divide_up(left, kRunVectors<T, Lanes>);
  const std::int64_t equal = left - (columns.vectors - 1) * all;
  // The last vector of all may overlap the one before.
  return equal == all && g.n % Lanes != 0 ? larger_of(equal - 1, std::int64_t{1}) : equal;
}

/// All columns of a run. Strips of packed columns follow each other.
template <class T, int Lanes>
MODELWHEEL_INLINE void columns_of_run(const Gemm &g, const Run<T> &run, const T *rhs, bool packed,
                                      const Epilogue<T> *epilogue) {
  const T *next = rhs;
  for (std::int64_t done = 0; done < g.n;) {
    const Columns columns = run_columns<T, Lanes>(done, g.n);
    const std::int64_t width = columns.last + Lanes, packed_size = g.num_segments * g.depth * width;
    const Strip<T> strip{g.segments,
                         g.num_segments,
                         g.depth,
                         g.lhs_k,
                         packed ? next : rhs + column_offset(g, columns.first),
                         packed ? width : g.rhs_k,
                         packed,
                         false,
                         columns.last,
                         panel_of(g),
                         last_offset(g, columns),
                         epilogue,
                         columns.first};
    std::int64_t after = 0;
    if (epilogue != nullptr && in_place(*epilogue) && (columns.vectors == 1 || shorter_tiles(run.rows) == 0))
      after = run.rows % (columns.vectors == 1 ? kTallRows : kRunRows);
    const std::int64_t strips = after == 0 ? equal_strips<T, Lanes>(g, columns) : 1;
    const Run<T> part{run.lhs,
                      run.lhs_step,
                      run.out + columns.first,
                      run.out_step,
                      run.rows - after,
                      run.ahead,
                      strips,
                      packed ? packed_size : column_offset(g, width)};
    if (part.rows > 0) strip_of_width<T, Lanes, GemmCalls<T>>(columns.vectors, strip, part);
    if (after > 0) rows_after<T, Lanes>(strip, columns.vectors, part, run.rows);
    next += strips * packed_size;
    done = columns.first + strips * width;
  }
}

/// Packs all strips of rhs.
template <class T, int Lanes>
MODELWHEEL_INLINE void pack_strips(const Gemm &g, const T *rhs, T *to) {
  for (std::int64_t done = 0; done < g.n;) {
    const Columns columns = run_columns<T, Lanes>(done, g.n);
    const std::int64_t width = columns.last + Lanes;
    const Strip<T> strip{g.segments, g.num_segments, g.depth, g.lhs_k,      nullptr, 0, true,
                         false,      columns.last,   kPanel,  columns.last, nullptr, 0};
    pack<T, Lanes>(g, strip, rhs + columns.first * g.rhs_n, width, width, to);
    to += g.num_segments * g.depth * width;
    done = columns.first + width;
  }
}

/// Whether the results of the next run are fetched during a run.
template <class T, int Lanes>
constexpr bool run_fetches(const Gemm &g) {
  return Lanes == kLanes<T> && g.num_segments == 1 && fetches_results(g);
}

#ifdef MODELWHEEL_ELEMENT
template <class T, int Lanes>
MODELWHEEL_NOINLINE void run_lanes(const Gemm &g, const T *lhs, const T *rhs, T *out, T *scratch,
                                   const Epilogue<T> *epilogue) {
  const std::int64_t rows = num_rows(g);
  const bool packed = worth_packing<T, Lanes>(g, rows);
  if (packed) pack_strips<T, Lanes>(g, rhs, scratch);
  const RowAxis &inner = g.rows[kRowAxes - 1];
  const RowAxis outer[kRowAxes] = {g.rows[0], g.rows[1], g.rows[2], {1, 0, 0}};
  const std::int64_t most = rows_of_run<T>(g);
  RowCursor<T> cursor(outer, lhs, out);
  for (std::int64_t runs = rows / inner.count; runs > 0; --runs) {
    Run<T> run{nullptr, inner.lhs, nullptr, inner.out, 0};
    cursor.next(run.lhs, run.out);
    for (std::int64_t left = inner.count; left > 0; left -= run.rows) {
      run.rows = left < most + kTallRows ? left : most;
      run.ahead = run.rows < left && run_fetches<T, Lanes>(g) ? run.rows * inner.out : 0;
      columns_of_run<T, Lanes>(g, run, packed ? scratch : rhs, packed, epilogue);
      run.lhs += run.rows * inner.lhs;
      run.out += run.rows * inner.out;
    }
  }
}
#endif

}  // namespace modelwheel::MODELWHEEL_LEVEL
