// activations.h - the activations of epilogues in double precision.
#pragma once

#include <cmath>
#include <limits>

#include "kernels/elementwise/activation.h"

namespace modelwheel::MODELWHEEL_LEVEL {

inline constexpr Activation kActivations[] = {Activation::kTanh,       Activation::kSigmoid,  Activation::kSilu,
                                              Activation::kGelu,       Activation::kGeluTanh, Activation::kHardSwish,
                                              Activation::kHardSwish6, Activation::kElu,      Activation::kLeakyRelu};

/// Infinite where a float is.
inline double times_six_at_most(double x) {
  const double y = x * std::fmin(std::fmax(x + 3, 0.0), 6.0);
  return std::fabs(y) > static_cast<double>(std::numeric_limits<float>::max()) ? std::copysign(INFINITY, y) : y;
}

/// `slope` is that below 0, of ELU and leaky ReLU.
inline double exact(Activation activation, double x, double slope = 1) {
  switch (activation) {
    case Activation::kTanh: return std::tanh(x);
    case Activation::kSigmoid: return 1 / (1 + std::exp(-x));
    case Activation::kSilu: return x / (1 + std::exp(-x));
    case Activation::kGelu: return x / 2 * std::erfc(-x * std::sqrt(0.5));
    case Activation::kGeluTanh: return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kHardSwish: return x * (std::fmin(std::fmax(x + 3, 0.0), 6.0) / 6);
    case Activation::kHardSwish6: return times_six_at_most(x);
    case Activation::kElu: return x > 0 ? x : slope * std::expm1(x);
    case Activation::kLeakyRelu: return x > 0 ? x : slope * x;
    case Activation::kNone: break;
  }
  return x;
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
