// src/kernels/elementwise/activation.h - tanh, sigmoid, SiLU, GELU, hard SiLU, ELU and leaky ReLU of vectors of floats.
//
// Tanh is a quotient of polynomials. The others come from one exponential, so that no sum cancels. Nothing overflows:
// it is of a number that is not positive, or scaled. Its reduction follows Cody & Waite, "Software Manual for the
// Elementary Functions" (1980), and the coefficients, found by reweighted least squares, nearly have the least maximum
// error.
//
// Errors in units in the last place, which tests/cpp/kernels/activation.cpp measures: at most 6 for tanh, 3 for
// sigmoid and hard SiLU, 4 for SiLU and ELU, 5 for GELU; for GELU by tanh 5, and where x < 0 3 more for each unit of
// its exponent, 1.6 (x + 0.045 x^3). GELU has zeros in place of results that are no normal numbers.
#pragma once

#include "kernels/base/level.h"

namespace modelwheel::MODELWHEEL_LEVEL {

enum class Activation { kNone, kTanh, kSigmoid, kSilu, kGelu, kGeluTanh, kHardSwish, kHardSwish6, kElu, kLeakyRelu };

/// Floats, and integers of the same width.
template <int Lanes>
using Floats = Vector<float, Lanes>;
template <int Lanes>
using Integers = Vector<std::int32_t, Lanes>;

/// c[0] + c[1] x + c[2] x^2 + ...
template <int Lanes, int Count>
MODELWHEEL_INLINE Floats<Lanes> polynomial(const float (&c)[Count], Floats<Lanes> x) {
  Floats<Lanes> sum = splat<float, Lanes>(c[Count - 1]);
  MODELWHEEL_UNROLL
  for (int i = Count - 2; i >= 0; --i) sum = sum * x + splat<float, Lanes>(c[i]);
  return sum;
}

/// The smaller of a limit and x; NaN stays NaN.
template <int Lanes>
MODELWHEEL_INLINE Floats<Lanes> at_most(Floats<Lanes> x, float limit) {
  Floats<Lanes> most = splat<float, Lanes>(limit);
  // GCC would otherwise not see that one instruction does the rest.
  keep_in_register(x);
  keep_in_register(most);
  return most < x ? most : x;
}

/// The larger of a limit and x; NaN stays NaN.
template <int Lanes>
MODELWHEEL_INLINE Floats<Lanes> at_least(Floats<Lanes> x, float limit) {
  Floats<Lanes> least = splat<float, Lanes>(limit);
  keep_in_register(x);
  keep_in_register(least);
  return least > x ? least : x;
}

/// The absolute value, but at most `limit`; NaN stays NaN.
template <int Lanes>
MODELWHEEL_INLINE Floats<Lanes> magnitude(Floats<Lanes> x, float limit) {
  const Integers<Lanes> bits = reinterpret_cast<Integers<Lanes>>(x) & 0x7FFFFFFF;
  return at_most<Lanes>(reinterpret_cast<Floats<Lanes>>(bits), limit);
}

/// An exponential of at most 1, times 2^100: then it is a normal number even where it would be none by itself.
template <int Lanes>
struct Exponential {
  Floats<Lanes> lifted;

