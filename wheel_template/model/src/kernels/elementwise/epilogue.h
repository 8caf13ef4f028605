// src/kernels/elementwise/epilogue.h - what follows a product element by element: scale, bias, residual, clamp,
// activation.
//
// A product applies its epilogue to a tile of results while that is in registers, so that results are written once and
// not read again. An epilogue is data, not a type: the kernels are not compiled anew for every combination.
#pragma once

#include "kernels/base/level.h"
#include "kernels/elementwise/activation.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// result = activation(min(max((sum + bias) * scale + shift + addend, low), high)) * factor + offset, in this order;
/// parts may be missing. Sums and results have the same strides, with contiguous columns. NaN stays NaN; `low` and
/// `high` are no NaN.
template <class T>
struct Epilogue {
  const T *sums;
  /// May be `sums`.
  T *result;
  /// `result` overlaps an operand of the product.
  bool overlaps;
  /// A value for each column, or null.
  const T *bias, *scale, *shift;
  /// An array with the strides of the result, or null; it is `result` or does not overlap it.
  const T *addend;
  bool has_low, has_high;
  T low, high;
  /// Only of floats.
  Activation activation;
  /// Of an activation that is a line or a curve times it below 0.
  T slope = 1;
  /// Whether a factor and an offset follow: numbers, or a value for each column where the pointer is not null.
  bool has_factor = false;
  T factor = 1, offset = -T(0);
  const T *factors = nullptr, *offsets = nullptr;
};

/// How many operands of an epilogue have a value for each column.
inline constexpr int kColumnOperands = 5;

/// An epilogue of which an operand with a value for each column is change(operand, number), with a number below
/// kColumnOperands.
template <class T, class Change>
Epilogue<T> with_columns(Epilogue<T> e, const Change &change) {
  const T **const operands[kColumnOperands] = {&e.bias, &e.scale, &e.shift, &e.factors, &e.offsets};
  for (int i = 0; i < kColumnOperands; ++i)
    if (*operands[i] != nullptr) *operands[i] = change(*operands[i], i);
  return e;
}

/// Whether the result is written over the addend.
template <class T>
bool in_place(const Epilogue<T> &e) {
  return e.addend == e.result;
}

/// Whether the product must be complete first: the result is written over an operand of the product or over the
/// addend, and tiles may compute some elements twice.
template <class T>
bool must_wait(const Epilogue<T> &e) {
  return e.overlaps || in_place(e);
}

/// Fetches what finishing vectors of a row will read and write, `Lanes` elements apart from `place` in `sums` on;
/// without an epilogue, that is `place` itself.
template <class T, int Lanes, int Vectors>
MODELWHEEL_INLINE void fetch_results(const Epilogue<T> *e, const T *place) {
  const T *const result = e != nullptr ? e->result + (place - e->sums) : place;
  const T *const addend = e != nullptr && e->addend != nullptr ? e->addend + (place - e->sums) : result;
  MODELWHEEL_UNROLL
  for (int j = 0; j < Vectors; ++j) {
    __builtin_prefetch(result + j * Lanes, 1, 2);
    if (addend != result) __builtin_prefetch(addend + j * Lanes, 0, 2);
  }
}

/// The epilogue of the columns from `first` on.
template <class T>
Epilogue<T> from_column(Epilogue<T> e, std::int64_t first) {
  return with_columns(e, [first](const T *values, int) { return values + first; });
}

/// Finishes `rows` x `columns` vectors after the limits, which are rare: they are in memory, so that tiles need no code
/// for it.
template <class T, int Lanes>
MODELWHEEL_NOINLINE void finish_copies(const Epilogue<T> &e, std::int64_t column, const std::int64_t *at, int rows,
                                       int columns, Vector<T, Lanes> *x) {
  if constexpr (sizeof(T) == sizeof(float))
    if (e.activation != Activation::kNone) activate<T, Lanes>(e.activation, e.slope, x, rows * columns);
  for (int j = 0; e.has_factor && j < columns; ++j) {
    const std::int64_t place = column + at[j];
    Vector<T, Lanes> factor = e.factors != nullptr ? load<T, Lanes>(e.factors + place) : splat<T, Lanes>(e.factor);
    Vector<T, Lanes> offset = e.offsets != nullptr ? load<T, Lanes>(e.offsets + place) : splat<T, Lanes>(e.offset);
    for (int i = 0; i < rows; ++i) x[i * columns + j] = x[i * columns + j] * factor + offset;
  }
}

