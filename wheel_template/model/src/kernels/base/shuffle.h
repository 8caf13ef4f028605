// src/kernels/base/shuffle.h - transposes and sums across the lanes of vectors, by 16-byte parts.
#pragma once

#include "kernels/base/level.h"

#if defined(__clang__) || __GNUC__ >= 12
#define MODELWHEEL_SHUFFLE2(a, b, i, j) __builtin_shufflevector(a, b, i, j)
#define MODELWHEEL_SHUFFLE4(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define MODELWHEEL_SHUFFLE2(a, b, i, j) __builtin_shuffle(a, b, Vector<std::int64_t, 2>{i, j})
#define MODELWHEEL_SHUFFLE4(a, b, i, j, k, l) __builtin_shuffle(a, b, Vector<std::int32_t, 4>{i, j, k, l})
#endif

namespace modelwheel::MODELWHEEL_LEVEL {

/// Elements in a 16-byte part.
template <class T>
inline constexpr int kPart = 16 / static_cast<int>(sizeof(T));

template <class T>
using Part = Vector<T, kPart<T>>;

/// Elements of half a vector, or of the smallest one: the fewest that are worth a vector.
template <class T>
inline constexpr int kHalfLanes = larger_of(kLanes<T> / 2, kPart<T>);

/// Interleaves the lower halves of two parts.
template <class T>
MODELWHEEL_INLINE Part<T> zip_low(Part<T> a, Part<T> b) {
  if constexpr (kPart<T> == 2)
    return MODELWHEEL_SHUFFLE2(a, b, 0, 2);
  else
    return MODELWHEEL_SHUFFLE4(a, b, 0, 4, 1, 5);
}

/// Interleaves the upper halves of two parts.
template <class T>
MODELWHEEL_INLINE Part<T> zip_high(Part<T> a, Part<T> b) {
  if constexpr (kPart<T> == 2)
    return MODELWHEEL_SHUFFLE2(a, b, 1, 3);
  else
    return MODELWHEEL_SHUFFLE4(a, b, 2, 6, 3, 7);
}

/// Transposes a square of kPart<T> parts in place.
template <class T>
MODELWHEEL_INLINE void transpose_square(Part<T> (&rows)[kPart<T>]) {
  if constexpr (kPart<T> == 2) {
    const Part<T> low = zip_low<T>(rows[0], rows[1]);
    rows[1] = zip_high<T>(rows[0], rows[1]);
    rows[0] = low;
  } else {
    const Part<T> even_low = zip_low<T>(rows[0], rows[2]), even_high = zip_high<T>(rows[0], rows[2]);
    const Part<T> odd_low = zip_low<T>(rows[1], rows[3]), odd_high = zip_high<T>(rows[1], rows[3]);
    rows[0] = zip_low<T>(even_low, odd_low);
    rows[1] = zip_high<T>(even_low, odd_low);
    rows[2] = zip_low<T>(even_high, odd_high);
    rows[3] = zip_high<T>(even_high, odd_high);
  }
}

/// out[j * out_step + i] = in[i * in_step + j] for i < rows, j < columns; elements within rows are contiguous.
template <class T>
MODELWHEEL_INLINE void transpose(const T *in, std::int64_t in_step, std::int64_t rows, std::int64_t columns, T *out,
                                 std::int64_t out_step) {
  constexpr int kSize = kPart<T>;
  const std::int64_t whole_rows = rows - rows % kSize, whole_columns = columns - columns % kSize;
  for (std::int64_t i = 0; i < whole_rows; i += kSize)
    for (std::int64_t j = 0; j < whole_columns; j += kSize) {
      Part<T> square[kSize];
      MODELWHEEL_UNROLL
      for (int r = 0; r < kSize; ++r) square[r] = load<T, kSize>(in + (i + r) * in_step + j);
      transpose_square<T>(square);
      MODELWHEEL_UNROLL
      for (int r = 0; r < kSize; ++r) store<T, kSize>(out + (j + r) * out_step + i, square[r]);
    }
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = i < whole_rows ? whole_columns : 0; j < columns; ++j)
      out[j * out_step + i] = in[i * in_step + j];
}

/// The sum of a vector's 16-byte parts.
template <class T>
MODELWHEEL_INLINE Part<T> sum_of_parts(Vector<T> v) {
  T lanes[kLanes<T>];
  store<T>(lanes, v);
  Part<T> sum = load<T, kPart<T>>(lanes);
  MODELWHEEL_UNROLL
  for (int i = kPart<T>; i < kLanes<T>; i += kPart<T>) sum += load<T, kPart<T>>(lanes + i);
  return sum;
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
