// src/kernels/convolution/winograd_subfilters.h - the transforms of Winograd's convolutions of long windows, of which
// each sub-filter has up to four taps; see winograd_transforms.h.
//
// All sub-filters of a window have the same transform of products, so that products of the same kind are added before
// it. It has the points 0, a, -a, b and infinity; a sub-filter of m taps has m + 1 of these.
#pragma once

#include "kernels/base/level.h"
#include "kernels/base/thresholds.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Kinds of the products of a whole sub-filter.
inline constexpr int kSubKinds = kSubTaps + 1;

/// Points with which errors are small, and which have few digits, as their products have: these are exact.
struct SubPoints {
  static constexpr float a = 11.0F / 16, b = 31.0F / 16;
  static constexpr float aa = a * a;
};

/// A filter x, as the coefficients of a polynomial, at p, times `scale`.
template <class V, int Taps>
MODELWHEEL_INLINE V filter_at_point(const V (&x)[Taps], double p, double scale) {
  V sum = x[0] * static_cast<float>(scale);
  MODELWHEEL_UNROLL
  for (int i = 1; i < Taps; ++i) {
    scale *= p;
    sum += x[i] * static_cast<float>(scale);
  }
  return sum;
}

/// The transforms of a sub-filter of so many taps and its inputs, one more. `kKinds` are the kinds of the products.
template <int Taps>
struct SubTransform;

template <>
struct SubTransform<4> : SubPoints {
  static constexpr int kTaps = 4;
  static constexpr int kKinds[] = {0, 1, 2, 3, 4};

  template <class V>
  static MODELWHEEL_INLINE void filter(const V (&x)[4], V (&to)[5]) {
    constexpr double p = a, q = b;
    to[0] = x[0] * static_cast<float>(1 / (p * p * q));
    to[1] = filter_at_point(x, p, 1 / (2 * p * p * (p - q)));
    to[2] = filter_at_point(x, -p, -1 / (2 * p * p * (p + q)));
    to[3] = filter_at_point(x, q, 1 / (q * (q * q - p * p)));
    to[4] = x[3];
  }

  template <class V>
  static MODELWHEEL_INLINE void input(const V (&x)[5], V (&to)[5]) {
    V step[4];
    MODELWHEEL_UNROLL
    for (int i = 0; i < 4; ++i) step[i] = x[i + 1] - x[i] * b;
    to[0] = step[2] - step[0] * aa;
    to[1] = step[2] + step[1] * a;
    to[2] = step[2] - step[1] * a;
    to[3] = x[3] - x[1] * aa;
    to[4] = step[3] - step[1] * aa;
  }
};

template <>
struct SubTransform<3> : SubPoints {
  static constexpr int kTaps = 3;
  static constexpr int kKinds[] = {0, 1, 2, 4};

  template <class V>
  static MODELWHEEL_INLINE void filter(const V (&x)[3], V (&to)[4]) {
    constexpr double p = a;
    to[0] = x[0] * static_cast<float>(-1 / (p * p));
    to[1] = filter_at_point(x, p, 1 / (2 * p * p));
    to[2] = filter_at_point(x, -p, 1 / (2 * p * p));
    to[3] = x[2];
  }

  template <class V>
  static MODELWHEEL_INLINE void input(const V (&x)[4], V (&to)[4]) {
    to[0] = x[2] - x[0] * aa;
    to[1] = x[2] + x[1] * a;
    to[2] = x[2] - x[1] * a;
    to[3] = x[3] - x[1] * aa;
  }
};

template <>
struct SubTransform<2> : SubPoints {
  static constexpr int kTaps = 2;
  static constexpr int kKinds[] = {0, 3, 4};

  template <class V>
  static MODELWHEEL_INLINE void filter(const V (&x)[2], V (&to)[3]) {
    constexpr double q = b;
    to[0] = x[0] * static_cast<float>(-1 / q);
    to[1] = filter_at_point(x, q, 1 / q);
    to[2] = x[1];
  }

  template <class V>
  static MODELWHEEL_INLINE void input(const V (&x)[3], V (&to)[3]) {
    to[0] = x[1] - x[0] * b;
    to[1] = x[1];
    to[2] = x[2] - x[1] * b;
  }
};

template <>
struct SubTransform<1> : SubPoints {
  static constexpr int kTaps = 1;
  static constexpr int kKinds[] = {0, 4};

  template <class V>
  static MODELWHEEL_INLINE void filter(const V (&x)[1], V (&to)[2]) {
    to[0] = x[0];
    to[1] = x[0];
  }

  template <class V>
  static MODELWHEEL_INLINE void input(const V (&x)[2], V (&to)[2]) {
    to[0] = x[0];
    to[1] = x[1];
  }
};

/// Two outputs from the sums of all products, by kinds.
template <class V>
MODELWHEEL_INLINE void transform_sums(const V (&x)[kSubKinds], V (&to)[2]) {
  to[0] = x[0] + (x[1] + x[2]) + x[3];
  to[1] = (x[1] - x[2]) * SubPoints::a + x[3] * SubPoints::b + x[4];
}

/// Calls by(SubTransform of so many taps).
template <class By>
MODELWHEEL_INLINE void with_taps(std::int64_t taps, const By &by) {
  if (taps == 4) return by(SubTransform<4>());
  if (taps == 3) return by(SubTransform<3>());
  if (taps == 2) return by(SubTransform<2>());
  by(SubTransform<1>());
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
