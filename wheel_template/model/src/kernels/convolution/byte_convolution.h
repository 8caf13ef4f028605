// src/kernels/convolution/byte_convolution.h - convolutions of 8-bit integers, summed in 32 bits.
//
// The windows of some outputs are gathered, as rows of a matrix, in scratch memory of the first-level cache, and
// multiplied by the kernel in panels (gemm/bytes.h).
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

/// The windows of all outputs as rows: taps in order, the features of each are neighbours.
struct WindowRows {
  std::int64_t m, k;
  const Convolution &c;
  const Axes axes;
  const std::int8_t *in;
  /// What is outside of images.
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
    for (std::int64_t i = 0; i < rows; ++i, to += padded_depth(k)) {
      pack_window<Isa>(image, z, y, x, to);
      fill_row<Isa>(k, to);
      if (++x < axis[2].out_size) continue;
      x = 0;
      if (++y < axis[1].out_size) continue;
      y = 0;
      if (++z < axis[0].out_size) continue;
      z = 0;
      image += c.in_batch;
    }
  }

 private:
  template <class Isa>
  void pack_window(const std::int8_t *image, std::int64_t z, std::int64_t y, std::int64_t x,
                   typename Isa::Left *to) const {
    const Axis(&axis)[kAxes] = axes.axis;
    const Range planes = taps_within(axis[0], z), rows = taps_within(axis[1], y), columns = taps_within(axis[2], x);
    const std::int64_t run = axis[2].kernel_size * c.in_features;
    const std::int8_t *const column =
        image + (window_start(axis[2], x) + columns.begin * axis[2].kernel_dilation) * axis[2].in_step;
    for (std::int64_t i = 0; i < axis[0].kernel_size; ++i)
      for (std::int64_t j = 0; j < axis[1].kernel_size; ++j, to += run) {
        if (i < planes.begin || i >= planes.end || j < rows.begin || j >= rows.end) {
          fill<Isa>(to, run);
          continue;
        }
        pack_taps<Isa>(column + (window_start(axis[0], z) + i * axis[0].kernel_dilation) * axis[0].in_step +
                           (window_start(axis[1], y) + j * axis[1].kernel_dilation) * axis[1].in_step,
                       columns, to);
      }
  }

  /// A row of taps, of which those of a range are inside of the image.
  template <class Isa>
  MODELWHEEL_INLINE void pack_taps(const std::int8_t *from, Range inside, typename Isa::Left *to) const {
    const Axis &a = axes.axis[kAxes - 1];
    const std::int64_t features = c.in_features, step = a.kernel_dilation * a.in_step;
    const std::int64_t before = smaller_of(inside.begin, a.kernel_size), taps = inside.end - inside.begin;
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
    for (std::int64_t k = 0; k < n; ++k) to[k] = Isa::left(padding);
  }
};

/// Bytes of scratch memory that `byte_convolution` needs.
template <class In, class Out>
constexpr std::size_t byte_convolution_scratch(const Convolution &c) {
  return byte_scratch(count_outputs(c), window_depth(c));
}

/// Sums with a kernel that is not in panels, which is rare: other readers of it need it as it is.
inline void convolve_unpacked(const WindowRows &rows, const std::int8_t *kernel, std::int32_t *out, void *scratch) {
  auto *const row = static_cast<Bytes::Left *>(scratch);
  const std::int64_t n = rows.c.out_features;
  for (std::int64_t i = 0; i < rows.m; ++i, out += n) {
    rows.pack<Bytes>(i, 1, row);
    for (std::int64_t j = 0; j < n; ++j) {
      std::uint32_t sum = 0;
      for (std::int64_t k = 0; k < rows.k; ++k) sum += static_cast<std::uint32_t>(row[k] * kernel[k * n + j]);
      out[j] = static_cast<std::int32_t>(sum);
    }
  }
}

/// Computes a convolution of one group, whose kernel has features last, or is in panels, whose input is not dilated and whose result is
/// dense, with features last. `scratch` has byte_convolution_scratch(c) bytes and is 64-byte aligned. Outside of
/// images, all elements are `padding`.
template <class In, class Out>
void byte_convolution(const Convolution &c, std::int8_t padding, const In *in, const In *kernel, Out *out,
                      void *scratch) {
  const WindowRows rows(c, in, padding);
  if (c.panel == 0) return convolve_unpacked(rows, kernel, out, scratch);
  multiply_rows(rows, c.out_features, kernel, StoredSums{out, c.out_features, 1}, scratch);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
