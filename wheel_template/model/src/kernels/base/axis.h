// src/kernels/base/axis.h - one spatial axis of a convolution or a pooling, and the arithmetic of its windows.
#pragma once

#include "kernels/base/range.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// One spatial axis.
struct Axis {
  std::int64_t in_size, kernel_size, out_size;
  std::int64_t stride, pad_low, kernel_dilation, base_dilation;
  /// How far apart neighbours are; in the kernel, from one tap to the next.
  std::int64_t in_step, tap_step, out_step;
  /// Offset of tap 0 in the kernel.
  std::int64_t first_tap;
};

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

}  // namespace modelwheel::MODELWHEEL_LEVEL
