// src/kernels/bytes/byte_convolution.h - convolutions of 8-bit integers, summed in 32 bits.
//
// The windows of some outputs are gathered, as rows of a matrix, in scratch memory of the first-level cache, and
// multiplied by the kernel in panels (gemm/bytes.h).
#pragma once

#include "kernels/bytes/byte_depthwise.h"
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

/// The windows of all outputs as rows: taps in order, the features of each are neighbours.
struct WindowRows {
  std::int64_t m, k;
  const Convolution &c;
  const Axes axes;
  const std::int8_t *in;
  /// The value of elements outside of images.
  std::int8_t padding;

  WindowRows(const Convolution &convolution, const std::int8_t *images, std::int8_t around)
      : m(count_outputs(convolution)),
        k(window_depth(convolution)),
        c(convolution),
        axes(axes_of(convolution)),
        in(images),
        padding(around) {}

  /// Some rows as the instructions read them.
  template <class Isa>
  void pack(std::int64_t row, std::int64_t rows, typename Isa::Left *to) const {
    const Axis(&axis)[kAxes] = axes.axis;
    std::int64_t x = row % axis[2].out_size, rest = row / axis[2].out_size;
    std::int64_t y = rest % axis[1].out_size;
    rest /= axis[1].out_size;
    std::int64_t z = rest % axis[0].out_size;
    const std::int8_t *image = in + rest / axis[0].out_size * c.in_batch;
    while (rows > 0) {
      const std::int64_t count = smaller_of(rows, axis[2].out_size - x);
      pack_line<Isa>(image, z, y, {x, x + count}, to);
      rows -= count, to += count * padded_depth(k), x = 0;
      if (++y < axis[1].out_size) continue;
      y = 0;
      if (++z < axis[0].out_size) continue;
      z = 0;
      image += c.in_batch;
    }
  }

 private:
  /// The windows of neighbouring outputs.
  template <class Isa>
  void pack_line(const std::int8_t *image, std::int64_t z, std::int64_t y, Range outputs,
                 typename Isa::Left *to) const {
    const Axis(&axis)[kAxes] = axes.axis;
    const Range planes = taps_within(axis[0], z), rows = taps_within(axis[1], y), whole = whole_windows(axis[2]);
    const std::int8_t *const first =
        image + window_start(axis[0], z) * axis[0].in_step + window_start(axis[1], y) * axis[1].in_step;
    for (std::int64_t x = outputs.begin; x < outputs.end; ++x, to += padded_depth(k)) {
      const bool inside = x >= whole.begin && x < whole.end;
      const Range taps = inside ? Range{0, axis[2].kernel_size} : taps_within(axis[2], x);
      pack_window<Isa>(first + (window_start(axis[2], x) + taps.begin * axis[2].kernel_dilation) * axis[2].in_step,
                       planes, rows, taps, to);
      fill_row<Isa>(k, to);
    }
  }

  /// A window, of which some taps of each axis are inside of the image; `first` is the first one of those of the last
  /// axis.
  template <class Isa>
  MODELWHEEL_INLINE void pack_window(const std::int8_t *first, Range planes, Range rows, Range taps,
                                     typename Isa::Left *to) const {
    const Axis(&axis)[kAxes] = axes.axis;
    const std::int64_t run = axis[2].kernel_size * c.in_features;
    for (std::int64_t i = 0; i < axis[0].kernel_size; ++i)
      for (std::int64_t j = 0; j < axis[1].kernel_size; ++j, to += run)
        if (i >= planes.begin && i < planes.end && j >= rows.begin && j < rows.end)
          pack_taps<Isa>(
              first + i * axis[0].kernel_dilation * axis[0].in_step + j * axis[1].kernel_dilation * axis[1].in_step,
              taps, to);
        else
          fill<Isa>(to, run);
  }

  /// A row of taps, of which those of a range are inside of the image.
  template <class Isa>
  MODELWHEEL_INLINE void pack_taps(const std::int8_t *from, Range inside, typename Isa::Left *to) const {
    const Axis &a = axes.axis[kAxes - 1];
    const std::int64_t features = c.in_features, step = a.kernel_dilation * a.in_step;
    const std::int64_t before = smaller_of(inside.begin, a.kernel_size), taps = inside.end - inside.begin;
    if (taps == a.kernel_size && c.in_feature == 1 && step == features) return pack_run<Isa>(from, taps * features, to);
    fill<Isa>(to, before * features);
    to += before * features;
    if (taps <= 0) return fill<Isa>(to, (a.kernel_size - before) * features);
    if (c.in_feature == 1 && step == features) {
      pack_run<Isa>(from, taps * features, to);
    } else if (c.in_feature == 1) {
      for (std::int64_t t = 0; t < taps; ++t) pack_run<Isa>(from + t * step, features, to + t * features);
    } else {
      for (std::int64_t t = 0; t < taps; ++t)
        for (std::int64_t f = 0; f < features; ++f) to[t * features + f] = Isa::left(from[t * step + f * c.in_feature]);
    }
    fill<Isa>(to + taps * features, (a.kernel_size - inside.end) * features);
  }

  template <class Isa>
  MODELWHEEL_INLINE void fill(typename Isa::Left *to, std::int64_t n) const {
    for (std::int64_t i = 0; i < n; ++i) to[i] = Isa::left(padding);
  }
};

/// Bytes of scratch memory that `byte_convolution` needs.
template <class In, class Out>
constexpr std::size_t byte_convolution_scratch(const Convolution &c) {
  return c.groups > 1 ? byte_depthwise_scratch(c) : byte_scratch(count_outputs(c), window_depth(c));
}

/// All outputs and features.
constexpr ByteRange byte_range(const Convolution &c) { return {{0, count_outputs(c)}, {0, c.out_features}}; }

/// How a convolution is divided: depthwise ones into whole lines of outputs.
constexpr Division byte_division(const Convolution &c, std::int64_t parts) {
  const std::int64_t unit = c.groups > 1 ? axes_of(c).axis[kAxes - 1].out_size : 1;
  return byte_division(count_outputs(c), c.out_features, unit, c.panel != 0, parts);
}

/// Computes some sums and what follows them; see `byte_convolution`. `kDepthwise`: with a filter for each feature.
template <bool kDepthwise, class Sums>
void compute_sums(const Convolution &c, const ByteRange &range, std::int8_t padding, const std::int8_t *in,
                  const std::int8_t *kernel, const Sums &sums, void *scratch) {
  if constexpr (kDepthwise)
    byte_depthwise(c, range.rows, padding, in, kernel, sums, scratch);
  else
    multiply(WindowRows(c, in, padding), range, c.panel, kernel, sums, scratch);
}

/// Computes a convolution of one group, whose kernel has features last or is in panels, whose input is not dilated and
/// whose result is dense, with features last. `scratch` has byte_convolution_scratch(c) bytes and is 64-byte aligned.
/// Outside of images, all elements are `padding`.
template <class In, class Out>
void byte_convolution(const Convolution &c, std::int8_t padding, const In *in, const In *kernel, Out *out,
                      void *scratch) {
  compute_sums<false>(c, byte_range(c), padding, in, kernel, StoredSums{out, c.out_features, 1}, scratch);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
