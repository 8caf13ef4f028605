// activation.cpp - the activations against double precision, in units in the last place.
//
// Every 9973rd float; the environment variable MODELWHEEL_FLOAT_STEP has another distance, 1 for all floats.
#include "kernels/elementwise/activation.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "activations.h"
#include "check.h"
#include "tests.h"

namespace modelwheel::MODELWHEEL_LEVEL {
namespace {

constexpr float kSlope = 0.25F;

/// The bound that activation.h states.
double bound(Activation activation, double x) {
  if (activation == Activation::kTanh) return 6;
  if (activation == Activation::kGelu) return 5;
  if (activation == Activation::kGeluTanh) return x > 0 ? 5 : 5 - 3 * 1.6 * (x + 0.045 * x * x * x);
  return activation == Activation::kSilu || activation == Activation::kElu ? 4 : 3;
}

/// How far a result is from the exact one, in units in the last place of a float there.
double error_in_ulp(double expected, float found) {
  int exponent;
  std::frexp(expected, &exponent);
  return std::fabs(static_cast<double>(found) - expected) / std::ldexp(1.0, larger_of(exponent, -125) - 24);
}

/// Checks all floats whose bits are a multiple of `step`.
template <int Lanes>
void check(Activation activation, std::uint32_t step) {
  std::int64_t wrong = 0;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += std::uint64_t{Lanes} * step) {
    float from[Lanes], to[Lanes];
    for (int i = 0; i < Lanes; ++i) {
      const std::uint32_t one = static_cast<std::uint32_t>(bits + static_cast<std::uint64_t>(i) * step);
      std::memcpy(&from[i], &one, sizeof one);
    }
    Vector<float, Lanes> x = load<float, Lanes>(from);
    activate<float, Lanes>(activation, kSlope, &x, 1);
    store<float, Lanes>(to, x);
    for (int i = 0; i < Lanes; ++i) {
      const double expected = exact(activation, static_cast<double>(from[i]), static_cast<double>(kSlope));
      if (std::isnan(expected) || std::isinf(expected)) {
        if (std::isnan(expected) ? !std::isnan(to[i]) : !std::isinf(to[i])) ++wrong;
        continue;
      }
      // GELU has zeros in place of results that are no normal numbers.
      if (activation == Activation::kGelu && from[i] <= -kGeluLimit && to[i] == 0 && std::fabs(expected) < 0x1.02p-126)
        continue;
      const double part = error_in_ulp(expected, to[i]) / bound(activation, static_cast<double>(from[i]));
      if (!(part <= 1)) ++wrong;
    }
  }
  CHECK(wrong == 0);
}

}  // namespace

KERNEL_TEST(activation) {
  const char *step = std::getenv("MODELWHEEL_FLOAT_STEP");
  for (const Activation activation : kActivations) {
    check<kLanes<float>>(activation, step != nullptr ? static_cast<std::uint32_t>(std::atoi(step)) : 9973);
    check<1>(activation, 999983);
  }
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
