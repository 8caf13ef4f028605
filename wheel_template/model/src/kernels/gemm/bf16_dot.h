// src/kernels/gemm/bf16_dot.h - products of floats with weights that are bfloat16 numbers, of two bytes each.
//
// Weights are widened where they are multiplied, which is exact, and each sum has the order of gemm.h. So results have
// the bits that the same weights have as floats, with any number of rows and parts. Of few rows, reading the weights
// takes longest, and these are half as many bytes.
#pragma once

#include "kernels/gemm/parts.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Neighbouring elements of a column: one vector has them for as many columns as it has floats.
inline constexpr std::int64_t kPair = 2;

/// Elements of a panel: for every two elements of the inner dimension, those of each column.
constexpr std::int64_t bf16_panel(std::int64_t k) { return kPanel * divide_up(k, kPair) * kPair; }

/// Vectors of a panel.
inline constexpr int kPanelVectors = static_cast<int>(kPanel) / kLanes<float>;
static_assert(kPanelVectors > 0, "a panel has at least a vector of each level");

/// Most rows of a tile, and most panels: sums, vectors of weights and a broadcast fit the registers. Fewer rows have
/// more panels, so that enough sums do not wait for each other.
inline constexpr int kBf16Rows = kVectorRegisters == 32 ? (kPanelVectors == 1 ? 12 : 6) : (kPanelVectors == 2 ? 6 : 2);
inline constexpr int kBf16Panels = kPanelVectors == 1 ? 2 : 1;
inline constexpr int kBf16FewRows = 2, kFewPanels = larger_of(kVectorRegisters / 4 / kPanelVectors, 1);
/// Fewest rows of a tile that fetches the weights of the next strip: with fewer, those of the strip itself come as
/// quickly.
inline constexpr int kFetchingRows = 4;
/// Whether weights are widened before they are multiplied by several tiles: few registers leave none for it there.
inline constexpr bool kWidens = kVectorRegisters < 32;
inline constexpr int kOnePanels = larger_of(kRowVectors / kPanelVectors, 1);

/// The next smaller number of rows of a tile.
constexpr int smaller_tile(int rows) { return rows > 8 ? 8 : rows > 4 ? 4 : rows > 2 ? 2 : 1; }

/// The rows of the next tile. Before a tile that has very few there is a smaller one.
constexpr int bf16_tile_rows(std::int64_t left) {
  int rows = kBf16Rows;
  if (left > rows && left < rows + 4) return smaller_tile(rows);
  while (rows > left) rows = smaller_tile(rows);
  return rows;
}

/// The part of the inner dimension that is summed at once: rows of one tile need the weights once.
constexpr std::int64_t bf16_depth(std::int64_t m, std::int64_t k) {
  return m <= kBf16Rows ? k : divide_up(large_depth(k), kPair) * kPair;
}

/// Elements of scratch memory for weights that are widened before.
constexpr std::int64_t bf16_widened(std::int64_t m, std::int64_t k) {
  return !kWidens || m < 2 * kBf16Rows ? 0 : kBf16Panels * bf16_panel(bf16_depth(m, k));
}

/// Elements of scratch memory: as many as the rows of a tile have, or of packed rows. Fewer rows need no more.
constexpr std::int64_t bf16_elements(std::int64_t m, std::int64_t k) {
  const std::int64_t tile = smaller_of(m, std::int64_t{kBf16Rows}) * k;
  const std::int64_t rows = m <= kBf16Rows ? tile : larger_of(tile, smaller_of(kLargeLhs, m * bf16_depth(m, k)));
  return bf16_widened(m, k) + rows;
}

/// A tile of packed rows with some panels, of BF16 or widened.
template <class T, class Weight>
struct Bf16Tile {
  /// Element k of all rows, then k + 1 of all.
  const T *lhs;
  const Weight *weights;
  std::int64_t panel, depth;
  /// As in Strip.
  bool accumulate;
  const Epilogue<T> *epilogue;
  std::int64_t column;
  T *out;
  std::int64_t step;
  /// The panels that are fetched meanwhile.
  const BF16 *next;
  std::int64_t next_panel;
};

