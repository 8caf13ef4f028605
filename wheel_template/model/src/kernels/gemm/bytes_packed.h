// src/kernels/gemm/bytes_packed.h - packed rows of 8-bit integers by panels of weights, summed in vectors.
#pragma once

#include "kernels/base/numeric.h"
#include "kernels/base/thresholds.h"
#include "kernels/gemm/bytes_isa.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Elements of the inner dimension with the zeros that fill the last four.
constexpr std::int64_t padded_depth(std::int64_t k) { return divide_up(k, std::int64_t{kQuad}) * kQuad; }

/// Bytes of a panel: first -128 times the sum of each column, in 32 bits; then for every four elements of the inner
/// dimension those of each column.
constexpr std::int64_t byte_panel(std::int64_t k) {
  return kPanel * (static_cast<std::int64_t>(sizeof(std::int32_t)) + padded_depth(k));
}

/// The elements of a packed row: runs of whole quads, each at an offset from where the row begins. So rows may share
/// elements, as windows that overlap do.
struct Runs {
  const std::int64_t *offsets;
  std::int64_t count, length;

  constexpr std::int64_t depth() const { return count * length; }
};

/// Some packed rows, by where each begins, and where their results go.
template <class Left>
struct ByteRows {
  const Left *const *lhs;
  Runs runs;
  std::int32_t *out;
  std::int64_t out_m, out_n;
};

/// Stores sums of a row; `Isa::kParts` neighbouring lanes are one.
template <class Isa, int Vectors>
MODELWHEEL_INLINE void store_joined(const typename Isa::Sums (&sums)[Vectors], std::int32_t *out) {
  MODELWHEEL_UNROLL
  for (int v = 0; v < Vectors; v += Isa::kParts) {
    if constexpr (Isa::kParts == 2)
      Isa::store(out + v * Isa::kColumns, Isa::joined(sums[v], sums[v + 1]));
    else
      Isa::store(out + v * Isa::kColumns, sums[v]);
  }
}

/// Vectors of a whole panel.
template <class Isa>
inline constexpr int kByteVectors = kPanel / Isa::kColumns;

/// Rows of panels, of each of which some vectors are computed and of the last only `columns` stored.
template <class Isa, int Rows, int Panels, int Vectors>
MODELWHEEL_NOINLINE void byte_tile(const ByteRows<typename Isa::Left> &rows, const std::int8_t *panels,
                                   std::int64_t columns) {
  constexpr int kVectors = Vectors, kAll = Panels * kVectors, kStored = kAll * Isa::kColumns;
  const std::int64_t panel = byte_panel(rows.runs.depth());
  typename Isa::Sums sums[Rows][kAll];
  MODELWHEEL_UNROLL
  for (int v = 0; v < kAll; ++v) {
    const typename Isa::Sums start = Isa::start(panels + v / kVectors * panel + v % kVectors * (Isa::kColumns * 4));
    MODELWHEEL_UNROLL
    for (int i = 0; i < Rows; ++i) sums[i][v] = start;
  }
  const std::int8_t *quads = panels + byte_panel(0);
  const typename Isa::Left *lhs[Rows];
  MODELWHEEL_UNROLL
  for (int i = 0; i < Rows; ++i) lhs[i] = rows.lhs[i];
  for (std::int64_t r = 0; r < rows.runs.count; ++r) {
    const std::int64_t begin = rows.runs.offsets[r], end = begin + rows.runs.length;
    for (std::int64_t k = begin; k < end; k += kQuad, quads += kPanel * kQuad) {
      typename Isa::Row row[Rows];
      MODELWHEEL_UNROLL
      for (int i = 0; i < Rows; ++i) row[i] = Isa::row(lhs[i] + k);
      MODELWHEEL_UNROLL
      for (int v = 0; v < kAll; ++v) {
        const typename Isa::Quads weights =
            Isa::quads(quads + v / kVectors * panel + v % kVectors * (Isa::kColumns * kQuad));
        MODELWHEEL_UNROLL
        for (int i = 0; i < Rows; ++i) Isa::add(sums[i][v], row[i], weights);
      }
    }
  }
  if (rows.out_n == 1 && columns >= kStored) {
    MODELWHEEL_UNROLL
    for (int i = 0; i < Rows; ++i) store_joined<Isa>(sums[i], rows.out + i * rows.out_m);
    return;
  }
  alignas(64) std::int32_t whole[Rows][kStored];
  MODELWHEEL_UNROLL
  for (int i = 0; i < Rows; ++i) store_joined<Isa>(sums[i], whole[i]);
  const std::int64_t stored = smaller_of(columns, std::int64_t{kStored});
  for (int i = 0; i < Rows; ++i) {
    std::int32_t *const out = rows.out + i * rows.out_m;
    for (std::int64_t j = 0; j < stored; ++j) out[j * rows.out_n] = whole[i][j];
  }
}

