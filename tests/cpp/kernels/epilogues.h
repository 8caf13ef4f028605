// epilogues.h - random epilogues of products, and whether what follows a product is what they say.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "activations.h"
#include "check.h"
#include "kernels/elementwise/epilogue.h"
#include "methods.h"
#include "random.h"
#include "ranges.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Whether a result is activation(min(max((sum + bias) * scale + shift + addend, low), high)) * factor + offset, but
/// for rounding.
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
    x = exact(e.activation, x, static_cast<double>(e.slope));
    magnitude = (e.activation == Activation::kHardSwish6 ? 12 : 2) * (magnitude + 1);
    if (std::isnan(x)) return std::isnan(found);
  }
  if (e.has_factor) {
    const double factor = static_cast<double>(e.factors != nullptr ? e.factors[column] : e.factor);
    const double offset = static_cast<double>(e.offsets != nullptr ? e.offsets[column] : e.offset);
    x = x * factor + offset;
    magnitude = magnitude * std::fabs(factor) + std::fabs(offset);
  }
  if (std::isinf(x)) return !(found < x) && !(found > x);
  return std::fabs(found - x) <= 4 * static_cast<double>(std::numeric_limits<T>::epsilon()) * magnitude;
}

/// Where a product with an epilogue writes. The result is in memory of its own, over the sums, or over the addend, or
/// is columns of wider rows, of which the others stay as they are.
template <class T>
struct Places {
  Buffer<T> sums, other, residual;
  T *const result[4];

  Places(const Buffer<T> &addend, std::int64_t size)
      : sums(size),
        other(addend.size()),
        residual(addend),
        result{other.data(), sums.data(), residual.data(), sums.data()} {}
};

/// Runs a product with random epilogues: `run(sums, epilogue, step)` computes it with rows `step` apart, and `in_parts`
/// the same bits. `plain` has its sums, rows of n without gaps; where `always_dense`, others would have other bits.
template <class T, class Run, class InParts>
void check_epilogues(Random &random, const Buffer<T> &plain, std::int64_t n, const Run &run, const InParts &in_parts,
                     bool always_dense = false) {
  Buffer<T> bias(n), scale(n), shift(n), factors(n), offsets(n), addend(plain.size());
  bias.fill(random);
  scale.fill(random);
  shift.fill(random);
  factors.fill(random);
  offsets.fill(random);
  addend.fill(random);
  for (int place = 0; place < 4; ++place) {
    const bool over_addend = place == 2, is_spaced = place == 3 && !always_dense;
    const bool adds = over_addend || (!is_spaced && random.chance(30));
    const std::int64_t step = is_spaced ? n + random.integer(1, 70) : n, rows = n > 0 ? plain.size() / n : 0;
    Places<T> whole(addend, rows * step), parts(addend, rows * step);
    Epilogue<T> e{whole.sums.data(),
                  whole.result[place],
                  !is_spaced && random.chance(20),
                  random.chance(40) ? bias.data() : nullptr,
                  random.chance(60) ? scale.data() : nullptr,
                  random.chance(60) ? shift.data() : nullptr,
                  adds ? whole.residual.data() : nullptr,
                  random.chance(60),
                  random.chance(40),
                  static_cast<T>(-0.25),
                  static_cast<T>(0.5),
                  sizeof(T) == sizeof(float) && random.chance(50) ? random.pick(kActivations) : Activation::kNone,
                  random.chance(50) ? static_cast<T>(0.625) : static_cast<T>(1),
                  random.chance(60),
                  random.chance(50) ? static_cast<T>(-0.75) : static_cast<T>(1),
                  random.chance(50) ? static_cast<T>(0.375) : -static_cast<T>(0),
                  random.chance(40) ? factors.data() : nullptr,
                  random.chance(40) ? offsets.data() : nullptr};
    const Buffer<T> before(whole.sums);
    run(whole.sums.data(), e, step);
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < plain.size(); ++i)
      if (!follows(e, plain[i], addend[i], i % n, e.result[i / n * step + i % n])) ++wrong;
    for (std::int64_t i = 0; i < before.size(); ++i)
      if (i % step >= n && std::memcmp(&whole.sums[i], &before[i], sizeof(T)) != 0) ++wrong;
    CHECK(wrong == 0);
    Epilogue<T> again = e;
    again.sums = parts.sums.data();
    again.result = parts.result[place];
    if (adds) again.addend = parts.residual.data();
    in_parts(parts.sums.data(), again, step);
    for (std::int64_t i = 0; i < plain.size(); ++i) {
      const T *const one = e.result + i / n * step + i % n, *const other = again.result + (one - e.result);
      if (std::isnan(*one) ? !std::isnan(*other) : std::memcmp(one, other, sizeof(T)) != 0) ++wrong;
    }
    CHECK(wrong == 0);
  }
}

/// A convolution with epilogues, whole and in parts. `plain` has its sums, without gaps.
template <class T>
void check_epilogues(Random &random, const Convolution &c, const T *in, const T *kernel, const Buffer<T> &plain) {
  const auto spaced = [&c](std::int64_t step) {
    Convolution apart = c;
    apart.out_batch = c.out_batch / c.out_features * step;
    for (std::int64_t &stride : apart.out_spatial) stride = stride / c.out_features * step;
    return apart;
  };
  Buffer<char> scratch(static_cast<std::int64_t>(convolution_scratch<T>(c)));
  check_epilogues(
      random, plain, c.out_features,
      [&](T *sums, const Epilogue<T> &epilogue, std::int64_t step) {
        convolution<T>(spaced(step), in, kernel, sums, scratch.data(), &epilogue);
      },
      [&](T *sums, const Epilogue<T> &epilogue, std::int64_t step) {
        const Convolution apart = spaced(step);
        const OneThread thread(random,
                               [&apart](std::int64_t most) { return convolution_part_scratch<T>(apart, most); });
        convolution_in_parts<T>(thread.shared(), apart, in, kernel, sums, scratch.data(), &epilogue);
      },
      prefers_narrow<T>(c) || prefers_adjacent<T>(c) || prefers_padded<T>(c));
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