/// The first or the second elements of pairs.
template <class T, bool Second>
MODELWHEEL_INLINE Vector<T> bf16_vector(const BF16 *pairs, std::int64_t column) {
  const auto both = load<std::uint32_t, kLanes<T>>(reinterpret_cast<const std::uint32_t *>(pairs + kPair * column));
  return bits_as<Vector<T>>(Second ? both & 0xFFFF0000U : both << 16);
}

template <class T, bool Second>
MODELWHEEL_INLINE Vector<T> bf16_vector(const T *rows, std::int64_t column) {
  return load(rows + (Second ? kPanel : 0) + column);
}

/// Adds the products of one element of each row with one of each column.
template <class T, bool Second, int Rows, int Vectors, class Weight>
MODELWHEEL_INLINE void add_bf16(const T *lhs, const Weight *weights, std::int64_t panel,
                                Vector<T> (&sum)[Rows][Vectors]) {
  Vector<T> right[Vectors];
  MODELWHEEL_UNROLL
  for (int j = 0; j < Vectors; ++j) {
    right[j] = bf16_vector<T, Second>(weights + j / kPanelVectors * panel, j % kPanelVectors * kLanes<T>);
    if (Rows > 1) keep_in_register(right[j]);
  }
  MODELWHEEL_UNROLL
  for (int i = 0; i < Rows; ++i) {
    const Vector<T> left = splat<T>(lhs[i]);
    MODELWHEEL_UNROLL
    for (int j = 0; j < Vectors; ++j) sum[i][j] += left * right[j];
  }
}

template <class T, int Rows, int Panels, class Weight>
MODELWHEEL_NOINLINE void bf16_tile(const Bf16Tile<T, Weight> &t) {
  constexpr int kWidth = kLanes<T>, kVectors = Panels * kPanelVectors;
  Vector<T> sum[Rows][kVectors];
  T *out[Rows];
  MODELWHEEL_UNROLL
  for (int i = 0; i < Rows; ++i) {
    out[i] = t.out + i * t.step;
    MODELWHEEL_UNROLL
    for (int j = 0; j < kVectors; ++j) sum[i][j] = t.accumulate ? load(out[i] + j * kWidth) : Vector<T>{};
  }
  const T *lhs = t.lhs;
  const Weight *weights = t.weights;
  const BF16 *next = t.next;
  const std::int64_t panel = t.panel, next_panel = t.next_panel;
  std::int64_t k = t.depth;
  for (; k >= kPair; k -= kPair) {
    if constexpr (Rows >= kFetchingRows) {
      MODELWHEEL_UNROLL
      for (int j = 0; j < Panels; ++j) __builtin_prefetch(next + j * next_panel, 0, 2);
      next += kPair * kPanel;
    }
    add_bf16<T, false, Rows, kVectors>(lhs, weights, panel, sum);
    add_bf16<T, true, Rows, kVectors>(lhs + Rows, weights, panel, sum);
    lhs += kPair * Rows;
    weights += kPair * kPanel;
  }
  if (k > 0) add_bf16<T, false, Rows, kVectors>(lhs, weights, panel, sum);
  store_sums<T, kWidth>(t.epilogue, out, t.column, (kVectors - 1) * kWidth, sum);
}

/// A tile of so many rows.
template <class T, int Rows, int Panels, class Weight>
MODELWHEEL_INLINE void bf16_tile_of(int rows, const Bf16Tile<T, Weight> &t) {
  if constexpr (Rows > 1) {
    if (rows < Rows) return bf16_tile_of<T, smaller_tile(Rows), Panels>(rows, t);
  }
  bf16_tile<T, Rows, Panels>(t);
}

/// Some panels of packed rows, in tiles of at most `Rows` rows. The first one fetches what is next.
template <class T, int Rows, int Panels, class Weight>
void bf16_tiles(Bf16Tile<T, Weight> t, std::int64_t rows, const BF16 *own) {
  while (rows > 0) {
    const int count = bf16_tile_rows(rows);
    bf16_tile_of<T, Rows, Panels>(count, t);
    t.lhs += count * t.depth;
    t.out += count * t.step;
    t.next = own;
    rows -= count;
  }
}

