// src/kernels/bytes/byte_convolution.h - convolutions of 8-bit integers, summed in 32 bits.
//
// Windows are the rows of a matrix, which is multiplied by the kernel in panels (gemm/bytes.h). Where windows overlap,
// lines of the image are copied once and all windows are read from there; others are gathered one by one.
#pragma once

#include "kernels/bytes/byte_depthwise.h"
#include "kernels/bytes/windows.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// The windows of all outputs as rows: taps in order, the features of each are neighbours.
struct WindowRows {
  std::int64_t m, k;
  const Convolution &c;
  const Axes axes;
  const WindowPlan plan;
  const std::int8_t *in;
  /// The value of elements outside of images.
  std::int8_t padding;

  WindowRows(const Convolution &convolution, const std::int8_t *images, std::int8_t around)
      : m(count_outputs(convolution)),
        k(window_depth(convolution)),
        c(convolution),
        axes(axes_of(convolution)),
        plan(window_plan(convolution)),
        in(images),
        padding(around) {}

  Runs runs() const { return {plan.offsets, plan.runs, plan.run}; }
  std::int64_t most_together() const { return plan.rows; }
  std::size_t instruction_scratch() const { return product_scratch(uneven_windows(c), packed_depth(c)); }

  template <class Isa>
  std::int64_t rows_at_once() const {
    return byte_rows<Isa>(m, packed_depth(c));
  }

  template <class Isa>
  std::int64_t together(std::int64_t row) const {
    if (plan.lines == 0) return rows_at_once<Isa>();
    const std::int64_t width = axes.axis[2].out_size, line = row / width % axes.axis[1].out_size;
    return smaller_of(plan.lines, axes.axis[1].out_size - line) * width - row % width;
  }

  std::int64_t place(std::int64_t element) const {
    const std::int64_t run = run_elements(c);
    return element / run * padded_depth(run) + element % run;
  }

  template <class Isa>
  void pack(std::int64_t row, std::int64_t rows, typename Isa::Left *to, const typename Isa::Left **begins) const {
    if (plan.lines > 0) return pack_lines<Isa>(row, rows, to, begins);
    Output output = output_of(row);
    if constexpr (PanelProduct<Isa>::kInPlace) {
      if (plan.in_place) {
        for (std::int64_t i = 0; i < rows; ++i, advance(output)) begins[i] = first_tap(output);
        return;
      }
    }
    for (std::int64_t i = 0; i < rows; ++i, to += plan.run, advance(output)) {
      begins[i] = to;
      pack_window<Isa>(output, to);
    }
  }

  template <class Isa>
  MODELWHEEL_INLINE void pack_row(std::int64_t row, typename Isa::Left *to) const {
    pack_window<Isa>(output_of(row), to);
  }

 private:
  /// Where an output is.
  struct Output {
    const std::int8_t *image;
    std::int64_t z, y, x;
  };

  Output output_of(std::int64_t row) const {
    const Axis(&axis)[kAxes] = axes.axis;
    const std::int64_t line = row / axis[2].out_size, plane = line / axis[1].out_size;
    return {in + plane / axis[0].out_size * c.in_batch, plane % axis[0].out_size, line % axis[1].out_size,
            row % axis[2].out_size};
  }

  void advance(Output &output) const {
    if (++output.x < axes.axis[2].out_size) return;
    output.x = 0;
    if (++output.y < axes.axis[1].out_size) return;
    output.y = 0;
    if (++output.z < axes.axis[0].out_size) return;
    output.z = 0;
    output.image += c.in_batch;
  }

  /// Where a window begins, if all of it is inside of the image.
  const std::int8_t *first_tap(const Output &output) const {
    const Axis(&axis)[kAxes] = axes.axis;
    return output.image + window_start(axis[0], output.z) * axis[0].in_step +
           window_start(axis[1], output.y) * axis[1].in_step + window_start(axis[2], output.x) * axis[2].in_step;
  }