  /// `x` - `factor` times the exponential.
  MODELWHEEL_INLINE Floats<Lanes> subtracted(Floats<Lanes> x, Floats<Lanes> factor) const {
    return x - factor * lifted * splat<float, Lanes>(0x1p-100F);
  }
  /// The exponential, or 0 where it is no normal number: products of these would take a hundred times as long.
  MODELWHEEL_INLINE Floats<Lanes> unlifted() const {
    const Floats<Lanes> zero{}, value = lifted * splat<float, Lanes>(0x1p-100F);
    return lifted < splat<float, Lanes>(0x1p-26F) ? zero : value;
  }
  MODELWHEEL_INLINE Floats<Lanes> plus_one() const {
    return lifted * splat<float, Lanes>(0x1p-100F) + splat<float, Lanes>(1);
  }
};

/// An exponential as a product: a number near 1 and a power of two.
template <int Lanes>
struct Factors {
  Floats<Lanes> near_one, power;
};

/// exp(-u - low) is 2^n times exp(-rest).
template <int Lanes>
struct Reduced {
  Floats<Lanes> rest;
  /// 2^(n + Lift).
  Floats<Lanes> power;
};

/// The reduction of an exponential, where `low` is what u lacks; or NaN. The power of two must be a normal number.
template <int Lanes, int Lift>
MODELWHEEL_INLINE Reduced<Lanes> reduce_minus(Floats<Lanes> u, Floats<Lanes> low = -Floats<Lanes>{}) {
  constexpr float kLog2E = 1.44269504F, kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;
  // 1.5 * 2^23: adding it rounds to an integer. The rest makes the lowest bits the exponent of 2^(n + Lift).
  constexpr float kRaise = 12582912.0F + Lift + 127;
  const Floats<Lanes> raised = splat<float, Lanes>(kRaise) - u * splat<float, Lanes>(kLog2E);
  const Floats<Lanes> n = raised - splat<float, Lanes>(kRaise);
  const Floats<Lanes> r = low + (n * splat<float, Lanes>(kLn2Low) + (n * splat<float, Lanes>(kLn2High) + u));
  const Integers<Lanes> power = reinterpret_cast<Integers<Lanes>>(raised) << 23;
  return {r, reinterpret_cast<Floats<Lanes>>(power)};
}

/// exp(-u - low) times 2^Lift, where `low` is what u lacks; or NaN. The power of two must be a normal number.
template <int Lanes, int Lift>
MODELWHEEL_INLINE Factors<Lanes> factors_of_minus(Floats<Lanes> u, Floats<Lanes> low = -Floats<Lanes>{}) {
  constexpr float kTerms[] = {1, -1, 0.49999994F, -0.16666521F, 0.041668389F, -0.00836871F, 0.0013814608F};
  const Reduced<Lanes> e = reduce_minus<Lanes, Lift>(u, low);
  return {polynomial<Lanes>(kTerms, e.rest), e.power};
}

/// exp(-u - low) for 0 <= u <= 150, where `low` is what u lacks; or NaN.
template <int Lanes>
MODELWHEEL_INLINE Exponential<Lanes> exponential_of_minus(Floats<Lanes> u, Floats<Lanes> low = -Floats<Lanes>{}) {
  const Factors<Lanes> e = factors_of_minus<Lanes, 100>(u, low);
  return {e.near_one * e.power};
}

/// c[0] + c[1] x + ... + c[4] x^4 in two halves: most roundings are then of a part of the sum.
template <int Lanes>
MODELWHEEL_INLINE Floats<Lanes> quartic(const float (&c)[5], Floats<Lanes> x, Floats<Lanes> square) {
  const float low[] = {c[0], c[1]}, high[] = {c[2], c[3], c[4]};
  return polynomial<Lanes>(high, x) * square + polynomial<Lanes>(low, x);
}

/// A number that is still to be divided.
template <int Lanes>
struct Quotient {
  Floats<Lanes> over, under;
};

/// x P(x^2) / Q(x^2). Both polynomials begin with the same number, so that tiny numbers keep their value to a unit in
/// the last place. Of the coefficients near those of the least maximum error these, with this limit, were found to have
/// the least error with all roundings: 4.63 units where products are fused with sums, 5.08 elsewhere.
template <int Lanes>
MODELWHEEL_INLINE Quotient<Lanes> tanh_quotient(Floats<Lanes> x) {
  constexpr float kOver[] = {1.23268878F, 0.165529743F, 0.00437860843F, 2.65708532e-05F, 1.81343882e-08F};
  constexpr float kUnder[] = {1.23268878F, 0.57642591F, 0.0321622156F, 0.000416483119F, 1.02574745e-06F};
  constexpr float kLimit = 7.97969961F;
  const Floats<Lanes> y = at_most<Lanes>(at_least<Lanes>(x, -kLimit), kLimit), square = y * y, fourth = square * square;
  return {y * quartic<Lanes>(kOver, square, fourth), quartic<Lanes>(kUnder, square, fourth)};
}

template <int Lanes>
MODELWHEEL_INLINE Floats<Lanes> tanh_of(Floats<Lanes> x) {
  const Quotient<Lanes> q = tanh_quotient<Lanes>(x);
  return q.over / q.under;
}

/// A power of two that makes what a sigmoid is divided by small enough: also where the sigmoid is no normal number, and
/// that is multiplied by what a tanh is divided by, it is finite.
inline constexpr int kSigmoidLift = -33;
inline constexpr float kSigmoidScale = 0x1p-33F;

/// (1 + exp(-x)) times kSigmoidScale. Beyond the limits a sigmoid is 0 or 1.
template <int Lanes>
MODELWHEEL_INLINE Floats<Lanes> sigmoid_divisor(Floats<Lanes> x) {
  const Floats<Lanes> u = at_most<Lanes>(at_least<Lanes>(x, -104.5F), 60);
  const Factors<Lanes> e = factors_of_minus<Lanes, kSigmoidLift>(u);
  return e.near_one * e.power + splat<float, Lanes>(kSigmoidScale);
}

template <int Lanes>
MODELWHEEL_INLINE Floats<Lanes> sigmoid_of(Floats<Lanes> x) {
  return splat<float, Lanes>(kSigmoidScale) / sigmoid_divisor<Lanes>(x);
}

/// sigmoid(x) tanh(y), with one division for both. The scale comes last: tiny numbers stay normal before.
template <int Lanes>
MODELWHEEL_INLINE Floats<Lanes> gated_tanh_of(Floats<Lanes> x, Floats<Lanes> y) {
  const Quotient<Lanes> value = tanh_quotient<Lanes>(y);
  return value.over / (sigmoid_divisor<Lanes>(x) * value.under) * splat<float, Lanes>(kSigmoidScale);
}

/// x / (1 + exp(-z)) where z has the sign of x, `e` is exp(-|z|), and u is |x| or large enough that the result is 0.
/// Minus infinity gives NaN, like its product with 0 in the definition.
template <int Lanes>
MODELWHEEL_INLINE Floats<Lanes> gated(Floats<Lanes> x, Floats<Lanes> u, const Exponential<Lanes> &e) {
  Floats<Lanes> zero{};
  keep_in_register(zero);
  const Floats<Lanes> below = x < zero ? x : zero, least = e.subtracted(below - below, u);
  return (x > least ? x : least) / e.plus_one();
}

template <int Lanes>
MODELWHEEL_INLINE Floats<Lanes> silu_of(Floats<Lanes> x) {
  const Floats<Lanes> u = magnitude<Lanes>(x, 120);
  return gated<Lanes>(x, u, exponential_of_minus<Lanes>(u));
}

/// x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), which is x / (1 + exp(-z)).
template <int Lanes>
MODELWHEEL_INLINE Floats<Lanes> gelu_tanh_of(Floats<Lanes> x) {
  constexpr float kTerms[] = {1.5957691F, 0.071354814F};
  const Floats<Lanes> u = magnitude<Lanes>(x, 12);
  return gated<Lanes>(x, u, exponential_of_minus<Lanes>(u * polynomial<Lanes>(kTerms, u * u)));
}

/// Where GELU of -x is about the smallest normal number; it is 0 beyond.
inline constexpr float kGeluLimit = 13.146F;

/// x / 2 erfc(-x / sqrt 2) = max(x, 0) - |x| exp(-x^2 / 2) g(|x|), where g is half the scaled complementary error
/// function: up to 15, p / (1 + x (sqrt(2 pi) p + q)) with polynomials whose terms all have one sign. For large |x|,
/// errors of p are in both parts of the quotient. Of the coefficients near those of the least maximum error, these were
/// found to have the least error with all roundings: 4.4 units, 4.8 where products are not fused with sums.
template <int Lanes>
MODELWHEEL_INLINE Floats<Lanes> gelu_of(Floats<Lanes> x) {
  constexpr float kOver[] = {0.49999994F, 0.458062977F, 0.198130444F, 0.0457221009F, 0.00488895457F};
  // What g is divided by is lifted as the exponential is.
  constexpr float kUnder[] = {0.460697174F * 0x1p100F, 0.115639433F * 0x1p100F, 0.0122019788F * 0x1p100F,
                              1.14137788e-06F * 0x1p100F};
  const Floats<Lanes> one = splat<float, Lanes>(0.999999881F * 0x1p100F);
  const Floats<Lanes> root = splat<float, Lanes>(2.50662827F * 0x1p100F);
  const Floats<Lanes> u = magnitude<Lanes>(x, 15), half = splat<float, Lanes>(0.5F);
  // u^2 without rounding: the first 12 bits have an exact square.
  const Integers<Lanes> bits = reinterpret_cast<Integers<Lanes>>(u) & static_cast<std::int32_t>(0xFFFFF000U);
  const Floats<Lanes> high = reinterpret_cast<Floats<Lanes>>(bits);
  const Exponential<Lanes> e = exponential_of_minus<Lanes>(half * high * high, half * (u - high) * (u + high));
  const Floats<Lanes> p = polynomial<Lanes>(kOver, u), q = polynomial<Lanes>(kUnder, u);
  // Results that are no normal numbers are 0: products of them would take a hundred times as long.
  const Floats<Lanes> zero{}, lifted = u < splat<float, Lanes>(kGeluLimit) ? e.lifted : zero;
  const Floats<Lanes> below = u * p * lifted / ((root * p + q) * u + one);
  // Minus infinity gives NaN, like its product with 0 in the definition.
  return (x > 0 ? x : x - x) - below;
}

/// x min(max(x + 3, 0), 6) times a factor.
template <int Lanes>
MODELWHEEL_INLINE Floats<Lanes> hard_swish_of(Floats<Lanes> x, float factor) {
  const Floats<Lanes> zero{}, six = splat<float, Lanes>(6), raised = x + splat<float, Lanes>(3);
  const Floats<Lanes> above = zero > raised ? zero : raised;
  return x * ((six < above ? six : above) * splat<float, Lanes>(factor));
}

/// x above 0, exp(x) - 1 times a slope below. With exp(x) = 2^n exp(-r), that is 2^n (exp(-r) - 1) + (2^n - 1): near 0,
/// n is 0, and nothing cancels.
template <int Lanes>
MODELWHEEL_INLINE Floats<Lanes> elu_of(Floats<Lanes> x, Floats<Lanes> slope) {
  constexpr float kTerms[] = {-1, 0.49999994F, -0.16666521F, 0.041668389F, -0.00836871F, 0.0013814608F};
  const Reduced<Lanes> e = reduce_minus<Lanes, 0>(magnitude<Lanes>(x, 80));
  const Floats<Lanes> less = e.rest * polynomial<Lanes>(kTerms, e.rest);
  const Floats<Lanes> below = slope * (less * e.power + (e.power - splat<float, Lanes>(1)));
  return x > 0 ? x : below;
}

template <int Lanes>
MODELWHEEL_INLINE Floats<Lanes> leaky_relu_of(Floats<Lanes> x, Floats<Lanes> slope) {
  return x > 0 ? x : x * slope;
}

/// Replaces each of `count` vectors; `slope` is that of ELU and leaky ReLU.
template <class T, int Lanes>
MODELWHEEL_NOINLINE void activate(Activation activation, T slope, Vector<T, Lanes> *x, int count) {
  static_assert(sizeof(T) == sizeof(float), "only for floats");
  switch (activation) {
    case Activation::kNone: break;
    case Activation::kTanh:
      for (int i = 0; i < count; ++i) x[i] = tanh_of<Lanes>(x[i]);
      break;
    case Activation::kSigmoid:
      for (int i = 0; i < count; ++i) x[i] = sigmoid_of<Lanes>(x[i]);
      break;
    case Activation::kSilu:
      for (int i = 0; i < count; ++i) x[i] = silu_of<Lanes>(x[i]);
      break;
    case Activation::kGelu:
      for (int i = 0; i < count; ++i) x[i] = gelu_of<Lanes>(x[i]);
      break;
    case Activation::kGeluTanh:
      for (int i = 0; i < count; ++i) x[i] = gelu_tanh_of<Lanes>(x[i]);
      break;
    case Activation::kHardSwish:
      for (int i = 0; i < count; ++i) x[i] = hard_swish_of<Lanes>(x[i], 1.0F / 6);
      break;
    case Activation::kHardSwish6:
      for (int i = 0; i < count; ++i) x[i] = hard_swish_of<Lanes>(x[i], 1);
      break;
    case Activation::kElu:
      for (int i = 0; i < count; ++i) x[i] = elu_of<Lanes>(x[i], splat<float, Lanes>(slope));
      break;
    case Activation::kLeakyRelu:
      for (int i = 0; i < count; ++i) x[i] = leaky_relu_of<Lanes>(x[i], splat<float, Lanes>(slope));
      break;
  }
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
