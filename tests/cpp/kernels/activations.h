// activations.h - the activations of epilogues in double precision.
#pragma once

#include <cmath>

#include "kernels/activation.h"

namespace modelwheel::MODELWHEEL_LEVEL {

inline constexpr Activation kActivations[] = {Activation::kTanh, Activation::kSigmoid, Activation::kSilu,
                                              Activation::kGelu, Activation::kGeluTanh};

inline double exact(Activation activation, double x) {
  switch (activation) {
    case Activation::kTanh: return std::tanh(x);
    case Activation::kSigmoid: return 1 / (1 + std::exp(-x));
    case Activation::kSilu: return x / (1 + std::exp(-x));
    case Activation::kGelu: return x / 2 * std::erfc(-x * std::sqrt(0.5));
    case Activation::kGeluTanh: return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kNone: break;
  }
  return x;
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