/// `Panels` panels of all rows, by tiles of `Rows` rows and what is left of them.
template <class Isa, int Rows, int Panels, int Vectors = kByteVectors<Isa>>
void byte_tiles(ByteRows<typename Isa::Left> rows, std::int64_t m, const std::int8_t *panels, std::int64_t columns) {
  for (; m >= Rows; m -= Rows) {
    byte_tile<Isa, Rows, Panels, Vectors>(rows, panels, columns);
    rows.lhs += Rows;
    rows.out += Rows * rows.out_m;
  }
  if constexpr (Rows > 1) {
    if (m > 0) byte_tiles<Isa, (Rows > 4 ? 4 : Rows > 2 ? 2 : 1), Panels, Vectors>(rows, m, panels, columns);
  }
}

/// All columns of packed rows.
template <class Isa>
void byte_columns(const ByteRows<typename Isa::Left> &rows, std::int64_t m, const std::int8_t *panels, std::int64_t n) {
  const std::int64_t panel = byte_panel(rows.runs.depth());
  ByteRows<typename Isa::Left> part = rows;
  const auto next = [&](auto tiles, std::int64_t done) {
    tiles(part, m, panels, n);
    panels += done * panel;
    part.out += done * kPanel * part.out_n;
    n -= done * kPanel;
  };
  // Tiles of fewer panels have more rows, so that as many sums do not wait for each other.
  constexpr int kFew = Isa::kPanels > 2 ? 2 : 1, kHalf = kByteVectors<Isa> / 2;
  // The last panel may be half full.
  constexpr bool kHasHalf = kHalf > 0 && kHalf % Isa::kParts == 0;
  constexpr std::int64_t kLeft = kHasHalf ? kPanel / 2 : 0;
  while (n > (Isa::kPanels - 1) * kPanel + kLeft) next(byte_tiles<Isa, Isa::kRows, Isa::kPanels>, Isa::kPanels);
  if constexpr (kFew > 1)
    while (n > kPanel + kLeft) next(byte_tiles<Isa, Isa::kFewRows, kFew>, kFew);
  while (n > kLeft) next(byte_tiles<Isa, Isa::kOneRows, 1>, 1);
  if constexpr (kHasHalf)
    if (n > 0) next(byte_tiles<Isa, 2 * Isa::kOneRows, 1, kHalf>, 1);
}

/// `Lanes` bytes as the instructions read them.
template <class Isa, int Lanes>
MODELWHEEL_INLINE void pack_lanes(const std::int8_t *from, typename Isa::Left *to) {
  Vector<std::int8_t, Lanes> lanes = load<std::int8_t, Lanes>(from);
  if constexpr (Isa::kMoved) lanes ^= splat<std::int8_t, Lanes>(-128);
  store<typename Isa::Left, Lanes>(to, cast_lanes<typename Isa::Left, Lanes>(lanes));
}

/// Neighbouring bytes as the instructions read them. The last vector may overlap the one before.
template <class Isa, int Lanes = kLanes<typename Isa::Left>>
MODELWHEEL_INLINE void pack_run(const std::int8_t *from, std::int64_t n, typename Isa::Left *to) {
  if (n >= Lanes) {
    for (std::int64_t k = 0; k + Lanes < n; k += Lanes) pack_lanes<Isa, Lanes>(from + k, to + k);
    pack_lanes<Isa, Lanes>(from + n - Lanes, to + n - Lanes);
  } else if constexpr (Lanes > 8) {
    pack_run<Isa, Lanes / 2>(from, n, to);
  } else {
    for (std::int64_t k = 0; k < n; ++k) to[k] = Isa::left(from[k]);
  }
}

/// Zeros - what is added for 128 has zeros of weights there - that fill a run.
template <class Isa>
MODELWHEEL_INLINE void fill_run(std::int64_t k, typename Isa::Left *run) {
  for (const std::int64_t depth = padded_depth(k); k < depth; ++k) run[k] = 0;
}

/// Multiplies packed rows by panels with the instructions of `Isa`, which may need memory of their own.
template <class Isa>
struct PanelProduct {
  /// Whether rows that are bytes already may be read where they are.
  static constexpr bool kInPlace = false;
  /// Rows that are packed together, so that they stay in the first-level cache.
  static constexpr std::int64_t rows(std::int64_t depth) {
    constexpr std::int64_t kPacked = 8192, kFewest = 24;
    return larger_of(kPacked / larger_of(depth, std::int64_t{1}), kFewest);
  }
  static constexpr std::size_t scratch(std::int64_t, std::int64_t) { return 0; }

  PanelProduct(const Runs &, void *) {}

  void run(const ByteRows<typename Isa::Left> &rows, std::int64_t m, const std::int8_t *panels, std::int64_t n) const {
    byte_columns<Isa>(rows, m, panels, n);
  }
};

}  // namespace modelwheel::MODELWHEEL_LEVEL
