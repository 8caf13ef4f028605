// src/kernels/convolution/uses.h - which kernels of matrix products the lines of a convolution use; see gemm/uses.h.
#pragma once

#include "kernels/convolution/methods.h"
#include "kernels/gemm/uses.h"

namespace modelwheel::MODELWHEEL_LEVEL {

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
