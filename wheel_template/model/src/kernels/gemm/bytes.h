// src/kernels/gemm/bytes.h - matrix products of 8-bit integers with packed weights, summed in 32 bits.
#pragma once

#include "kernels/base/numeric.h"
#include "kernels/base/thresholds.h"
#include "kernels/gemm/bytes_isa.h"
#include "kernels/parts/division.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Elements of the inner dimension with the zeros that fill the last four.
constexpr std::int64_t padded_depth(std::int64_t k) { return divide_up(k, std::int64_t{kQuad}) * kQuad; }

/// Bytes of a panel: first -128 times the sum of each column, in 32 bits; then for every four elements of the inner
/// dimension those of each column.
constexpr std::int64_t byte_panel(std::int64_t k) {
  return kPanel * (static_cast<std::int64_t>(sizeof(std::int32_t)) + padded_depth(k));
}

/// out[i][j] = sum over k of lhs[i][k] * rhs[k][j], for rows i and columns j; strides in elements.
struct ByteProduct {
  std::int64_t m, n, k;
  std::int64_t lhs_m, lhs_k;
  std::int64_t out_m, out_n;
};

/// Rows that are packed together, so that they stay in the first-level cache.
constexpr std::int64_t byte_rows(std::int64_t m, std::int64_t k) {
  constexpr std::int64_t kPacked = 8192, kFewest = 24;
  return smaller_of(m, larger_of(kPacked / larger_of(padded_depth(k), std::int64_t{1}), kFewest));
}

/// Bytes of scratch memory for some packed rows of so many elements in all.
constexpr std::size_t packed_scratch(std::int64_t rows, std::int64_t elements) {
  return scratch_bytes<const void *>(rows) + scratch_bytes<std::int16_t>(elements);
}

