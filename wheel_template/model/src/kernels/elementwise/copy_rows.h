// src/kernels/elementwise/copy_rows.h - a dense matrix into some columns of a wider one.
#pragma once

#include "kernels/base/level.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Rows of `columns` elements, which follow each other and become `step` elements apart.
struct CopyRows {
  std::int64_t rows, columns, step;
};

/// `Lanes` columns at a time from column j on; returns where they end.
template <class T, int Lanes>
MODELWHEEL_INLINE std::int64_t copy_columns(const T *in, T *out, std::int64_t j, std::int64_t columns) {
  for (; j + Lanes <= columns; j += Lanes) store<T, Lanes>(out + j, load<T, Lanes>(in + j));
  return j;
}

/// Copies a matrix.
template <class T>
void copy_rows(const CopyRows &c, const T *in, T *out) {
  for (std::int64_t i = 0; i < c.rows; ++i, in += c.columns, out += c.step) {
    std::int64_t j = copy_columns<T, kLanes<T>>(in, out, 0, c.columns);
    j = copy_columns<T, 16 / static_cast<int>(sizeof(T))>(in, out, j, c.columns);
    copy_columns<T, 1>(in, out, j, c.columns);
  }
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
