// reference.h - sums of products computed the obvious way, and whether a kernel's result agrees with them.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/base/numeric.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// An element as the reference computes with it.
template <class T>
struct Exact {
  using type = double;
  static double of(T value) { return static_cast<double>(value); }
};
template <>
struct Exact<F16> {
  using type = double;
  static double of(F16 value) { return static_cast<double>(to_float(value)); }
};
template <>
struct Exact<BF16> {
  using type = double;
  static double of(BF16 value) { return static_cast<double>(to_float(value)); }
};

/// Largest relative error of one rounding to T.
template <class T>
constexpr double rounding() {
  return static_cast<double>(std::numeric_limits<T>::epsilon()) / 2;
}
template <>
constexpr double rounding<F16>() {
  return 0x1p-11;
}
template <>
constexpr double rounding<BF16>() {
  return 0x1p-8;
}

/// A sum of products in exact enough arithmetic, and the sum of their magnitudes, which bounds its error.
template <class T>
class ReferenceSum {
 public:
  void add(T a, T b) {
    const long double product = static_cast<long double>(Exact<T>::of(a)) * static_cast<long double>(Exact<T>::of(b));
    sum_ += product;
    magnitude_ += std::fabs(product);
    ++terms_;
  }
  /// Whether a result is within the rounding errors of any order of summation in float or double (Higham, "Accuracy
  /// and Stability of Numerical Algorithms", 2002, section 3.1) and of the conversion to T.
  bool matches(T value) const {
    const double result = Exact<T>::of(value), expected = static_cast<double>(sum_);
    if (std::isnan(expected) || std::isinf(expected)) {
      return std::isnan(expected) ? std::isnan(result) : !(result < expected) && !(result > expected);
    }
    const double unit = sizeof(T) == 8 ? rounding<double>() : rounding<float>();
    // Below 2^-14, binary16 rounds to multiples of 2^-24.
    const double smallest = sizeof(T) == 2 ? 0x1p-25 : 0;
    const double bound =
        unit * (terms_ + 2) * static_cast<double>(magnitude_) + rounding<T>() * std::fabs(expected) + smallest;
    return std::fabs(result - expected) <= bound;
  }

 private:
  long double sum_ = 0, magnitude_ = 0;
  double terms_ = 0;
};

/// Integers wrap around, so that every order gives the same.
template <class In, class Out>
class ReferenceWrap {
 public:
  void add(In a, In b) { sum_ += static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b); }
  bool matches(Out value) const { return value == static_cast<Out>(sum_); }

 private:
  std::uint64_t sum_ = 0;
};

template <class T>
class ReferenceComplex {
 public:
  void add(Complex<T> a, Complex<T> b) {
    re_.add(a.re, b.re);
    re_.add(-a.im, b.im);
    im_.add(a.re, b.im);
    im_.add(a.im, b.re);
  }
  bool matches(Complex<T> value) const { return re_.matches(value.re) && im_.matches(value.im); }

 private:
  ReferenceSum<T> re_, im_;
};

template <class In, class Out>
struct ReferenceOf {
  using type = ReferenceWrap<In, Out>;
};
template <>
struct ReferenceOf<float, float> {
  using type = ReferenceSum<float>;
};
template <>
struct ReferenceOf<double, double> {
  using type = ReferenceSum<double>;
};
template <>
struct ReferenceOf<F16, F16> {
  using type = ReferenceSum<F16>;
};
template <>
struct ReferenceOf<BF16, BF16> {
  using type = ReferenceSum<BF16>;
};
template <class T>
struct ReferenceOf<Complex<T>, Complex<T>> {
  using type = ReferenceComplex<T>;
};

}  // namespace modelwheel::MODELWHEEL_LEVEL
