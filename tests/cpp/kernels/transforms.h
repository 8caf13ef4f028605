// transforms.h - what convolutions by transforms are compared with: the definition, and the kernel that follows it.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "check.h"
#include "kernels/convolution/convolution.h"
#include "methods.h"
#include "random.h"
#include "ranges.h"

namespace modelwheel::MODELWHEEL_LEVEL {

inline std::int64_t num_taps(const Convolution &c) { return window_elements(c) / c.in_features; }

/// Images and weights, and results by the definition's kernel and by a method with transforms.
struct Both {
  const Convolution &c;
  /// Of the method.
  int method_number;
  Buffer<float> in, kernel, direct, winograd;

  Both(const Convolution &of, int by)
      : c(of),
        method_number(by),
        in(of.batch * of.in_batch),
        kernel(num_taps(of) * of.in_features * of.out_features),
        direct(of.batch * of.out_batch),
        winograd(of.batch * of.out_batch) {}

  void fill(Random &random) {
    in.fill(random);
    kernel.fill(random);
  }

  void run() {
    Buffer<char> a(static_cast<std::int64_t>(convolve_gemm_scratch<float>(c)));
    convolve_gemm<float>(c, in.data(), kernel.data(), direct.data(), a.data(), nullptr);
    with_method<float>(method_number, [&](auto method) {
      using Method = decltype(method);
      Buffer<char> b(static_cast<std::int64_t>(Method::template scratch<float>(c)));
      Method::template compute<float>(c, in.data(), kernel.data(), winograd.data(), b.data(), nullptr);
    });
  }

  /// A result by the definition, what floats added in order are, and the largest of its inputs.
  struct Exact {
    double sum, largest;
    float in_order;
  };

  Exact exact(std::int64_t number) const {
    const Axes axes = axes_of(c);
    const Axis &row = axes.axis[1], &column = axes.axis[2];
    const std::int64_t j = number % c.out_features, x = number / c.out_features % column.out_size;
    const std::int64_t line = number / c.out_features / column.out_size, y = line % row.out_size;
    const float *image = in.data() + line / row.out_size * c.in_batch;
    const float *filter =
        kernel.data() + (c.panel == 0 ? j : j / kPanel * c.panel + j % kPanel) + row.first_tap + column.first_tap;
    Exact exact{0, 0, 0};
    for (std::int64_t tap = 0; tap < num_taps(c); ++tap) {
      const std::int64_t ky = tap / column.kernel_size, kx = tap % column.kernel_size;
      const std::int64_t iy = window_start(row, y) + ky * row.kernel_dilation;
      const std::int64_t ix = window_start(column, x) + kx * column.kernel_dilation;
      if (iy < 0 || iy >= row.in_size || ix < 0 || ix >= column.in_size) continue;
      const float *left = image + iy * row.in_step + ix * column.in_step;
      const float *right = filter + ky * row.tap_step + kx * column.tap_step;
      for (std::int64_t f = 0; f < c.in_features; ++f) {
        const double product = static_cast<double>(left[f]) * static_cast<double>(right[f * c.kernel_in]);
        exact.sum += product;
        exact.in_order += left[f] * right[f * c.kernel_in];
        exact.largest = std::fmax(exact.largest, std::fabs(static_cast<double>(left[f])));
      }
    }
    return exact;
  }
};

/// The errors of some sums.
struct Errors {
  double squares = 0, largest = 0;

  void add(double error) {
    squares += error * error;
    largest = std::fmax(largest, std::fabs(error));
  }
};

/// Sums of transforms are shorter; that outweighs the roundings of the transforms.
inline void check_errors(const Both &both, std::int64_t samples) {
  Errors in_order, winograd;
  const std::int64_t every = both.direct.size() / samples + 1;
  for (std::int64_t i = 0; i < both.direct.size(); i += every) {
    const Both::Exact expected = both.exact(i);
    in_order.add(static_cast<double>(expected.in_order) - expected.sum);
    winograd.add(static_cast<double>(both.winograd[i]) - expected.sum);
  }
  CHECK(winograd.squares <= 1.2 * in_order.squares);
  CHECK(winograd.largest <= 1.5 * in_order.largest);
}

/// What is not finite stays so, in the same places: transforms subtract infinities, and overflow before sums do.
struct NotFinite {
  std::int64_t infinite = 0, large = 0;

  void check(Random &random, Both &both) {
    const float infinity = std::numeric_limits<float>::infinity();
    const float infinities[] = {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()};
    const float values[] = {infinity, -infinity, std::numeric_limits<float>::quiet_NaN(), 2e38F, -3e38F};
    both.fill(random);
    for (std::int64_t left = random.integer(1, 4); left > 0; --left)
      both.in[random.integer(0, both.in.size() - 1)] = random.pick(values);
    if (random.chance(30)) both.kernel[random.integer(0, both.kernel.size() - 1)] = random.pick(infinities);
    both.run();
    std::int64_t wrong = 0;
    for (std::int64_t j = 0; j < both.direct.size(); ++j) {
      const float a = both.direct[j], b = both.winograd[j];
      if (std::isfinite(a)) {
        // Weights are no larger than 1.
        const double difference = std::fabs(static_cast<double>(a) - static_cast<double>(b));
        const double small = 5e-6 * std::sqrt(window_elements(both.c));
        wrong += difference > small && difference > small * both.exact(j).largest;
        large += std::fabs(a) > 1e30F;
      } else {
        wrong += std::isnan(a) ? !std::isnan(b) : a < b || a > b || !std::isinf(b);
        infinite += std::isinf(a);
      }
    }
    CHECK(wrong == 0);
  }
};

/// Parts of a convolution have the bits of the whole: images, or rows or columns in such units. Returns whether all had
/// the method of the whole.
inline bool check_whole_ranges(Random &random, const Both &both, int axis, std::int64_t unit) {
  const Convolution &c = both.c;
  Buffer<float> parts(both.winograd.size());
  const std::int64_t size = axis == 0 ? c.batch : axis == 1 ? c.out_size[0] : c.out_features;
  const bool complete = in_ranges(random, divide_up(size, unit), [&](Range units) {
    const Range r{units.begin * unit, smaller_of(units.end * unit, size)};
    const Ranged<Convolution> part =
        axis == 0 ? batch_range(c, r) : as_whole(c, axis == 1 ? row_range(c, r) : column_range(c, r));
    if (!same_bits<float>(c, part.shape)) return false;
    Buffer<char> scratch(static_cast<std::int64_t>(convolution_scratch<float>(part.shape)));
    convolution<float>(part.shape, both.in.data() + part.left, both.kernel.data() + part.right, parts.data() + part.out,
                       scratch.data());
    return true;
  });
  if (complete) check_same_bits(both.winograd, parts);
  return complete;
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
