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

/// Fewest rows of a batch from which on each element has the bits of the whole, whatever the number of rows.
template <class T, class Shape>
constexpr std::int64_t least_rows(const Shape &whole, std::int64_t Shape::*axis, std::int64_t batch) {
  std::int64_t rows = batch;
  while (rows > 1 && same_bits<T>(whole, first_rows(whole, axis, batch, rows - 1))) --rows;
  return rows;
}

/// Most scratch memory with any number of rows from `least` on, in bytes.
template <class Shape, class Bytes>
constexpr std::size_t scratch_of_rows(const Shape &whole, std::int64_t Shape::*axis, std::int64_t batch,
                                      std::int64_t least, const Bytes &bytes) {
  std::size_t largest = 0;
  for (std::int64_t rows = least; rows <= batch; ++rows)
    largest = larger_of(largest, bytes(first_rows(whole, axis, batch, rows)));
  return largest;
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