  /// The window of an output.
  template <class Isa>
  MODELWHEEL_INLINE void pack_window(const Output &output, typename Isa::Left *to) const {
    const Axis(&axis)[kAxes] = axes.axis;
    const auto [image, z, y, x] = output;
    const Range planes = taps_within(axis[0], z), rows = taps_within(axis[1], y), taps = taps_within(axis[2], x);
    const std::int64_t first = window_start(axis[2], x) + taps.begin * axis[2].kernel_dilation;
    const std::int8_t *const from = image + window_start(axis[0], z) * axis[0].in_step +
                                    window_start(axis[1], y) * axis[1].in_step + first * axis[2].in_step;
    const std::int64_t run = run_elements(c);
    for (std::int64_t i = 0; i < axis[0].kernel_size; ++i)
      for (std::int64_t j = 0; j < axis[1].kernel_size; ++j, to += padded_depth(run)) {
        if (i >= planes.begin && i < planes.end && j >= rows.begin && j < rows.end)
          pack_taps<Isa>(
              from + i * axis[0].kernel_dilation * axis[0].in_step + j * axis[1].kernel_dilation * axis[1].in_step,
              taps, to);
        else
          fill<Isa>(padding, run, to);
        fill_run<Isa>(run, to);
      }
  }

  /// Lines of the input, each once, in which windows overlap.
  template <class Isa>
  MODELWHEEL_NOINLINE void pack_lines(std::int64_t row, std::int64_t rows, typename Isa::Left *to,
                                      const typename Isa::Left **begins) const {
    const Axis &y = axes.axis[1], &x = axes.axis[2];
    const std::int64_t line = row / x.out_size, first = line % y.out_size, pixel = row % x.out_size;
    const std::int64_t count = (pixel + rows - 1) / x.out_size + 1;
    const std::int8_t *const image = in + line / y.out_size * c.in_batch;
    const Range needed{window_start(y, first),
                       window_start(y, first + count - 1) + (y.kernel_size - 1) * y.kernel_dilation + 1};
    for (std::int64_t i = needed.begin; i < needed.end; ++i)
      pack_line<Isa>(x, c.in_features, i >= 0 && i < y.in_size ? image + i * y.in_step : nullptr,
                     plan.line / c.in_features, padding, to + (i - needed.begin) * plan.line);
    for (std::int64_t i = 0, at = pixel, from = 0; i < rows; ++i) {
      begins[i] = to + from + at * x.stride * c.in_features;
      if (++at == x.out_size) at = 0, from += y.stride * plan.line;
    }
  }

  /// A row of taps, of which those of a range are inside of the image.
  template <class Isa>
  MODELWHEEL_INLINE void pack_taps(const std::int8_t *from, Range inside, typename Isa::Left *to) const {
    const Axis &a = axes.axis[kAxes - 1];
    const std::int64_t features = c.in_features, step = a.kernel_dilation * a.in_step;
    const std::int64_t before = smaller_of(inside.begin, a.kernel_size), taps = inside.end - inside.begin;
    if (taps == a.kernel_size && c.in_feature == 1 && step == features) return pack_run<Isa>(from, taps * features, to);
    fill<Isa>(padding, before * features, to);
    to += before * features;
    if (taps <= 0) return fill<Isa>(padding, (a.kernel_size - before) * features, to);
    if (c.in_feature == 1 && step == features) {
      pack_run<Isa>(from, taps * features, to);
    } else if (c.in_feature == 1) {
      for (std::int64_t t = 0; t < taps; ++t) pack_run<Isa>(from + t * step, features, to + t * features);
    } else {
      for (std::int64_t t = 0; t < taps; ++t)
        for (std::int64_t f = 0; f < features; ++f) to[t * features + f] = Isa::left(from[t * step + f * c.in_feature]);
    }
    fill<Isa>(padding, (a.kernel_size - inside.end) * features, to + taps * features);
  }
};

/// Bytes of scratch memory that `byte_convolution` needs.
template <class In, class Out>
constexpr std::size_t byte_convolution_scratch(const Convolution &c) {
  return c.groups > 1 ? byte_depthwise_scratch(c) : window_scratch(c);
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
