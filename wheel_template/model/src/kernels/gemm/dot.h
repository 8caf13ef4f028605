// src/kernels/gemm/dot.h - XLA's dot: batches of matrix products, of any layout and element type.
#pragma once

#include "kernels/base/numeric.h"
#include "kernels/gemm/bytes.h"
#include "kernels/gemm/gemm.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// out[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n].
struct Dot {
  std::int64_t batch, m, n, k;
  /// How far apart neighbours are, in elements.
  std::int64_t lhs_batch, lhs_m, lhs_k;
  std::int64_t rhs_batch, rhs_k, rhs_n;
  std::int64_t out_batch, out_m, out_n;
  /// If not 0, the weights - rhs, or lhs if n is 1 - are in panels of kPanel columns, so many elements apart. The last
  /// one may have zeros past their last column. Of 8-bit integers rhs is, as multiply_bytes reads them.
  std::int64_t panel = 0;
  /// How many groups of m rows there are, and how far apart they are in lhs and out: a batch in each step of a
  /// sequence. Several are of a single product.
  std::int64_t groups = 1, lhs_group = 0, out_group = 0;
};

/// The rows of each product.
constexpr std::int64_t all_rows(const Dot &d) { return d.groups * d.m; }

/// The product with the roles of lhs and rhs exchanged: out^T = rhs^T lhs^T. There is one group of rows.
constexpr Dot transposed(const Dot &d) {
  return {d.batch,     d.n,     d.m,     d.k,         d.rhs_batch, d.rhs_n, d.rhs_k,
          d.lhs_batch, d.lhs_k, d.lhs_m, d.out_batch, d.out_n,     d.out_m, d.panel};
}

/// The product as gemm.h takes it; `all` is its only segment.
constexpr Gemm gemm_of(const Dot &d, const Segment *all) {
  return {{{1, 0, 0}, {1, 0, 0}, {d.groups, d.lhs_group, d.out_group}, {d.m, d.lhs_m, d.out_m}},
          all,
          d.k > 0 ? 1 : 0,
          larger_of(d.k, std::int64_t{1}),
          d.lhs_k,
          d.rhs_k,
          d.n,
          d.rhs_n,
          d.out_n,
          d.panel};
}

/// Whether the exchange makes the product faster: a row vector rather than a column vector, few columns rather than
/// few rows if the inner dimension is contiguous on both sides, contiguous results rather than others. Groups of rows
/// are none of columns.
template <class T>
constexpr bool better_transposed(const Dot &d) {
  if (d.groups != 1 || prefers_narrow<T>(gemm_of(d, nullptr))) return false;
  if (d.rhs_k == 1 && prefers_narrow<T>(gemm_of(transposed(d), nullptr))) return true;
  if (d.n == 1 || d.m == 1) return d.m != 1;
  return d.out_n != 1 && d.out_m == 1;
}

/// The product in the faster of its two forms.
template <class T>
constexpr Dot oriented(const Dot &d) {
  return kHasGemm<T> && better_transposed<T>(d) ? transposed(d) : d;
}

/// `Width` columns of a product, in order.
template <int Width, class In, class Out>
MODELWHEEL_INLINE void dot_columns(const Dot &d, const In *lhs, const In *rhs, Out *out) {
  using Total = typename Sum<Out>::type;
  Total sum[Width] = {};
  for (std::int64_t k = 0; k < d.k; ++k) {
    const Total left = static_cast<Total>(widen(lhs[k * d.lhs_k]));
    for (int j = 0; j < Width; ++j) sum[j] += left * static_cast<Total>(widen(rhs[k * d.rhs_k + j * d.rhs_n]));
  }
  for (int j = 0; j < Width; ++j) narrow(sum[j], out[j * d.out_n]);
}

/// One product of any other elements.
template <class In, class Out>
void dot_generic(const Dot &d, const In *lhs, const In *rhs, Out *out) {
  for (std::int64_t i = 0; i < d.m; ++i, lhs += d.lhs_m, out += d.out_m) {
    std::int64_t j = 0;
    for (; j + 16 <= d.n; j += 16) dot_columns<16>(d, lhs, rhs + j * d.rhs_n, out + j * d.out_n);
    for (; j < d.n; ++j) dot_columns<1>(d, lhs, rhs + j * d.rhs_n, out + j * d.out_n);
  }
}

/// Whether it is a product of 8-bit integers with packed weights.
template <class In, class Out>
constexpr bool is_of_bytes([[maybe_unused]] const Dot &d) {
  if constexpr (sizeof(In) == 1 && sizeof(Out) == sizeof(std::int32_t)) return d.panel != 0;
  return false;
}

/// All products of other elements, of one group of rows.
template <class In, class Out>
void dot_group(const Dot &d, const In *lhs, const In *rhs, Out *out, [[maybe_unused]] void *scratch) {
  if constexpr (sizeof(In) == 1 && sizeof(Out) == sizeof(std::int32_t)) {
    if (is_of_bytes<In, Out>(d))
      return multiply_bytes({d.m, d.n, d.k, d.lhs_m, d.lhs_k, d.out_m, d.out_n}, lhs, rhs, out, scratch);
  }
  for (std::int64_t b = 0; b < d.batch; ++b)
    dot_generic(d, lhs + b * d.lhs_batch, rhs + b * d.rhs_batch, out + b * d.out_batch);
}

