// src/kernels/pooling/row_softmax.h - softmax of long rows: exp(x - largest) over the sum of these, elements
// contiguous.
//
// Three passes over a row while it is in a cache, each with several vectors of partial results, so that none waits for
// the one before. Sums depend on the length of the row alone. NaN, or plus infinity, makes the whole row NaN.
#pragma once

#include <cstring>

#include "kernels/base/reducer.h"
#include "kernels/elementwise/activation.h"

namespace modelwheel::MODELWHEEL_LEVEL {

struct RowSoftmax {
  std::int64_t rows, size;
};

/// Vectors of partial results.
inline constexpr int kPartials = 4;

/// The first elements of a vector; the others are `rest`.
template <class T>
MODELWHEEL_INLINE Vector<T> load_first(const T *from, std::int64_t count, T rest) {
  if (count == kLanes<T>) return load(from);
  T lanes[kLanes<T>];
  store<T>(lanes, splat(rest));
  std::memcpy(lanes, from, static_cast<std::size_t>(count) * sizeof(T));
  return load(lanes);
}

template <class T>
MODELWHEEL_INLINE void store_first(T *to, std::int64_t count, Vector<T> v) {
  if (count == kLanes<T>) {
    store<T>(to, v);
    return;
  }
  T lanes[kLanes<T>];
  store<T>(lanes, v);
  std::memcpy(to, lanes, static_cast<std::size_t>(count) * sizeof(T));
}

/// Calls pass(i, k, count) for the `count` elements from k on, which are a vector or its first: partial result i has
/// them.
template <class T, class Pass>
MODELWHEEL_INLINE void along_row(std::int64_t size, Pass &pass) {
  constexpr std::int64_t kWidth = kLanes<T>;
  std::int64_t k = 0;
  for (; k + kPartials * kWidth <= size; k += kPartials * kWidth) {
    MODELWHEEL_UNROLL
    for (int i = 0; i < kPartials; ++i) pass(i, k + i * kWidth, kWidth);
  }
  for (; k + kWidth <= size; k += kWidth) pass(0, k, kWidth);
  if (k < size) pass(1, k, size - k);
}

/// One number from all lanes of all partial results.
template <Reducer reducer, class T>
MODELWHEEL_INLINE T reduced_lanes(const Vector<T> (&partial)[kPartials]) {
  T lanes[kLanes<T>];
  store<T>(lanes, reduced<reducer>(reduced<reducer>(partial[0], partial[1]), reduced<reducer>(partial[2], partial[3])));
  T total = lanes[0];
  for (int i = 1; i < kLanes<T>; ++i) total = reduced<reducer>(total, lanes[i]);
  return total;
}

/// Adds the bias, and finds the largest element.
template <class T>
struct RaisePass {
  const T *in, *bias;
  T *out;
  Vector<T> largest[kPartials];

  MODELWHEEL_INLINE void operator()(int i, std::int64_t k, std::int64_t count) {
    Vector<T> x = load_first<T>(in + k, count, -static_cast<T>(__builtin_inf()));
    if (bias != nullptr) {
      x += load_first<T>(bias + k, count, T(0));
      store_first<T>(out + k, count, x);
    }
    largest[i] = reduced<Reducer::kMaximum>(largest[i], x);
  }
};

/// Replaces elements by exponentials, and adds these up.
template <class T>
struct PowerPass {
  const T *in;
  T *out;
  Vector<T> largest;
  Vector<T> sum[kPartials];

  MODELWHEEL_INLINE void operator()(int i, std::int64_t k, std::int64_t count) {
    const Vector<T> x = load_first<T>(in + k, count, -static_cast<T>(__builtin_inf()));
    const Vector<T> power = exponential_of_minus<kLanes<T>>(magnitude<kLanes<T>>(largest - x, 150)).unlifted();
    store_first<T>(out + k, count, power);
    sum[i] += power;
  }
};

template <class T>
struct SharePass {
  T *out;
  Vector<T> factor;

  MODELWHEEL_INLINE void operator()(int, std::int64_t k, std::int64_t count) {
    store_first<T>(out + k, count, load_first<T>(out + k, count, T(0)) * factor);
  }
};

template <class T>
MODELWHEEL_NOINLINE void softmax_of_row(const T *in, const T *bias, std::int64_t size, T *out) {
  RaisePass<T> raise{in, bias, out, {}};
  for (Vector<T> &one : raise.largest) one = splat<T>(-static_cast<T>(__builtin_inf()));
  along_row<T>(size, raise);
  PowerPass<T> powers{
      bias != nullptr ? out : in, out, splat<T>(reduced_lanes<Reducer::kMaximum, T>(raise.largest)), {}};
  along_row<T>(size, powers);
  SharePass<T> share{out, splat<T>(1 / reduced_lanes<Reducer::kSum, T>(powers.sum))};
  along_row<T>(size, share);
}

/// The softmax of each row plus a bias for each column, which may be null; `out` may be `in`.
template <class T>
void row_softmax(const RowSoftmax &s, const T *in, const T *bias, T *out) {
  for (std::int64_t row = 0; row < s.rows; ++row)
    softmax_of_row<T>(in + row * s.size, bias, s.size, out + row * s.size);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
