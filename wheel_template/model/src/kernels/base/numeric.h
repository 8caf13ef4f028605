// src/kernels/base/numeric.h - element types that C++ lacks, and the type in which each is summed.
#pragma once

#include <cstring>

#include "kernels/base/level.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// A complex number as XLA stores it.
template <class T>
struct Complex {
  T re, im;

  Complex &operator+=(Complex other) {
    re += other.re;
    im += other.im;
    return *this;
  }
  friend Complex operator*(Complex a, Complex b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
};

using Complex64 = Complex<float>;
using Complex128 = Complex<double>;

/// IEEE 754 binary16, stored only; computing happens in float.
struct F16 {
  std::uint16_t bits;
};

/// The upper half of a float, stored only; computing happens in float.
struct BF16 {
  std::uint16_t bits;
};

template <class To, class From>
MODELWHEEL_INLINE To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "bits are reinterpreted between types of one size");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

inline float to_float(BF16 value) { return bits_as<float>(static_cast<std::uint32_t>(value.bits) << 16); }

inline float to_float(F16 value) {
  const std::uint32_t sign = (value.bits & 0x8000U) << 16, rest = value.bits & 0x7FFFU;
  // Moving exponent and fraction into place scales by 2^-112; multiplying back also makes subnormals right.
  float magnitude = bits_as<float>(rest << 13) * 0x1p112F;
  if (rest >= 0x7C00U) magnitude = bits_as<float>(0x7F800000U | (rest & 0x3FFU) << 13);
  return bits_as<float>(bits_as<std::uint32_t>(magnitude) | sign);
}

/// Rounds to nearest, ties to even.
inline BF16 to_bf16(float value) {
  const std::uint32_t bits = bits_as<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return {static_cast<std::uint16_t>(bits >> 16 | 0x40U)};
  return {static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16)};
}

/// Rounds to nearest, ties to even.
inline F16 to_f16(float value) {
  const std::uint32_t bits = bits_as<std::uint32_t>(value), sign = bits >> 16 & 0x8000U, rest = bits & 0x7FFFFFFFU;
  std::uint32_t half;
  if (rest > 0x7F800000U) {
    half = 0x7E00U;
  } else if (rest >= 0x477FF000U) {  // rounds to 65536 or more
    half = 0x7C00U;
  } else if (rest < 0x38800000U) {  // below 2^-14: subnormal; the addition rounds at the unit 2^-24
    half = bits_as<std::uint32_t>(bits_as<float>(rest) + 0.5F) - 0x3F000000U;
  } else {
    half = (rest - 0x38000000U + 0xFFFU + (rest >> 13 & 1U)) >> 13;
  }
  return {static_cast<std::uint16_t>(half | sign)};
}

/// How elements of type T are summed. Integers wrap around, which only unsigned ones may do.
template <class T>
struct Sum {
  using type = T;
};
template <>
struct Sum<std::int8_t> {
  using type = std::uint32_t;
};
template <>
struct Sum<std::int16_t> {
  using type = std::uint32_t;
};
template <>
struct Sum<std::int32_t> {
  using type = std::uint32_t;
};
template <>
struct Sum<std::int64_t> {
  using type = std::uint64_t;
};
template <>
struct Sum<std::uint8_t> {
  using type = std::uint32_t;
};
template <>
struct Sum<std::uint16_t> {
  using type = std::uint32_t;
};
template <>
struct Sum<F16> {
  using type = float;
};
template <>
struct Sum<BF16> {
  using type = float;
};

/// An element as the type it is summed in.
template <class T>
MODELWHEEL_INLINE typename Sum<T>::type widen(T value) {
  return static_cast<typename Sum<T>::type>(value);
}
MODELWHEEL_INLINE float widen(F16 value) { return to_float(value); }
MODELWHEEL_INLINE float widen(BF16 value) { return to_float(value); }

/// A sum as an element.
template <class T>
MODELWHEEL_INLINE void narrow(typename Sum<T>::type sum, T &element) {
  element = static_cast<T>(sum);
}
MODELWHEEL_INLINE void narrow(float sum, F16 &element) { element = to_f16(sum); }
MODELWHEEL_INLINE void narrow(float sum, BF16 &element) { element = to_bf16(sum); }

/// Whether gemm.h multiplies elements of this type.
template <class T>
inline constexpr bool kHasGemm = false;
template <>
inline constexpr bool kHasGemm<float> = true;
template <>
inline constexpr bool kHasGemm<double> = true;

}  // namespace modelwheel::MODELWHEEL_LEVEL
