// src/kernels/gemm/gemm.h - matrix products of floats and doubles.
#pragma once

#include "kernels/gemm/large.h"
#include "kernels/gemm/narrow.h"
#include "kernels/gemm/run.h"
#include "kernels/gemm/vector.h"
#include "kernels/gemm/wide.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Elements of scratch memory that `gemm` needs, for at most so many rows, an inner dimension of `depth` elements, `n`
/// columns, and weights in panels or not.
template <class T>
constexpr std::int64_t gemm_scratch(std::int64_t rows, std::int64_t depth, std::int64_t n, std::int64_t panel) {
  const std::int64_t wide = larger_of(gemm_run_scratch<T>(depth, n), gemm_wide_scratch<T>(depth, n));
  return larger_of(larger_of(gemm_narrow_scratch<T>(depth, n), gemm_large_scratch<T>(rows, depth, n, panel)), wide);
}

/// Whether each element is finished once, so that the result may be in place of the addend: no vector of columns
/// overlaps another.
template <class T>
constexpr bool finishes_once(const Gemm &g) {
  return g.out_n == 1 && g.n % kLanes<T> == 0 && !prefers_narrow<T>(g);
}

/// Whether gemm_large would pack elements several times, because rows overlap as the windows of a convolution do, for
/// weights that stay in the second-level cache without being fetched.
constexpr bool packs_rows_in_vain(const Gemm &g) {
  return g.rows[kRowAxes - 1].lhs < g.depth && g.num_segments * g.depth * g.n <= kLargeLhs;
}

/// How a product is computed.
template <class T>
constexpr GemmForm form_of(const Gemm &g) {
  if (kHasPanels<T> && prefers_large<T>(g) && !(packs_rows_in_vain(g) && prefers_run<T>(g))) return kLargeForm;
  if (prefers_narrow<T>(g)) return kNarrowForm;
  if (prefers_vector<T>(g)) return kVectorForm;
  if (prefers_run<T>(g)) return has_half_vectors<T>(g) ? kHalfRunForm : kRunForm;
  return has_half_vectors<T>(g) ? kHalfWideForm : kWideForm;
}

/// Computes a product; see Gemm. `scratch` has gemm_scratch<T>(num_rows(g), num_segments * depth, n, panel) elements.
/// With an epilogue, which must not wait, g.out_n is 1, the result is where the epilogue says, and `out` is left in any
/// state.
template <class T>
void gemm(const Gemm &g, const T *lhs, const T *rhs, T *out, T *scratch, const Epilogue<T> *epilogue = nullptr) {
  GemmCalls<T>::form(form_of<T>(g), g, lhs, rhs, out, scratch, epilogue);
}

extern template void gemm(const Gemm &, const float *, const float *, float *, float *, const Epilogue<float> *);
extern template void gemm(const Gemm &, const double *, const double *, double *, double *, const Epilogue<double> *);

}  // namespace modelwheel::MODELWHEEL_LEVEL
