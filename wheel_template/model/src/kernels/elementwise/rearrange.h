// src/kernels/elementwise/rearrange.h - copies between arrays whose elements are in different orders or have gaps.
#pragma once

#include "kernels/base/shuffle.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// The axes of a copy: their extents, and how far apart neighbours are, in elements. Rows are one of them if a call may
/// have fewer. The last axis varies fastest in the result; of the one before it, neighbours follow each other in the
/// source, if there is such an axis and it is not the last one.
struct Rearrangement {
  std::int64_t rows, in_row, out_row;
  std::int64_t size[6], in_step[6], out_step[6];
};

/// `Lanes` columns at a time from column j on; returns where they end.
template <class T, int Lanes>
MODELWHEEL_INLINE std::int64_t copy_columns(const T *in, T *out, std::int64_t j, std::int64_t columns) {
  for (; j + Lanes <= columns; j += Lanes) store<T, Lanes>(out + j, load<T, Lanes>(in + j));
  return j;
}

/// A matrix whose rows follow each other in the source and in the result.
template <class T>
void copy_lines(const Rearrangement &r, const T *in, T *out) {
  for (std::int64_t i = 0; i < r.size[4]; ++i, in += r.in_step[4], out += r.out_step[4]) {
    std::int64_t j = copy_columns<T, kLanes<T>>(in, out, 0, r.size[5]);
    j = copy_columns<T, kPart<T>>(in, out, j, r.size[5]);
    copy_columns<T, 1>(in, out, j, r.size[5]);
  }
}

/// A matrix that is transposed, by squares; the last ones overlap those before. It has as many rows and columns.
template <class T>
void copy_squares(const Rearrangement &r, const T *in, T *out) {
  // The parts of so many rows that are in one line of the first level stay there until all of it is read.
  constexpr std::int64_t kRows = 64;
  constexpr int kSize = kPart<T>;
  const std::int64_t rows = r.size[5], columns = r.size[4], in_step = r.in_step[5], out_step = r.out_step[4];
  for (std::int64_t first = 0; first < rows; first += kRows) {
    const std::int64_t end = smaller_of(first + kRows, rows);
    for (std::int64_t column = 0; column < columns; column += kSize) {
      const std::int64_t j = smaller_of(column, columns - kSize);
      for (std::int64_t row = first; row < end; row += kSize) {
        const std::int64_t i = smaller_of(row, rows - kSize);
        Part<T> square[kSize];
        MODELWHEEL_UNROLL
        for (int k = 0; k < kSize; ++k) square[k] = load<T, kSize>(in + (i + k) * in_step + j);
        transpose_square<T>(square);
        MODELWHEEL_UNROLL
        for (int k = 0; k < kSize; ++k) store<T, kSize>(out + (j + k) * out_step + i, square[k]);
      }
    }
  }
}

/// Interleaves a few rows, as the features of an image: of the parts that are written, the next ones write over what
/// is no element of theirs. Returns how many columns are done.
template <class T, int Rows>
MODELWHEEL_INLINE std::int64_t interleave(const Rearrangement &r, const T *in, T *out) {
  constexpr int kSize = kPart<T>;
  const std::int64_t in_step = r.in_step[5];
  std::int64_t j = 0;
  for (; j + kSize < r.size[4]; j += kSize) {
    Part<T> square[kSize];
    MODELWHEEL_UNROLL
    for (int k = 0; k < kSize; ++k) square[k] = load<T, kSize>(in + (k < Rows ? k : 0) * in_step + j);
    transpose_square<T>(square);
    MODELWHEEL_UNROLL
    for (int k = 0; k < kSize; ++k) store<T, kSize>(out + (j + k) * Rows, square[k]);
  }
  return j;
}

/// The two axes that vary fastest.
template <class T>
void rearrange_matrix(const Rearrangement &r, const T *in, T *out) {
  constexpr int kSize = kPart<T>;
  const std::int64_t rows = r.size[5], columns = r.size[4];
  const bool is_dense = r.out_step[5] == 1;
  const bool is_turned = is_dense && r.in_step[4] == 1;
  if (is_dense && r.in_step[5] == 1) return copy_lines(r, in, out);
  if (is_turned && rows >= kSize && columns >= kSize) return copy_squares(r, in, out);
  std::int64_t j = 0;
  if constexpr (kSize == 4) {
    if (is_turned && rows == 3 && r.out_step[4] == 3) j = interleave<T, 3>(r, in, out);
    if (is_turned && rows == 2 && r.out_step[4] == 2) j = interleave<T, 2>(r, in, out);
  }
  for (; j < columns; ++j)
    for (std::int64_t i = 0; i < rows; ++i)
      out[j * r.out_step[4] + i * r.out_step[5]] = in[j * r.in_step[4] + i * r.in_step[5]];
}

/// All axes but the rows.
template <class T>
void rearrange_row(const Rearrangement &r, const T *in, T *out) {
  for (std::int64_t a = 0; a < r.size[0]; ++a)
    for (std::int64_t b = 0; b < r.size[1]; ++b)
      for (std::int64_t c = 0; c < r.size[2]; ++c)
        for (std::int64_t d = 0; d < r.size[3]; ++d)
          rearrange_matrix(r, in + a * r.in_step[0] + b * r.in_step[1] + c * r.in_step[2] + d * r.in_step[3],
                           out + a * r.out_step[0] + b * r.out_step[1] + c * r.out_step[2] + d * r.out_step[3]);
}

/// Copies an array.
template <class T>
void rearrange(const Rearrangement &r, const T *in, T *out) {
  for (std::int64_t i = 0; i < r.rows; ++i) rearrange_row(r, in + i * r.in_row, out + i * r.out_row);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