/// Finishes `Rows` x `Columns` vectors of sums: `row[i]` is the place of row i in `sums`, `column` the first column,
/// `at[j]` how much further vector j is.
template <class T, int Lanes, int Rows, int Columns>
MODELWHEEL_INLINE void finish_vectors(const Epilogue<T> &e, const T *const (&row)[Rows], std::int64_t column,
                                      const std::int64_t (&at)[Columns], Vector<T, Lanes> (&x)[Rows][Columns]) {
  if (e.bias != nullptr) {
    MODELWHEEL_UNROLL
    for (int j = 0; j < Columns; ++j) {
      const Vector<T, Lanes> bias = load<T, Lanes>(e.bias + column + at[j]);
      MODELWHEEL_UNROLL
      for (int i = 0; i < Rows; ++i) x[i][j] += bias;
    }
  }
  MODELWHEEL_UNROLL
  for (int j = 0; j < Columns; ++j) {
    // Multiplying by 1 and adding -0 change nothing.
    Vector<T, Lanes> scale = e.scale != nullptr ? load<T, Lanes>(e.scale + column + at[j]) : splat<T, Lanes>(1);
    Vector<T, Lanes> shift = e.shift != nullptr ? load<T, Lanes>(e.shift + column + at[j]) : -splat<T, Lanes>(0);
    // Both before the product: GCC would otherwise round it in tiles of one row and not in others.
    keep_in_register(scale);
    keep_in_register(shift);
    MODELWHEEL_UNROLL
    for (int i = 0; i < Rows; ++i) x[i][j] = x[i][j] * scale + shift;
  }
  if (e.addend != nullptr) {
    MODELWHEEL_UNROLL
    for (int i = 0; i < Rows; ++i) {
      MODELWHEEL_UNROLL
      for (int j = 0; j < Columns; ++j) x[i][j] += load<T, Lanes>(e.addend + (row[i] - e.sums) + at[j]);
    }
  }
  // Of equal zeros the second is taken, as in XLA's machine code.
  if (e.has_low) {
    const Vector<T, Lanes> low = splat<T, Lanes>(e.low);
    MODELWHEEL_UNROLL
    for (int i = 0; i < Rows; ++i) {
      MODELWHEEL_UNROLL
      for (int j = 0; j < Columns; ++j) x[i][j] = low > x[i][j] ? low : x[i][j];
    }
  }
  if (e.has_high) {
    const Vector<T, Lanes> high = splat<T, Lanes>(e.high);
    MODELWHEEL_UNROLL
    for (int i = 0; i < Rows; ++i) {
      MODELWHEEL_UNROLL
      for (int j = 0; j < Columns; ++j) x[i][j] = high < x[i][j] ? high : x[i][j];
    }
  }
  if (e.activation != Activation::kNone || e.has_factor) {
    // A copy: `x` itself, whose address would be taken, could not stay in registers.
    Vector<T, Lanes> all[Rows][Columns];
    MODELWHEEL_UNROLL
    for (int i = 0; i < Rows; ++i) {
      MODELWHEEL_UNROLL
      for (int j = 0; j < Columns; ++j) all[i][j] = x[i][j];
    }
    finish_copies<T, Lanes>(e, column, at, Rows, Columns, all[0]);
    MODELWHEEL_UNROLL
    for (int i = 0; i < Rows; ++i) {
      MODELWHEEL_UNROLL
      for (int j = 0; j < Columns; ++j) x[i][j] = all[i][j];
    }
  }
}

/// Finishes whole vectors of rows that are `step` apart, from element j on, of n; returns where they end.
template <class T, int Lanes, int Rows>
MODELWHEEL_INLINE std::int64_t finish_lanes(const Epilogue<T> &e, const T *first, std::int64_t step,
                                            std::int64_t column, std::int64_t j, std::int64_t n) {
  const std::int64_t at[1] = {0};
  for (; j + Lanes <= n; j += Lanes) {
    const T *place[Rows];
    Vector<T, Lanes> x[Rows][1];
    MODELWHEEL_UNROLL
    for (int i = 0; i < Rows; ++i) {
      place[i] = first + i * step + j;
      x[i][0] = load<T, Lanes>(place[i]);
    }
    finish_vectors<T, Lanes>(e, place, column + j, at, x);
    MODELWHEEL_UNROLL
    for (int i = 0; i < Rows; ++i) store<T, Lanes>(e.result + (place[i] - e.sums), x[i][0]);
  }
  return j;
}

template <class T, int Rows>
MODELWHEEL_NOINLINE void finish_some_rows(const Epilogue<T> &e, const T *first, std::int64_t step, std::int64_t column,
                                          std::int64_t n) {
  std::int64_t j = finish_lanes<T, kLanes<T>, Rows>(e, first, step, column, 0, n);
  j = finish_lanes<T, 16 / static_cast<int>(sizeof(T)), Rows>(e, first, step, column, j, n);
  finish_lanes<T, 1, Rows>(e, first, step, column, j, n);
}

/// Finishes rows in memory that are `step` apart: n sums of each, the first of them in the given column.
template <class T>
void finish_rows(const Epilogue<T> &e, const T *first, std::int64_t rows, std::int64_t step, std::int64_t column,
                 std::int64_t n) {
  std::int64_t done = 0;
  for (; done + 8 <= rows; done += 8) finish_some_rows<T, 8>(e, first + done * step, step, column, n);
  for (; done < rows; ++done) finish_some_rows<T, 1>(e, first + done * step, step, column, n);
}

extern template void finish_rows(const Epilogue<float> &, const float *, std::int64_t, std::int64_t, std::int64_t,
                                 std::int64_t);
extern template void finish_rows(const Epilogue<double> &, const double *, std::int64_t, std::int64_t, std::int64_t,
                                 std::int64_t);

}  // namespace modelwheel::MODELWHEEL_LEVEL
