// src/kernels/attention/mask.h - what is added to the scores of attention, or decides which of them count.
//
// The code for an element is generated: a type `Code` with the type `Result`, a value
// `kNothing` that changes no score, and a function `at(in, place)`. A mask is
// computed once for all heads and layers that have the same one.
#pragma once

#include "kernels/base/numeric.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// An element of a mask: both axes of heads, query and key.
struct Place {
  std::int64_t outer, inner, query, key;
};

/// Where elements are in memory, or which index they have: of the first, and how far apart neighbours are.
struct Linear {
  std::int64_t first, outer, inner, query, key;
};

MODELWHEEL_INLINE std::int64_t place_of(const Linear &a, const Place &p) {
  return a.first + a.outer * p.outer + a.inner * p.inner + a.query * p.query + a.key * p.key;
}

// Integers wrap, as the definition says.

template <class T>
MODELWHEEL_INLINE T add_wrapped(T a, T b) {
  using U = typename Sum<T>::type;
  return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
}

template <class T>
MODELWHEEL_INLINE T subtract_wrapped(T a, T b) {
  using U = typename Sum<T>::type;
  return static_cast<T>(static_cast<U>(a) - static_cast<U>(b));
}

template <class T>
MODELWHEEL_INLINE T multiply_wrapped(T a, T b) {
  using U = typename Sum<T>::type;
  return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
}

template <class T>
MODELWHEEL_INLINE T negated(T a) {
  using U = typename Sum<T>::type;
  return static_cast<T>(-static_cast<U>(a));
}

/// The extents of a mask; rows of keys are `step` elements apart.
struct MaskShape {
  std::int64_t outer, inner, queries, keys, step;
};

/// Computes a mask. What is behind a row is one that changes nothing: 0, or true.
template <class Code>
MODELWHEEL_NOINLINE void compute_mask(const MaskShape &s, const void *const *in, typename Code::Result *out) {
  for (std::int64_t i = 0; i < s.outer; ++i)
    for (std::int64_t j = 0; j < s.inner; ++j)
      for (std::int64_t m = 0; m < s.queries; ++m, out += s.step) {
        for (std::int64_t n = 0; n < s.keys; ++n) out[n] = Code::at(in, Place{i, j, m, n});
        for (std::int64_t n = s.keys; n < s.step; ++n) out[n] = Code::kNothing;
      }
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
