// src/kernels/parts/ranged.h - parts of a step, and how it is best divided.
//
// A part is a smaller step of the same kind that begins elsewhere in memory, so that the kernels compute it as they
// are. Each kind has functions batch_range, row_range and column_range, which make one, and same_bits.
//
// A step is divided where each part has the bits of the whole: into images or products of a batch, into rows, or into
// columns where there are few rows. Rows come first because the next step is divided alike: a thread then reads what it
// wrote itself, and nobody writes the weights, which all threads read. With few rows there are more weights than
// results: of those, each thread reads only its columns.
#pragma once

#include "kernels/parts/division.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// A part, and where it begins: offsets, in elements, from the start of the operands and of the result.
template <class Shape>
struct Ranged {
  Shape shape;
  std::int64_t left, right, out;
};

/// A part as it is, for kinds whose kernels depend on nothing of the whole.
template <class Shape>
constexpr Ranged<Shape> as_whole(const Shape &, const Ranged<Shape> &part) {
  return part;
}

/// One of the parts.
template <class Shape>
constexpr Ranged<Shape> part_of(const Shape &whole, const Division &division, std::int64_t i) {
  const Range range = division.range(i);
  if (division.along == Along::kBatch) return batch_range(whole, range);
  return as_whole(whole, division.along == Along::kRows ? row_range(whole, range) : column_range(whole, range));
}

/// Whether all parts have the bits of the whole.
template <class T, class Shape>
constexpr bool same_bits(const Shape &whole, const Division &division) {
  for (std::int64_t i = 0; i < division.count(); ++i)
    if (!same_bits<T>(whole, part_of(whole, division, i).shape)) return false;
  return true;
}

/// How a result is best divided.
template <class T, class Shape>
constexpr Division best_division(const Shape &whole, std::int64_t batch, const Division &rows, const Division &columns,
                                 bool few_rows, std::int64_t parts) {
  const Division none{Along::kBatch, batch, batch};
  if (parts < 2) return none;
  const Division by_batch{Along::kBatch, batch, divide_up(batch, parts)};
  if (batch >= parts && divides(batch, parts)) return by_batch;
  const Division &first = few_rows ? columns : rows, &second = few_rows ? rows : columns;
  if (first.count() > 1 && same_bits<T>(whole, first)) return first;
  return second.count() > 1 && same_bits<T>(whole, second) ? second : none;
}

/// Most scratch memory of any part, in bytes, with up to `most` parts: all numbers of parts are tried. For each,
/// divide(parts) is the division.
template <class Shape, class Divide, class Bytes>
constexpr std::size_t largest_part(const Shape &whole, std::int64_t most, const Divide &divide, const Bytes &bytes) {
  std::size_t largest = 0;
  for (std::int64_t parts = 2; parts <= smaller_of(most, kMostParts); ++parts) {
    const Division division = divide(parts);
    for (std::int64_t i = 0; division.count() > 1 && i < division.count(); ++i)
      largest = larger_of(largest, bytes(part_of(whole, division, i).shape));
  }
  return largest;
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
