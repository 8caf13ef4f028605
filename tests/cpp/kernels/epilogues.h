// epilogues.h - random epilogues of products, and whether what follows a product is what they say.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "activations.h"
#include "check.h"
#include "kernels/epilogue.h"
#include "random.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Whether a result is activation(min(max((sum + bias) * scale + shift + addend, low), high)), but for rounding.
template <class T>
bool follows(const Epilogue<T> &e, T sum, T addend, std::int64_t column, T result) {
  double x = static_cast<double>(sum), magnitude = std::fabs(x);
  if (e.bias != nullptr) {
    x += static_cast<double>(e.bias[column]);
    magnitude += std::fabs(static_cast<double>(e.bias[column]));
  }
  if (e.scale != nullptr) {
    x *= static_cast<double>(e.scale[column]);
    magnitude *= std::fabs(static_cast<double>(e.scale[column]));
  }
  const double shift = e.shift != nullptr ? static_cast<double>(e.shift[column]) : 0;
  const double added = e.addend != nullptr ? static_cast<double>(addend) : 0;
  x += shift + added;
  magnitude += std::fabs(shift) + std::fabs(added);
  const double found = static_cast<double>(result);
  if (std::isnan(x)) return std::isnan(found);
  if (e.has_low) x = std::fmax(x, static_cast<double>(e.low));
  if (e.has_high) x = std::fmin(x, static_cast<double>(e.high));
  // None of them is steeper than 1.5, but one nine.
  if (e.activation != Activation::kNone) {
    x = exact(e.activation, x);
    magnitude = (e.activation == Activation::kHardSwish6 ? 12 : 2) * (magnitude + 1);
    if (std::isnan(x)) return std::isnan(found);
  }
  if (std::isinf(x)) return !(found < x) && !(found > x);
  return std::fabs(found - x) <= 4 * static_cast<double>(std::numeric_limits<T>::epsilon()) * magnitude;
}

/// Runs a product with random epilogues: `run(sums, epilogue, step)` computes it with rows `step` apart. `plain` has
/// its sums, rows of n without gaps. The result is in memory of its own, over the sums, or over the addend, or is
/// columns of wider rows, of which the others stay as they are.
template <class T, class Run>
void check_epilogues(Random &random, const Buffer<T> &plain, std::int64_t n, const Run &run) {
  Buffer<T> bias(n), scale(n), shift(n), addend(plain.size());
  bias.fill(random);
  scale.fill(random);
  shift.fill(random);
  addend.fill(random);
  for (int place = 0; place < 4; ++place) {
    const bool over_addend = place == 2, spaced = place == 3, adds = over_addend || (!spaced && random.chance(30));
    const std::int64_t step = spaced ? n + random.integer(1, 70) : n, rows = n > 0 ? plain.size() / n : 0;
    Buffer<T> sums(rows * step), other(plain.size()), residual(addend);
    Epilogue<T> e{sums.data(),
                  place == 0    ? other.data()
                  : over_addend ? residual.data()
                                : sums.data(),
                  !spaced && random.chance(20),
                  random.chance(40) ? bias.data() : nullptr,
                  random.chance(60) ? scale.data() : nullptr,
                  random.chance(60) ? shift.data() : nullptr,
                  adds ? residual.data() : nullptr,
                  random.chance(60),
                  random.chance(40),
                  static_cast<T>(-0.25),
                  static_cast<T>(0.5),
                  sizeof(T) == sizeof(float) && random.chance(50) ? random.pick(kActivations) : Activation::kNone};
    const Buffer<T> before(sums);
    run(sums.data(), e, step);
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < plain.size(); ++i)
      if (!follows(e, plain[i], addend[i], i % n, e.result[i / n * step + i % n])) ++wrong;
    for (std::int64_t i = 0; i < sums.size(); ++i)
      if (i % step >= n && std::memcmp(&sums[i], &before[i], sizeof(T)) != 0) ++wrong;
    CHECK(wrong == 0);
  }
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
