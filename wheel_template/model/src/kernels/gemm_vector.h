// src/kernels/gemm_vector.h - products of a single row with weights in panels.
#pragma once

#include "gemm_tile.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Most panels that are read together: as many as have enough independent sums in flight.
template <class T>
inline constexpr int kVectorPanels = larger_of(kRowVectors * kLanes<T> / static_cast<int>(kPanel), 1);

/// Whether gemm_vector computes it.
template <class T>
constexpr bool prefers_vector(const Gemm &g) {
  return g.panel != 0 && g.out_n == 1 && g.num_segments == 1 && num_rows(g) == 1;
}

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

/// Runs columns_of_row for so many panels, at most `Panels`.
template <class T, int Panels = kVectorPanels<T>>
MODELWHEEL_INLINE void columns_of_panels(std::int64_t panels, const Gemm &g, const T *lhs, const T *rhs, T *out,
                                         std::int64_t column, const Epilogue<T> *epilogue) {
  if constexpr (Panels > 1) {
    if (panels < Panels) return columns_of_panels<T, Panels - 1>(panels, g, lhs, rhs, out, column, epilogue);
  }
  columns_of_row<T, Panels>(g, lhs, rhs, out, column, epilogue);
}

/// Computes a product for which prefers_vector holds; see `gemm`.
template <class T>
void gemm_vector(const Gemm &g, const T *lhs, const T *rhs, T *out, const Epilogue<T> *epilogue) {
  for (std::int64_t column = 0; column < g.n;) {
    const std::int64_t left = (g.n - column) / kPanel;
    const std::int64_t panels = divide_up(left, divide_up(left, kVectorPanels<T>));
    columns_of_panels<T>(panels, g, lhs, rhs, out, column, epilogue);
    column += panels * kPanel;
  }
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
