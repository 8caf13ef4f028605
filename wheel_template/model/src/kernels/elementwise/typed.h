// src/kernels/elementwise/typed.h - vectors of several element types: what generated code computes with integers and
// floats.
#pragma once

#include "kernels/base/level.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace modelwheel::MODELWHEEL_LEVEL {

/// Elements of another type, as C++ converts them. Floats become bytes by way of 32-bit integers, for which CPUs have
/// instructions.
template <class To, int Lanes, class From>
MODELWHEEL_INLINE Vector<To, Lanes> converted(From x) {
  using Element = decltype(x[0] + x[0]);
  if constexpr (sizeof(To) == 1 && sizeof(x[0]) == sizeof(float) && Element(0.5) != Element(0))
    return __builtin_convertvector(__builtin_convertvector(x, Vector<std::int32_t, Lanes>), Vector<To, Lanes>);
  else
    return __builtin_convertvector(x, Vector<To, Lanes>);
}

/// Rounded to the nearest integer, ties to even.
template <int Lanes>
MODELWHEEL_INLINE Vector<float, Lanes> rounded_even(Vector<float, Lanes> x) {
#if defined(__AVX512F__)
  if constexpr (Lanes == 16)
    return reinterpret_cast<Vector<float, Lanes>>(
        _mm512_roundscale_ps(reinterpret_cast<__m512>(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#endif
#if defined(__AVX__)
  if constexpr (Lanes == 8)
    return reinterpret_cast<Vector<float, Lanes>>(
        _mm256_round_ps(reinterpret_cast<__m256>(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#endif
  // Of a number below 2^23, a sum with that has no fraction; others have none themselves.
  using Bits = Vector<std::int32_t, Lanes>;
  const Bits bits = reinterpret_cast<Bits>(x), sign = bits & splat<std::int32_t, Lanes>(INT32_MIN);
  const Vector<float, Lanes> size = reinterpret_cast<Vector<float, Lanes>>(bits ^ sign);
  Vector<float, Lanes> sum = size + splat<float, Lanes>(0x1p23F);
  sum -= splat<float, Lanes>(0x1p23F);
  const Vector<float, Lanes> whole = size < splat<float, Lanes>(0x1p23F) ? sum : size;
  return reinterpret_cast<Vector<float, Lanes>>(reinterpret_cast<Bits>(whole) | sign);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