/// Widens some panels of so many rows; the last row of an odd number has one after it.
template <class T>
void widen_panels(const BF16 *weights, std::int64_t panel, std::int64_t panels, std::int64_t depth, T *widened) {
  for (std::int64_t p = 0; p < panels; ++p) {
    const BF16 *pairs = weights + p * panel;
    for (std::int64_t k = 0; k < depth; k += kPair, pairs += kPair * kPanel, widened += kPair * kPanel) {
      MODELWHEEL_UNROLL
      for (int j = 0; j < kPanelVectors; ++j) {
        store(widened + j * kLanes<T>, bf16_vector<T, false>(pairs, j * kLanes<T>));
        store(widened + kPanel + j * kLanes<T>, bf16_vector<T, true>(pairs, j * kLanes<T>));
      }
    }
  }
}

/// A strip of so many panels, at most `Panels`. With scratch memory for them, weights are widened first.
template <class T, int Rows, int Panels>
MODELWHEEL_INLINE void bf16_strip(std::int64_t panels, const Bf16Tile<T, BF16> &t, std::int64_t rows, T *widened) {
  if constexpr (Panels > 1) {
    if (panels < Panels) return bf16_strip<T, Rows, Panels - 1>(panels, t, rows, widened);
  }
  if constexpr (kWidens && Rows == kBf16Rows) {
    if (widened != nullptr) {
      widen_panels(t.weights, t.panel, panels, t.depth, widened);
      const Bf16Tile<T, T> wide{
          t.lhs,  widened, bf16_panel(t.depth), t.depth, t.accumulate, t.epilogue, t.column, t.out,
          t.step, t.next,  t.next_panel};
      return bf16_tiles<T, Rows, Panels>(wide, rows, t.weights);
    }
  }
  bf16_tiles<T, Rows, Panels>(t, rows, t.weights);
}

/// Whole panels of packed rows, from the first column on: strips are equally wide, as far as possible.
template <class T, int Rows, int Panels>
void bf16_columns(Bf16Tile<T, BF16> t, std::int64_t rows, std::int64_t panels, T *widened) {
  while (panels > 0) {
    const std::int64_t some = divide_up(panels, divide_up(panels, Panels));
    t.next = t.weights + (panels > some ? some * t.panel : 0);
    bf16_strip<T, Rows, Panels>(some, t, rows, widened);
    t.weights += some * t.panel;
    t.column += some * kPanel;
    t.out += some * kPanel;
    panels -= some;
  }
}

/// Packs some elements of rows of `d`, as tiles read them.
template <class T>
void pack_bf16_rows(const Dot &d, const T *lhs, std::int64_t rows, std::int64_t depth, T *packed) {
  for (std::int64_t row = 0; row < rows;) {
    const int count = bf16_tile_rows(rows - row);
    const T *from[kBf16Rows];
    for (int i = 0; i < count; ++i) from[i] = lhs + (row + i) * d.lhs_m;
    if (d.lhs_k == 1) {
      pack_large(from, count, depth, packed);
    } else {
      for (std::int64_t k = 0; k < depth; ++k)
        for (int i = 0; i < count; ++i) packed[k * count + i] = from[i][k * d.lhs_k];
    }
    packed += count * depth;
    row += count;
  }
}

/// All whole panels of a product.
template <class T>
void bf16_panels(const Dot &d, const T *lhs, const BF16 *weights, T *out, T *packed, const Epilogue<T> *epilogue) {
  const std::int64_t depth = bf16_depth(d.m, d.k), panels = d.n / kPanel;
  const std::int64_t most = d.m <= kBf16Rows ? d.m : kLargeLhs / depth, widening = bf16_widened(d.m, d.k);
  T *const widened = widening > 0 ? packed : nullptr;
  packed += widening;
  for (std::int64_t row = 0; row < d.m; row += most) {
    const std::int64_t rows = smaller_of(most, d.m - row);
    for (std::int64_t k = 0; k < d.k; k += depth) {
      const std::int64_t part = smaller_of(depth, d.k - k);
      pack_bf16_rows(d, lhs + row * d.lhs_m + k * d.lhs_k, rows, part, packed);
      const BF16 *const from = weights + k * kPanel;
      const Epilogue<T> *const now = k + part >= d.k ? epilogue : nullptr;
      const Bf16Tile<T, BF16> tile{packed,  from, d.panel, part, k > 0, now, 0, out + row * d.out_m,
                                   d.out_m, from, d.panel};
      if (rows == 1)
        bf16_columns<T, 1, kOnePanels>(tile, rows, panels, widened);
      else if (rows < 2 * kBf16FewRows)
        bf16_columns<T, kBf16FewRows, kFewPanels>(tile, rows, panels, widened);
      else
        bf16_columns<T, kBf16Rows, kBf16Panels>(tile, rows, panels, widened);
    }
  }
}

