// src/kernels/convolution/shape.h - the parameters of a convolution, its axes and their phases.
#pragma once

#include "kernels/base/axis.h"

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
  /// It is a part of one that a method with transforms computes, which computes it too where it can: to the same bits.
  bool of_transforms = false;
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
