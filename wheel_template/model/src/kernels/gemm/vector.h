// src/kernels/gemm/vector.h - products of a single row with weights in panels.
#pragma once

#include "kernels/gemm/tile.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Whether gemm_vector computes it.
template <class T>
constexpr bool prefers_vector(const Gemm &g) {
  return g.panel != 0 && g.out_n == 1 && g.num_segments == 1 && num_rows(g) == 1;
}

#ifdef MODELWHEEL_ELEMENT
/// The columns of some panels from a column on.
template <class T, int Panels>
MODELWHEEL_NOINLINE void columns_of_row(const Gemm &g, const T *lhs, const T *rhs, T *out, std::int64_t column,
                                        const Epilogue<T> *epilogue) {
  constexpr int kLanesHere = kLanes<T>, kVectors = Panels * static_cast<int>(kPanel) / kLanesHere;
  const std::int64_t panel = g.panel, last = column_offset(g, (kVectors - 1) * kLanesHere);
  const T *const row[1] = {lhs + g.segments[0].lhs};
  rhs += g.segments[0].rhs + column_offset(g, column);
  Vector<T> sum[1][kVectors] = {};
  for (std::int64_t k = 0; k < g.depth; ++k, rhs += g.rhs_k)
    add_products<T, kLanesHere, 1, kVectors>(row, k * g.lhs_k, rhs, panel, last, sum);
  T *const to[1] = {out + column};
  store_sums<T, kLanesHere>(epilogue, to, column, (kVectors - 1) * kLanesHere, sum);
}
#endif

/// Panels that are read together, from a column on: equally many, as far as possible.
constexpr std::int64_t panels_from(std::int64_t column, std::int64_t n) {
  const std::int64_t left = (n - column) / kPanel;
  return divide_up(left, divide_up(left, kMostPanels));
}

#ifdef MODELWHEEL_ELEMENT
/// Computes a product for which prefers_vector holds; see `gemm`.
template <class T>
MODELWHEEL_NOINLINE void gemm_vector(const Gemm &g, const T *lhs, const T *rhs, T *out, T *,
                                     const Epilogue<T> *epilogue) {
  for (std::int64_t column = 0; column < g.n;) {
    const std::int64_t panels = panels_from(column, g.n);
    GemmCalls<T>::panels(static_cast<int>(panels), g, lhs, rhs, out, column, epilogue);
    column += panels * kPanel;
  }
}
#endif

}  // namespace modelwheel::MODELWHEEL_LEVEL