/// Columns in whole panels; all of them if there are no panels.
constexpr std::int64_t whole_columns(const Dot &d) { return d.panel == 0 ? d.n : d.n / kPanel * kPanel; }

/// Most rows that are multiplied together with a last panel that is not full.
inline constexpr std::int64_t kLastPanelRows = 64;

/// The columns of a last panel that is not full, in one group of rows: all of it is multiplied, to a buffer. See
/// `gemm`.
template <class T>
void gemm_last_panel(const Dot &d, const T *lhs, const T *rhs, T *out, T *scratch, const Epilogue<T> *epilogue) {
  const Segment all{0, 0};
  Gemm g = gemm_of(d, &all);
  const std::int64_t first = whole_columns(d), columns = d.n - first;
  rhs += column_offset(g, first);
  out += first * d.out_n;
  g.n = kPanel;
  g.out_n = 1;
  g.rows[kRowAxes - 2].count = 1;
  alignas(64) T buffer[kLastPanelRows * kPanel];
  for (std::int64_t done = 0; done < d.m; done += kLastPanelRows) {
    const std::int64_t rows = smaller_of(kLastPanelRows, d.m - done);
    g.rows[kRowAxes - 1] = {rows, d.lhs_m, kPanel};
    gemm(g, lhs + done * d.lhs_m, rhs, buffer, scratch);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) out[(done + i) * d.out_m + j * d.out_n] = buffer[i * kPanel + j];
  }
  if (epilogue != nullptr) finish_rows(*epilogue, out, d.m, d.out_m, first, columns);
}

/// Whether the epilogue of a product is applied when all of it is complete.
template <class T>
bool finishes_later(const Dot &d, const Epilogue<T> &e) {
  return better_transposed<T>(d) || e.overlaps || (in_place(e) && !finishes_once<T>(gemm_of(d, nullptr)));
}

/// Bytes of scratch memory that `dot` needs.
template <class In, class Out = In>
constexpr std::size_t dot_scratch(const Dot &d) {
  if (is_of_bytes<In, Out>(d)) return byte_scratch(d.m, d.k);
  if constexpr (!kHasGemm<In>) return 0;
  const Dot form = oriented<In>(d);
  const std::int64_t whole = whole_columns(form), rows = smaller_of(form.m, kLastPanelRows);
  const std::int64_t last = whole < form.n ? gemm_scratch<In>(rows, form.k, kPanel, form.panel) : 0;
  return scratch_bytes<In>(larger_of(gemm_scratch<In>(all_rows(form), form.k, whole, form.panel), last));
}

/// Bytes for the sums of a product, whole or in parts, whose result is written over what is added to it, but over no
/// operand: none where each sum is finished in registers, however many rows and columns are computed together.
template <class T>
constexpr std::size_t dot_sums(const Dot &d) {
  const bool at_once = d.k <= kMaxDepth && whole_columns(d) == d.n;
  const bool once = !better_transposed<T>(d) && finishes_once<T>(gemm_of(d, nullptr));
  return at_once && once ? 0 : scratch_bytes<T>(d.batch * all_rows(d) * d.n);
}

/// Elements from one row of the result to the next; a single row may have any stride.
constexpr std::int64_t row_step(const Dot &d) { return d.m > 1 ? d.out_m : d.batch > 1 ? d.out_batch : d.n; }

/// Computes a dot. `scratch` has dot_scratch<In, Out>(d) bytes and is 64-byte aligned.
/// Elements narrower than 32 bits are summed in 32; In and Out differ for products of int8 with results in int32.
/// `epilogue` follows if it is not null: it begins at `out`, its columns are those of the dot, the rows of all
/// products are evenly spaced, and `out` is left in any state.
template <class In, class Out>
MODELWHEEL_NOINLINE void dot(const Dot &d, const In *lhs, const In *rhs, Out *out, [[maybe_unused]] void *scratch,
                             [[maybe_unused]] const Epilogue<Out> *epilogue = nullptr) {
  if constexpr (kHasGemm<In>) {
    const Dot form = oriented<In>(d);
    const In *left = better_transposed<In>(d) ? rhs : lhs, *right = better_transposed<In>(d) ? lhs : rhs;
    const Segment all{0, 0};
    Gemm g = gemm_of(form, &all);
    g.n = whole_columns(form);
    const bool later = epilogue != nullptr && finishes_later<In>(d, *epilogue);
    const Epilogue<Out> *const now = later ? nullptr : epilogue;
    for (std::int64_t b = 0; b < d.batch; ++b)
      gemm(g, left + b * form.lhs_batch, right + b * form.rhs_batch, out + b * form.out_batch,
           static_cast<In *>(scratch), now);
    // Weights in panels are of a single product.
    if constexpr (kHasPanels<In>) {
      for (std::int64_t i = 0; g.n < form.n && i < form.groups; ++i)
        gemm_last_panel(form, left + i * form.lhs_group, right, out + i * form.out_group, static_cast<In *>(scratch),
                        now);
    }
    for (std::int64_t i = 0; later && i < d.groups; ++i)
      finish_rows(*epilogue, epilogue->sums + i * d.out_group, d.batch * d.m, row_step(d), 0, d.n);
  } else {
    for (std::int64_t i = 0; i < d.groups; ++i, lhs += d.lhs_group, out += d.out_group)
      dot_group(d, lhs, rhs, out, scratch);
  }
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
