// src/kernels/elementwise/typed.h - vectors of several element types: what generated code computes with integers and
// floats.
#pragma once

#include "kernels/base/level.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace modelwheel::MODELWHEEL_LEVEL {

// The standard library's traits would be functions of no level.
template <class T>
struct Unreferenced {
  using Type = T;
};
template <class T>
struct Unreferenced<T &> {
  using Type = T;
};
template <class T>
struct Unreferenced<const T &> {
  using Type = T;
};
template <bool kSigned>
struct Middle {
  using Type = std::int16_t;
};
template <>
struct Middle<false> {
  using Type = std::uint16_t;
};
template <class T>
constexpr bool kHasFractions = static_cast<T>(0.5F) != static_cast<T>(0);
template <class T>
constexpr bool kHasSign = static_cast<T>(-1) <= static_cast<T>(0);

#if defined(__AVX512F__)
/// GCC 12 warns of what intrinsics without a mask leave undefined.
inline constexpr __mmask16 kAllLanes = 0xFFFF;

/// 32-bit integers as the bytes at their lower ends, and bytes as 32-bit integers.
template <class To, class From>
MODELWHEEL_INLINE Vector<To, 16> converted_bytes(From x) {
  if constexpr (sizeof(To) == 1)
    return reinterpret_cast<Vector<To, 16>>(_mm512_maskz_cvtepi32_epi8(kAllLanes, reinterpret_cast<__m512i>(x)));
  else if constexpr (kHasSign<typename Unreferenced<decltype(x[0])>::Type>)
    return reinterpret_cast<Vector<To, 16>>(_mm512_maskz_cvtepi8_epi32(kAllLanes, reinterpret_cast<__m128i>(x)));
  else
    return reinterpret_cast<Vector<To, 16>>(_mm512_maskz_cvtepu8_epi32(kAllLanes, reinterpret_cast<__m128i>(x)));
}
#endif

#if defined(__AVX2__)
/// The bytes at the lower ends of eight 32-bit integers, by one shuffle: GCC 12 masks and packs them twice.
template <class To, class From>
MODELWHEEL_INLINE Vector<To, 8> lower_bytes(From x) {
  const __m256i ends = _mm256_set1_epi32(0x0C080400);
  const __m256i picked = _mm256_shuffle_epi8(reinterpret_cast<__m256i>(x), ends);
  const __m128i both = _mm_unpacklo_epi32(_mm256_castsi256_si128(picked), _mm256_extracti128_si256(picked, 1));
  return reinterpret_cast<Vector<To, 8>>(both[0]);
}
#endif

/// Elements of another type, as C++ converts them. Floats and bytes become each other by way of 32-bit integers, for
/// which CPUs have instructions, and these and bytes by way of 16 bits: GCC 12 converts to four times the size one
/// element after the other.
template <class To, int Lanes, class From>
MODELWHEEL_INLINE Vector<To, Lanes> converted(From x) {
  using Element = typename Unreferenced<decltype(x[0])>::Type;
  constexpr bool kFromFloat = kHasFractions<Element>, kToFloat = kHasFractions<To>;
  if constexpr ((kFromFloat && sizeof(To) == 1) || (kToFloat && sizeof(Element) == 1)) {
    return converted<To, Lanes>(converted<std::int32_t, Lanes>(x));
  } else if constexpr (!kFromFloat && !kToFloat && sizeof(To) * sizeof(Element) == sizeof(std::int32_t)) {
#if defined(__AVX512F__)
    if constexpr (Lanes == 16 && sizeof(To) != sizeof(std::int16_t)) return converted_bytes<To>(x);
#endif
#if defined(__AVX2__)
    if constexpr (Lanes == 8 && sizeof(To) == 1 && sizeof(Element) == 4) return lower_bytes<To>(x);
#endif
    constexpr bool kSigned = kHasSign<To> && kHasSign<Element>;
    using Between = typename Middle<kSigned>::Type;
    return cast_lanes<To, Lanes>(cast_lanes<Between, Lanes>(x));
  } else {
    return cast_lanes<To, Lanes>(x);
  }
}

/// The larger of two elements; the second of two zeros, and if one is not a number. GCC 12 makes a comparison and a
/// choice of `a > b ? a : b`.
template <int Lanes, class Values>
MODELWHEEL_INLINE Values larger_lanes(Values a, Values b) {
  if constexpr (kHasFractions<typename Unreferenced<decltype(a[0])>::Type>) {
#if defined(__AVX512F__)
    if constexpr (Lanes == 16) return reinterpret_cast<Values>(_mm512_maskz_max_ps(kAllLanes, a, b));
#endif
#if defined(__AVX__)
    if constexpr (Lanes == 8) return reinterpret_cast<Values>(_mm256_max_ps(a, b));
#endif
  }
  return a > b ? a : b;
}

/// The smaller of two elements, likewise.
template <int Lanes, class Values>
MODELWHEEL_INLINE Values smaller_lanes(Values a, Values b) {
  if constexpr (kHasFractions<typename Unreferenced<decltype(a[0])>::Type>) {
#if defined(__AVX512F__)
    if constexpr (Lanes == 16) return reinterpret_cast<Values>(_mm512_maskz_min_ps(kAllLanes, a, b));
#endif
#if defined(__AVX__)
    if constexpr (Lanes == 8) return reinterpret_cast<Values>(_mm256_min_ps(a, b));
#endif
  }
  return a < b ? a : b;
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

/// The nearest integers, ties to even, of floats that 32 bits can hold.
template <int Lanes>
MODELWHEEL_INLINE Vector<std::int32_t, Lanes> nearest(Vector<float, Lanes> x) {
  using Whole = Vector<std::int32_t, Lanes>;
#if defined(__AVX512F__)
  if constexpr (Lanes == 16)
    return reinterpret_cast<Whole>(
        _mm512_maskz_cvt_roundps_epi32(kAllLanes, x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#endif
#if defined(__AVX__)
  if constexpr (Lanes == 8) return reinterpret_cast<Whole>(_mm256_cvtps_epi32(x));
#endif
#if defined(__SSE2__)
  if constexpr (Lanes == 4) return reinterpret_cast<Whole>(_mm_cvtps_epi32(x));
#endif
  return cast_lanes<std::int32_t, Lanes>(rounded_even<Lanes>(x));
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
