// src/kernels/convolution/convolution.h - XLA's convolution, of any layout and element type.
#pragma once

#include "kernels/convolution/methods.h"
#include "kernels/gemm/uses.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Computes a convolution by compute(epilogue), and what must wait after it.
template <class T, class Compute>
MODELWHEEL_INLINE void with_epilogue(const Convolution &c, const Epilogue<T> *epilogue, const Compute &compute) {
  const bool later = epilogue != nullptr && must_wait(*epilogue);
  compute(later ? nullptr : epilogue);
  if (later) finish_rows(*epilogue, epilogue->sums, out_places(c), c.out_features, 0, c.out_features);
}

/// Computes a convolution of which method_of is `kMethod`. `scratch` has convolution_scratch<T>(c) bytes and is 64-byte
/// aligned. `epilogue` follows if it is not null: it begins at `out`, its columns are the features, which are
/// contiguous, and `out` is left in any state. Unless the epilogue need not wait, the result is dense.
template <class T, int kMethod>
void convolution_by(const Convolution &c, const T *in, const T *kernel, T *out, void *scratch,
                    const Epilogue<T> *epilogue = nullptr) {
  using Method = MethodAt<kMethod>;
  if constexpr (!kHasGemm<T>)
    Method::template compute<T>(c, in, kernel, out, scratch, epilogue);
  else
    with_epilogue(c, epilogue,
                  [&](const Epilogue<T> *now) { Method::template compute<T>(c, in, kernel, out, scratch, now); });
}

/// Computes a convolution by the sums of its definition; see `convolution_by`.
template <class T>
void direct_convolution(const Convolution &c, const T *in, const T *kernel, T *out, void *scratch,
                        const Epilogue<T> *epilogue = nullptr) {
  const auto compute = [&](const Epilogue<T> *now) {
    with_method<T, true>(method_of<T, true>(c),
                         [&](auto method) { decltype(method)::template compute<T>(c, in, kernel, out, scratch, now); });
  };
  if constexpr (!kHasGemm<T>)
    compute(epilogue);
  else
    with_epilogue(c, epilogue, compute);
}

/// The tiles of products whose rows are the lines of a convolution, without those that all products have.
template <class T>
constexpr GemmUses line_uses(Convolution c) {
  GemmUses uses{};
  if (c.rank == 0 || window_elements(c) == 0) return uses;
  // What the methods make of few features.
  if constexpr (kIsFloat<T>) {
    const std::int64_t count = adjacent_outputs<T>(c);
    if (count > 1) c = with_adjacent(c, count);
    if (count == 1 && prefers_padded<T>(c)) c = with_padded_features<T>(c);
  }
  Gemm g{};
  g.n = c.out_features / c.groups;
  g.rhs_n = c.kernel_out;
  g.panel = c.panel;
  g.out_n = 1;
  g.depth = window_elements(c);
  g.num_segments = 1;
  g.rows[kRowAxes - 1].count = c.out_size[c.rank - 1];
  const bool has_taps = g.depth > c.in_features / c.groups;
  if (!has_taps || !prefers_run<T>(g)) return uses;
  has_half_vectors<T>(g) ? add_run<T, kHalfLanes<T>>(g, false, uses) : add_run<T, kLanes<T>>(g, false, uses);
  return uses;
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
