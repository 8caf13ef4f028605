// src/kernels/convolution_shape.h - the parameters of a convolution, and the arithmetic of its windows.
#pragma once

#include "level.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// XLA's convolution over one to three spatial axes (https://openxla.org/xla/operation_semantics#conv_convolution).
///
/// Tap k of the window of output o is at position o * stride + k * kernel_dilation - pad_low of the dilated input;
/// element i of the input is at i * base_dilation, and everything else is zero. Strides are in elements.
struct Convolution {
  /// `in_features` and `out_features` count all groups; the kernel has in_features / groups input features.
  std::int64_t batch, groups, in_features, out_features;
  std::int64_t rank;
  std::int64_t in_size[3], kernel_size[3], out_size[3];
  /// pad_low may be negative, which crops; the padding at the high end follows from out_size.
  std::int64_t stride[3], pad_low[3], kernel_dilation[3], base_dilation[3];
  /// The window is mirrored along this axis.
  bool reversed[3];
  std::int64_t in_batch, in_feature, in_spatial[3];
  std::int64_t kernel_in, kernel_out, kernel_spatial[3];
  std::int64_t out_batch, out_feature, out_spatial[3];
  /// If not 0, the kernel is in panels of kPanel output features, so many elements apart, and has one group; see Gemm.
  std::int64_t panel = 0;
  /// It is a part of one that convolve_winograd or convolve_decomposed computes, which computes it too where it can: to
  /// the same bits.
  bool of_winograd = false;
};

/// One spatial axis of a convolution.
struct Axis {
  std::int64_t in_size, kernel_size, out_size;
  std::int64_t stride, pad_low, kernel_dilation, base_dilation;
  /// How far apart neighbours are; in the kernel, from one tap to the next.
  std::int64_t in_step, tap_step, out_step;
  /// Offset of tap 0 in the kernel.
  std::int64_t first_tap;
};

/// Every convolution is seen as one with three spatial axes, the missing ones first.
inline constexpr int kAxes = 3;

/// The spatial axes of a convolution.
struct Axes {
  Axis axis[kAxes];
};

constexpr Axes axes_of(const Convolution &c) {
  Axes axes{};
  for (int a = 0; a < kAxes; ++a) {
    const int d = a - (kAxes - static_cast<int>(c.rank));
    if (d < 0) {
      axes.axis[a] = {1, 1, 1, 1, 0, 1, 1, 0, 0, 0, 0};
      continue;
    }
    const std::int64_t step = c.kernel_spatial[d];
    axes.axis[a] = {c.in_size[d],
                    c.kernel_size[d],
                    c.out_size[d],
                    c.stride[d],
                    c.pad_low[d],
                    c.kernel_dilation[d],
                    c.base_dilation[d],
                    c.in_spatial[d],
                    c.reversed[d] ? -step : step,
                    c.out_spatial[d],
                    c.reversed[d] ? (c.kernel_size[d] - 1) * step : 0};
  }
  return axes;
}

/// A half-open range.
struct Range {
  std::int64_t begin, end;
};

constexpr std::int64_t length(Range r) { return larger_of(r.end - r.begin, std::int64_t{0}); }

/// Position in the dilated input of tap 0 of an output's window.
constexpr std::int64_t window_start(const Axis &a, std::int64_t out) { return out * a.stride - a.pad_low; }

/// Input elements that the windows of some outputs span, if the input had no ends.
constexpr Range input_range(const Axis &a, Range out) {
  const std::int64_t first = window_start(a, out.begin);
  const std::int64_t last = window_start(a, out.end - 1) + (a.kernel_size - 1) * a.kernel_dilation;
  return {-divide_down(-first, a.base_dilation), divide_down(last, a.base_dilation) + 1};
}

/// Whether all windows are within the input.
constexpr bool within_input(const Axis &a) {
  const Range range = input_range(a, {0, a.out_size});
  return length(range) == 0 || (range.begin >= 0 && range.end <= a.in_size);
}

/// Taps of an output's window that meet the input, which must not be dilated.
constexpr Range taps_within(const Axis &a, std::int64_t out) {
  const std::int64_t start = window_start(a, out);
  const std::int64_t begin = -divide_down(start, a.kernel_dilation);
  const std::int64_t end = divide_down(a.in_size - 1 - start, a.kernel_dilation) + 1;
  return {larger_of(begin, std::int64_t{0}), smaller_of(end, a.kernel_size)};
}

/// Outputs along an axis whose windows are within the input, which must not be dilated.
constexpr Range whole_windows(const Axis &a) {
  const std::int64_t last = a.in_size - 1 - (a.kernel_size - 1) * a.kernel_dilation + a.pad_low;
  const std::int64_t inside = larger_of(-divide_down(-a.pad_low, a.stride), std::int64_t{0});
  const std::int64_t begin = smaller_of(inside, a.out_size);
  const std::int64_t end = smaller_of(divide_down(last, a.stride) + 1, a.out_size);
  return {begin, larger_of(begin, end)};
}

constexpr std::int64_t greatest_common_divisor(std::int64_t a, std::int64_t b) {
  while (b != 0) {
    const std::int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/// Outputs that meet the input with the same taps. When the input is dilated, only every `tap_stride`-th tap falls
/// on an element, and which ones these are repeats every `out_stride` outputs; such a phase is a plain convolution.
struct Phase {
  std::int64_t first_out, outs, out_stride;
  std::int64_t first_tap, taps, tap_stride;
  /// Input element under the first tap of the first output, and steps from there.
  std::int64_t first_in, in_per_out, in_per_tap;
};

/// Number of phases along an axis.
constexpr std::int64_t phases_of(const Axis &a) {
  return a.base_dilation / greatest_common_divisor(a.stride, a.base_dilation);
}

/// Phase `index` of the outputs in a range.
constexpr Phase phase_of(const Axis &a, Range out, std::int64_t index) {
  Phase p{};
  p.out_stride = phases_of(a);
  p.first_out = out.begin + index;
  p.outs = p.first_out < out.end ? (out.end - 1 - p.first_out) / p.out_stride + 1 : 0;
  p.tap_stride = a.base_dilation / greatest_common_divisor(a.kernel_dilation, a.base_dilation);
  const std::int64_t start = window_start(a, p.first_out);
  while (p.first_tap < a.kernel_size && (start + p.first_tap * a.kernel_dilation) % a.base_dilation != 0) ++p.first_tap;
  p.taps = p.first_tap < a.kernel_size ? (a.kernel_size - 1 - p.first_tap) / p.tap_stride + 1 : 0;
  p.first_in = divide_down(start + p.first_tap * a.kernel_dilation, a.base_dilation);
  p.in_per_out = a.stride * p.out_stride / a.base_dilation;
  p.in_per_tap = a.kernel_dilation * p.tap_stride / a.base_dilation;
  return p;
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
