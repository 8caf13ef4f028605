// src/kernels/bytes/windows.h - how the windows of a convolution of 8-bit integers become rows.
#pragma once

#include "kernels/convolution/shape.h"
#include "kernels/gemm/bytes.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Elements of a window.
constexpr std::int64_t window_depth(const Convolution &c) {
  std::int64_t depth = c.in_features;
  for (const Axis &axis : axes_of(c).axis) depth *= axis.kernel_size;
  return depth;
}

/// Outputs of all images.
constexpr std::int64_t count_outputs(const Convolution &c) {
  std::int64_t outputs = c.batch;
  for (const Axis &axis : axes_of(c).axis) outputs *= axis.out_size;
  return outputs;
}

/// Elements of the taps along the last axis, which follow each other. Packed weights have zeros behind each such run.
constexpr std::int64_t run_elements(const Convolution &c) {
  return axes_of(c).axis[kAxes - 1].kernel_size * c.in_features;
}

/// Elements of a packed window, with what fills its runs.
constexpr std::int64_t packed_depth(const Convolution &c) {
  const Axes axes = axes_of(c);
  return axes.axis[0].kernel_size * axes.axis[1].kernel_size * padded_depth(run_elements(c));
}

/// How windows are packed.
struct WindowPlan {
  static constexpr int kMostRuns = 32;
  /// Lines of outputs whose inputs are packed together; 0 if windows are gathered.
  std::int64_t lines;
  /// Whether each window is a pixel of an image, of whole quads, and may be read there.
  bool in_place;
  /// Elements of a packed line of the input.
  std::int64_t line;
  /// Most outputs whose windows are packed together, and the elements of their lines.
  std::int64_t rows, elements;
  /// See Runs.
  std::int64_t runs, run, offsets[kMostRuns];
};

/// Whether windows overlap in images whose pixels have all features side by side.
constexpr bool windows_overlap(const Convolution &c) {
  const Axes axes = axes_of(c);
  const Axis &y = axes.axis[1], &x = axes.axis[2];
  return axes.axis[0].kernel_size == 1 && axes.axis[0].out_size == 1 && axes.axis[0].pad_low == 0 &&
         c.in_feature == 1 && x.kernel_dilation == 1 && y.kernel_size <= WindowPlan::kMostRuns &&
         y.kernel_size * x.kernel_size > y.stride * x.stride;
}

/// Whether windows are single pixels inside of images, whose features are side by side in whole quads.
constexpr bool windows_are_pixels(const Convolution &c) {
  if (c.in_feature != 1 || c.in_features % kQuad != 0) return false;
  for (const Axis &axis : axes_of(c).axis)
    if (axis.kernel_size != 1 || axis.pad_low > 0 || window_start(axis, axis.out_size - 1) >= axis.in_size)
      return false;
  return true;
}

constexpr WindowPlan window_plan(const Convolution &c) {
  constexpr std::int64_t kElements = 48 * 1024;
  const Axes axes = axes_of(c);
  const Axis &y = axes.axis[1], &x = axes.axis[2];
  WindowPlan plan{};
  if (!windows_overlap(c)) {
    plan.rows = byte_rows(count_outputs(c), packed_depth(c));
    plan.in_place = windows_are_pixels(c);
    plan.runs = 1, plan.run = packed_depth(c);
    return plan;
  }
  plan.line = ((x.out_size - 1) * x.stride + x.kernel_size) * c.in_features;
  const std::int64_t before = ((y.kernel_size - 1) * y.kernel_dilation + 1 - y.stride) * plan.line;
  plan.lines = larger_of((kElements - before) / larger_of(y.stride * plan.line, std::int64_t{1}), std::int64_t{1});
  plan.lines = smaller_of(plan.lines, y.out_size);
  plan.rows = plan.lines * x.out_size;
  // The last run may end behind the last line; weights that are not in panels are multiplied by single windows.
  plan.elements = larger_of(before + plan.lines * y.stride * plan.line + kQuad, packed_depth(c));
  plan.runs = y.kernel_size, plan.run = padded_depth(run_elements(c));
  for (std::int64_t i = 0; i < plan.runs; ++i) plan.offsets[i] = i * y.kernel_dilation * plan.line;
  return plan;
}

/// Rows that may not be evenly spaced: those of lines, at whose ends windows are farther from each other.
constexpr std::int64_t uneven_windows(const Convolution &c) {
  return windows_overlap(c) || windows_are_pixels(c) ? byte_rows(count_outputs(c), packed_depth(c)) : 0;
}

/// Bytes of scratch memory for packed windows.
constexpr std::size_t window_scratch(const Convolution &c) {
  const WindowPlan plan = window_plan(c);
  const std::int64_t outputs = count_outputs(c), depth = packed_depth(c);
  const std::size_t packed =
      plan.lines > 0 ? scratch_bytes<Bytes::Left>(plan.elements) : packed_scratch(outputs, depth);
  return scratch_bytes<const void *>(plan.rows) + product_scratch(uneven_windows(c), depth) + packed;
}

/// Lines of the input, with padding, that some lines of outputs read.
constexpr std::int64_t lines_read(const Axis &y, std::int64_t lines) {
  return (lines - 1) * y.stride + (y.kernel_size - 1) * y.kernel_dilation + 1;
}

/// So many bytes that are all the same, as the instructions read them.
template <class Isa>
MODELWHEEL_INLINE void fill(std::int8_t value, std::int64_t n, typename Isa::Left *to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = Isa::left(value);
}

/// `width` pixels of a line of the input, as the instructions read them, from the first window on; what is outside of
/// the image is `padding`, and everything if `from` is null.
template <class Isa>
MODELWHEEL_INLINE void pack_line(const Axis &x, std::int64_t features, const std::int8_t *from, std::int64_t width,
                                 std::int8_t padding, typename Isa::Left *to) {
  const std::int64_t begin = from == nullptr ? width : smaller_of(larger_of(x.pad_low, std::int64_t{0}), width);
  const std::int64_t end = from == nullptr ? width : larger_of(smaller_of(x.in_size + x.pad_low, width), begin);
  fill<Isa>(padding, begin * features, to);
  if (end > begin) {
    from += (begin - x.pad_low) * x.in_step;
    if (x.in_step == features)
      pack_run<Isa>(from, (end - begin) * features, to + begin * features);
    else
      for (std::int64_t i = begin; i < end; ++i, from += x.in_step) pack_run<Isa>(from, features, to + i * features);
  }
  fill<Isa>(padding, (width - end) * features, to + end * features);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