/// The columns of a last panel that is not full: all of it is multiplied, to a buffer.
template <class T>
void bf16_last_panel(const Dot &d, const T *lhs, const BF16 *weights, T *out, T *packed, const Epilogue<T> *epilogue) {
  const std::int64_t first = whole_columns(d), columns = d.n - first;
  weights += first / kPanel * d.panel;
  out += first;
  alignas(64) T buffer[kBf16Rows * kPanel];
  for (std::int64_t row = 0; row < d.m; row += kBf16Rows) {
    const std::int64_t rows = smaller_of(std::int64_t{kBf16Rows}, d.m - row);
    pack_bf16_rows(d, lhs + row * d.lhs_m, rows, d.k, packed);
    const Bf16Tile<T, BF16> tile{packed, weights, d.panel, d.k, false, nullptr, 0, buffer, kPanel, weights, d.panel};
    bf16_tiles<T, kBf16Rows, 1>(tile, rows, weights);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) out[(row + i) * d.out_m + j] = buffer[i * kPanel + j];
  }
  if (epilogue != nullptr) finish_rows(*epilogue, out, d.m, d.out_m, first, columns);
}

/// Bytes of scratch memory that `bf16_dot` needs.
template <class T>
constexpr std::size_t bf16_dot_scratch(const Dot &d) {
  return scratch_bytes<T>(bf16_elements(d.m, d.k));
}

/// Bytes for sums, as `dot_sums` has them: none if each is finished in registers.
template <class T>
constexpr std::size_t bf16_dot_sums(const Dot &d) {
  return d.m <= kBf16Rows && whole_columns(d) == d.n ? 0 : scratch_bytes<T>(d.m * d.n);
}

/// Computes one product of a group of rows with weights [k, n] in panels of d.panel elements, whose results have
/// contiguous columns. Other arguments are those of `dot`.
template <class T>
void bf16_dot(const Dot &d, const T *lhs, const BF16 *weights, T *out, void *scratch,
              const Epilogue<T> *epilogue = nullptr) {
  T *const packed = static_cast<T *>(scratch);
  const bool later = epilogue != nullptr && epilogue->overlaps;
  const Epilogue<T> *const now = later ? nullptr : epilogue;
  bf16_panels(d, lhs, weights, out, packed, now);
  if (whole_columns(d) < d.n) bf16_last_panel(d, lhs, weights, out, packed, now);
  if (later) finish_rows(*epilogue, epilogue->sums, d.m, row_step(d), 0, d.n);
}

extern template void bf16_dot(const Dot &, const float *, const BF16 *, float *, void *, const Epilogue<float> *);

/// Bytes of scratch memory of each part.
template <class T>
constexpr std::size_t bf16_dot_part_scratch(const Dot &d, std::int64_t most) {
  return largest_part(
      d, most, [&](std::int64_t parts) { return division_of<T>(d, parts); },
      [](const Dot &part) { return bf16_dot_scratch<T>(part); });
}

/// `bf16_dot` in parts; the scratch memory is for the case that there is one part.
template <class T>
MODELWHEEL_NOINLINE void bf16_dot_in_parts(const Shared &shared, const Dot &d, const T *lhs, const BF16 *weights,
                                           T *out, void *scratch, const Epilogue<T> *epilogue = nullptr) {
  const Division division = division_of<T>(d, shared.parts());
  if (division.count() == 1) return bf16_dot<T>(d, lhs, weights, out, scratch, epilogue);
  const bool later = epilogue != nullptr && epilogue->overlaps;
  product_in_parts(shared, d, division, later ? nullptr : epilogue,
                   [&](const Ranged<Dot> &part, void *memory, const Epilogue<T> *own) {
                     bf16_dot<T>(part.shape, lhs + part.left, weights + part.right, out + part.out, memory, own);
                   });
  if (later) finish_in_parts(shared, *epilogue, d.m, row_step(d), d.n);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
