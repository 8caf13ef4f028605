// src/kernels/gemm/bytes.h - matrix products of 8-bit integers with packed weights, summed in 32 bits.
#pragma once

#include "kernels/gemm/bytes_amx.h"
#include "kernels/gemm/bytes_packed.h"
#include "kernels/parts/division.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// out[i][j] = sum over k of lhs[i][k] * rhs[k][j], for rows i and columns j; strides in elements.
struct ByteProduct {
  std::int64_t m, n, k;
  std::int64_t lhs_m, lhs_k;
  std::int64_t out_m, out_n;
};

/// Rows that are packed together for the instructions of `Isa`.
template <class Isa>
constexpr std::int64_t byte_rows(std::int64_t m, std::int64_t k) {
  return smaller_of(m, PanelProduct<Isa>::rows(padded_depth(k)));
}

/// Most rows that are packed together, for any instructions.
constexpr std::int64_t byte_rows(std::int64_t m, std::int64_t k) {
#if defined(__AVX512BW__)
  return larger_of(byte_rows<Bytes>(m, k), byte_rows<BytesAmx>(m, k));
#else
  return byte_rows<Bytes>(m, k);
#endif
}

/// Bytes that the instructions need, if so many rows may not be evenly spaced.
constexpr std::size_t product_scratch([[maybe_unused]] std::int64_t uneven, [[maybe_unused]] std::int64_t k) {
#if defined(__AVX512BW__)
  return PanelProduct<BytesAmx>::scratch(uneven, padded_depth(k));
#else
  return 0;
#endif
}

/// Bytes of memory for packed rows of so many elements each.
constexpr std::size_t packed_scratch(std::int64_t m, std::int64_t k) {
  const std::int64_t depth = padded_depth(k);
  return larger_of(scratch_bytes<Bytes::Left>(byte_rows<Bytes>(m, k) * depth),
                   scratch_bytes<std::int8_t>(byte_rows(m, k) * depth));
}

/// Bytes of scratch memory that `multiply_bytes` needs.
constexpr std::size_t byte_scratch(std::int64_t m, std::int64_t k) {
  return scratch_bytes<const void *>(byte_rows(m, k)) + product_scratch(0, k) + packed_scratch(m, k);
}

/// The rows of a matrix.
struct MatrixRows {
  std::int64_t m, k, step_m, step_k;
  const std::int8_t *first;

  static constexpr std::int64_t kStart = 0;
  Runs runs() const { return {&kStart, 1, padded_depth(k)}; }
  /// Rows whose sums are computed before what follows them.
  template <class Isa>
  std::int64_t rows_at_once() const {
    return byte_rows<Isa>(m, k);
  }
  /// Most rows that are packed together, and how many these are from a row on.
  std::int64_t most_together() const { return byte_rows(m, k); }
  template <class Isa>
  std::int64_t together(std::int64_t) const {
    return byte_rows<Isa>(m, k);
  }
  /// Bytes that the instructions need.
  std::size_t instruction_scratch() const { return product_scratch(0, k); }
  /// Where element k of a row is, in a row that is packed by itself.
  std::int64_t place(std::int64_t element) const { return element; }

  /// Some rows as the instructions read them, with zeros behind each, and where each begins.
  template <class Isa>
  void pack(std::int64_t row, std::int64_t rows, typename Isa::Left *to, const typename Isa::Left **begins) const {
    if constexpr (PanelProduct<Isa>::kInPlace) {
      if (step_k == 1 && k % kQuad == 0) {
        for (std::int64_t i = 0; i < rows; ++i) begins[i] = first + (row + i) * step_m;
        return;
      }
    }
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
  /// Rows stay where they are, whatever step scratch memory would have.
  const StoredSums &with_step(std::int64_t) const { return *this; }
};

/// Multiplies rows with the instructions of `Isa`. `scratch` is 64-byte aligned memory for where packed rows begin, for
/// the instructions, and for the most rows that are packed together; `panels` are the weights of all columns, and
/// `sums` says where sums go and what follows them.
template <class Isa, class Rows, class Sums>
MODELWHEEL_NOINLINE void multiply_rows_by(const Rows &rows, const ByteRange &range, const std::int8_t *panels,
                                          const Sums &sums, void *scratch) {
  using Left = typename Isa::Left;
  Scratch memory(scratch);
  const Runs runs = rows.runs();
  auto *const begins = memory.take<const Left *>(rows.most_together());
  PanelProduct<Isa> product(runs, memory.take<char>(static_cast<std::int64_t>(rows.instruction_scratch())));
  auto *const packed = memory.take<Left>(0);
  const std::int64_t most = rows.template rows_at_once<Isa>(), first = range.columns.begin;
  panels += first / kPanel * byte_panel(runs.depth());
  for (std::int64_t row = range.rows.begin; row < range.rows.end;) {
    const std::int64_t together = smaller_of(rows.template together<Isa>(row), range.rows.end - row);
    rows.template pack<Isa>(row, together, packed, begins);
    for (std::int64_t done = 0; done < together; done += most) {
      const std::int64_t count = smaller_of(most, together - done), at = row + done;
      product.run({begins + done, runs, sums.at(at, first), sums.step_m, sums.step_n}, count, panels,
                  length(range.columns));
      sums.finish(at, count, range.columns);
    }
    row += together;
  }
}

/// Whether the tiles of AMX are quicker than vectors: their shapes have to be set first, and 16 rows take as long as
/// few ones. See docs/design/byte-tiles.md for the times.
constexpr bool worth_tiles(std::int64_t rows, std::int64_t depth, std::int64_t columns) {
  constexpr std::int64_t kFewestRows = 5, kFewestProducts = 32 * 1024;
  return rows >= kFewestRows && rows * depth * divide_up(columns, kPanel) * kPanel >= kFewestProducts;
}

/// Multiplies rows with the best instructions that this CPU has.
template <class Rows, class Sums>
MODELWHEEL_INLINE void multiply_rows(const Rows &rows, const ByteRange &range, const std::int8_t *panels,
                                     const Sums &sums, void *scratch) {
#if defined(__AVX512BW__)
  if (worth_tiles(length(range.rows), rows.runs().depth(), length(range.columns)) && has_amx_int8())
    return multiply_rows_by<BytesAmx>(rows, range, panels, sums, scratch);
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