/// Bytes of scratch memory that `multiply_bytes` needs.
constexpr std::size_t byte_scratch(std::int64_t m, std::int64_t k) {
  return packed_scratch(byte_rows(m, k), byte_rows(m, k) * padded_depth(k));
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

/// Stores the sums of a panel of one row, of which neighbouring parts belong together.
template <int Parts>
MODELWHEEL_INLINE void store_sums(const std::int32_t *parts, std::int32_t *out, std::int64_t step,
                                  std::int64_t columns) {
  std::int32_t whole[kPanel];
  for (int j = 0; j < kPanel; ++j) {
    std::uint32_t sum = 0;
    for (int part = 0; part < Parts; ++part) sum += static_cast<std::uint32_t>(parts[j * Parts + part]);
    whole[j] = static_cast<std::int32_t>(sum);
  }
  if (columns == kPanel && step == 1)
    std::memcpy(out, whole, sizeof whole);
  else
    for (std::int64_t j = 0; j < columns; ++j) out[j * step] = whole[j];
}

/// Rows of whole panels, of the last of which only `columns` are stored.
template <class Isa, int Rows, int Panels>
MODELWHEEL_NOINLINE void byte_tile(const ByteRows<typename Isa::Left> &rows, const std::int8_t *panels,
                                   std::int64_t columns) {
  constexpr int kVectors = kPanel / Isa::kColumns, kAll = Panels * kVectors;
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
  if constexpr (Isa::kParts == 1) {
    if (rows.out_n == 1 && columns >= Panels * kPanel) {
      MODELWHEEL_UNROLL
      for (int i = 0; i < Rows; ++i) {
        MODELWHEEL_UNROLL
        for (int v = 0; v < kAll; ++v) Isa::store(rows.out + i * rows.out_m + v * Isa::kColumns, sums[i][v]);
      }
      return;
    }
  }
  alignas(64) std::int32_t parts[Rows][Panels * kPanel * Isa::kParts];
  MODELWHEEL_UNROLL
  for (int i = 0; i < Rows; ++i) {
    MODELWHEEL_UNROLL
    for (int v = 0; v < kAll; ++v) Isa::store(parts[i] + v * Isa::kColumns * Isa::kParts, sums[i][v]);
  }
  for (int p = 0; p < Panels; ++p) {
    const std::int64_t stored = smaller_of(columns - p * kPanel, std::int64_t{kPanel});
    for (int i = 0; i < Rows; ++i)
      store_sums<Isa::kParts>(parts[i] + p * kPanel * Isa::kParts, rows.out + i * rows.out_m + p * kPanel * rows.out_n,
                              rows.out_n, stored);
  }
}

/// `Panels` panels of all rows, by tiles of `Rows` rows and what is left of them.
template <class Isa, int Rows, int Panels>
void byte_tiles(ByteRows<typename Isa::Left> rows, std::int64_t m, const std::int8_t *panels, std::int64_t columns) {
  for (; m >= Rows; m -= Rows) {
    byte_tile<Isa, Rows, Panels>(rows, panels, columns);
    rows.lhs += Rows;
    rows.out += Rows * rows.out_m;
  }
  if constexpr (Rows > 1) {
    if (m > 0) byte_tiles<Isa, (Rows > 4 ? 4 : Rows > 2 ? 2 : 1), Panels>(rows, m, panels, columns);
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
  constexpr int kFew = Isa::kPanels > 2 ? 2 : 1;
  while (n > (Isa::kPanels - 1) * kPanel) next(byte_tiles<Isa, Isa::kRows, Isa::kPanels>, Isa::kPanels);
  if constexpr (kFew > 1)
    while (n > kPanel) next(byte_tiles<Isa, Isa::kFewRows, kFew>, kFew);
  while (n > 0) next(byte_tiles<Isa, Isa::kOneRows, 1>, 1);
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

/// The rows of a matrix.
struct MatrixRows {
  std::int64_t m, k, step_m, step_k;
  const std::int8_t *first;

  static constexpr std::int64_t kStart = 0;
  Runs runs() const { return {&kStart, 1, padded_depth(k)}; }
  /// Rows whose sums are computed before what follows them.
  std::int64_t rows_at_once() const { return byte_rows(m, k); }
  /// Most rows that are packed together, and how many these are from a row on.
  std::int64_t most_together() const { return rows_at_once(); }
  std::int64_t together(std::int64_t) const { return rows_at_once(); }
  /// Where element k of a row is, in a row that is packed by itself.
  std::int64_t place(std::int64_t element) const { return element; }

  /// Some rows as the instructions read them, with zeros behind each, and where each begins.
  template <class Isa>
  void pack(std::int64_t row, std::int64_t rows, typename Isa::Left *to, const typename Isa::Left **begins) const {
    for (std::int64_t i = 0; i < rows; ++i, to += padded_depth(k)) {
      begins[i] = to;
      pack_row<Isa>(row + i, to);
    }
  }

  template <class Isa>
  MODELWHEEL_INLINE void pack_row(std::int64_t row, typename Isa::Left *to) const {
    const std::int8_t *const from = first + row * step_m;
    if (step_k == 1)
      pack_run<Isa>(from, k, to);
    else
      for (std::int64_t j = 0; j < k; ++j) to[j] = Isa::left(from[j * step_k]);
    fill_run<Isa>(k, to);
  }
};

/// Some rows and columns of a product, for a thread of its own.
struct ByteRange {
  Range rows, columns;
};

/// How a product is divided: into rows, or into columns in whole panels if there are few rows and weights are packed.
/// Code on sums takes two vectors at a time, of a panel each at most.
constexpr Division byte_division(std::int64_t m, std::int64_t n, std::int64_t unit, bool has_columns,
                                 std::int64_t parts) {
  constexpr std::int64_t kFewRows = 32;
  const Division rows = in_units(Along::kRows, m, unit, parts);
  const Division columns = in_units(Along::kColumns, n, 2 * kPanel, parts);
  const bool by_columns = has_columns && columns.count() > 1 && (m < kFewRows * parts || rows.count() == 1);
  return by_columns ? columns : rows;
}

/// One of the parts of m rows and n columns.
constexpr ByteRange range_of(const Division &division, std::int64_t m, std::int64_t n, std::int64_t i) {
  const Range range = division.range(i);
  return division.along == Along::kColumns ? ByteRange{{0, m}, range} : ByteRange{range, {0, n}};
}

/// Sums that stay as they are, in memory: a row and a column are so many elements from the next one.
struct StoredSums {
  std::int32_t *first;
  std::int64_t step_m, step_n;

  std::int32_t *at(std::int64_t row, std::int64_t column) const { return first + row * step_m + column * step_n; }
  void finish(std::int64_t, std::int64_t, Range) const {}
};

/// Multiplies rows with the instructions of `Isa`. `scratch` has the bytes of `packed_scratch` for the most rows that
/// are packed together and is 64-byte aligned; `panels` are the weights of all columns, and `sums` says where sums go
/// and what follows them.
template <class Isa, class Rows, class Sums>
MODELWHEEL_NOINLINE void multiply_rows_by(const Rows &rows, const ByteRange &range, const std::int8_t *panels,
                                          const Sums &sums, void *scratch) {
  using Left = typename Isa::Left;
  Scratch memory(scratch);
  auto *const begins = memory.take<const Left *>(rows.most_together());
  auto *const packed = memory.take<Left>(0);
  const Runs runs = rows.runs();
  const std::int64_t most = rows.rows_at_once(), first = range.columns.begin;
  panels += first / kPanel * byte_panel(runs.depth());
  for (std::int64_t row = range.rows.begin; row < range.rows.end;) {
    const std::int64_t together = smaller_of(rows.together(row), range.rows.end - row);
    rows.template pack<Isa>(row, together, packed, begins);
    for (std::int64_t done = 0; done < together; done += most) {
      const std::int64_t count = smaller_of(most, together - done), at = row + done;
      byte_columns<Isa>({begins + done, runs, sums.at(at, first), sums.step_m, sums.step_n}, count, panels,
                        length(range.columns));
      sums.finish(at, count, range.columns);
    }
    row += together;
  }
}

/// Multiplies rows with the best instructions that this CPU has.
template <class Rows, class Sums>
MODELWHEEL_INLINE void multiply_rows(const Rows &rows, const ByteRange &range, const std::int8_t *panels,
                                     const Sums &sums, void *scratch) {
#if defined(__AVX512BW__)
  if (has_vnni()) return multiply_rows_by<BytesVnni>(rows, range, panels, sums, scratch);
#endif
  multiply_rows_by<Bytes>(rows, range, panels, sums, scratch);
}

/// Multiplies rows by weights [k, n] that are not in panels, which is rare: other readers of them need them as they
/// are. All columns are in the range.
template <class Rows, class Sums>
MODELWHEEL_NOINLINE void multiply_unpacked(const Rows &rows, const ByteRange &range, const std::int8_t *weights,
                                           const Sums &sums, void *scratch) {
  auto *const row = static_cast<Bytes::Left *>(scratch);
  const std::int64_t n = range.columns.end;
  for (std::int64_t i = range.rows.begin; i < range.rows.end; ++i) {
    rows.template pack_row<Bytes>(i, row);
    std::int32_t *const out = sums.at(i, 0);
    for (std::int64_t j = 0; j < n; ++j) {
      std::uint32_t sum = 0;
      for (std::int64_t k = 0; k < rows.k; ++k)
        sum += static_cast<std::uint32_t>(row[rows.place(k)] * weights[k * n + j]);
      out[j * sums.step_n] = static_cast<std::int32_t>(sum);
    }
    sums.finish(i, 1, range.columns);
  }
}

/// Multiplies rows by weights, which are in panels unless `panel` is 0.
template <class Rows, class Sums>
MODELWHEEL_INLINE void multiply(const Rows &rows, const ByteRange &range, std::int64_t panel,
                                const std::int8_t *weights, const Sums &sums, void *scratch) {
  if (panel == 0)
    multiply_unpacked(rows, range, weights, sums, scratch);
  else
    multiply_rows(rows, range, weights, sums, scratch);
}

/// Computes a product with the instructions of `Isa`; see `multiply_rows_by`.
template <class Isa>
void multiply_bytes_by(const ByteProduct &p, const std::int8_t *lhs, const std::int8_t *panels, std::int32_t *out,
                       void *scratch) {
  multiply_rows_by<Isa>(MatrixRows{p.m, p.k, p.lhs_m, p.lhs_k, lhs}, {{0, p.m}, {0, p.n}}, panels,
                        StoredSums{out, p.out_m, p.out_n}, scratch);
}

/// Computes a product, with the best instructions that this CPU has.
inline void multiply_bytes(const ByteProduct &p, const std::int8_t *lhs, const std::int8_t *panels, std::int32_t *out,
                           void *scratch) {
  multiply_rows(MatrixRows{p.m, p.k, p.lhs_m, p.lhs_k, lhs}, {{0, p.m}, {0, p.n}}, panels,
                StoredSums{out, p.out_m, p.out_n}, scratch);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
