// src/kernels/parts/first_rows.h - steps that compute only the first rows of a batch.
//
// Such a step is a smaller one of the same kind that begins at the same place, so that the kernels compute it as they
// are. Each element has the bits that it has in the whole: a product of few rows that would not be computed alike has
// some more rows.
#pragma once

#include "kernels/parts/ranged.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// A step with so many rows, images or heads along an axis of it.
template <class Shape>
constexpr Shape first_of(Shape shape, std::int64_t Shape::*axis, std::int64_t count) {
  shape.*axis = count;
  return shape;
}

/// The part of an axis of the whole that belongs to the first `rows` of a batch of `batch` rows.
template <class Shape>
constexpr Shape first_rows(const Shape &whole, std::int64_t Shape::*axis, std::int64_t batch, std::int64_t rows) {
  return first_of(whole, axis, whole.*axis / batch * rows);
}

/// The numbers of rows for which a product is compiled: all of a batch, and what is a multiple of `unit`. What a
/// compiler computes for one constant has a limit.
struct RowCounts {
  std::int64_t batch, unit;

  constexpr std::int64_t next(std::int64_t rows) const { return smaller_of(rows + unit, batch); }
};

/// The rows that a product computes if `rows` of a batch are needed, and `least` are the fewest.
constexpr std::int64_t rounded_rows(const RowCounts &counts, std::int64_t least, std::int64_t rows) {
  return larger_of(least, smaller_of(divide_up(rows, counts.unit) * counts.unit, counts.batch));
}

/// Calls each(shape) with the products of all numbers of rows from `least` on. An axis is what `first_rows` takes.
template <class Shape, class Axis, class Each>
constexpr void for_rows(const Shape &whole, const Axis &axis, const RowCounts &counts, std::int64_t least,
                        const Each &each) {
  for (std::int64_t rows = counts.next(0);; rows = counts.next(rows)) {
    if (rows >= least) each(first_rows(whole, axis, counts.batch, rows));
    if (rows == counts.batch) return;
  }
}

/// Fewest rows of a batch from which on each element has the bits of the whole, whatever the number of rows.
template <class T, class Shape, class Axis>
constexpr std::int64_t least_rows(const Shape &whole, const Axis &axis, const RowCounts &counts) {
  std::int64_t least = counts.batch;
  for (std::int64_t rows = counts.next(0); rows < counts.batch; rows = counts.next(rows)) {
    const bool same = same_bits<T>(whole, first_rows(whole, axis, counts.batch, rows));
    least = same ? smaller_of(least, rows) : counts.batch;
  }
  return least;
}

/// Most scratch memory with any number of rows from `least` on, in bytes.
template <class Shape, class Axis, class Bytes>
constexpr std::size_t scratch_of_rows(const Shape &whole, const Axis &axis, const RowCounts &counts, std::int64_t least,
                                      const Bytes &bytes) {
  std::size_t largest = 0;
  for_rows(whole, axis, counts, least, [&](const Shape &some) { largest = larger_of(largest, bytes(some)); });
  return largest;
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
