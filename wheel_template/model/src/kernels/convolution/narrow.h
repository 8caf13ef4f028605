// src/kernels/convolution/narrow.h - convolutions with few output features: vectors run along the window instead.
//
// The inputs of a row of a window follow each other in memory, features and all: each output is the sum of a few dot
// products. Several neighbours are computed together, each with a vector of sums. The input is read in place; outputs
// whose windows leave it at the sides are computed one by one.
#pragma once

#include "kernels/base/shuffle.h"
#include "kernels/convolution/adjacent.h"
#include "kernels/convolution/method.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Vectors of sums that are computed together: as many as hide the latency of an addition.
inline constexpr int kNarrowSums = 8;
/// Bytes of the inputs under the windows of some outputs of a row.
inline constexpr std::int64_t kNarrowBytes = 24 * 1024;

/// Most output features.
inline constexpr std::int64_t kNarrowFeatures = 4;

/// How many per cent of the peak convolve_narrow reaches, about: each multiplication reads a vector, and summing the
/// lanes of an output costs as much as ten further ones.
template <class T>
constexpr std::int64_t narrow_rate(const Convolution &c) {
  const std::int64_t size = c.kernel_size[c.rank - 1] * c.in_features, rows = window_elements(c) / size;
  const std::int64_t best = kLanes<T> > 8 ? 34 : 55;
  return best * rows * size / (kLanes<T> * (rows * divide_up(size, kLanes<T>) + 10));
}

/// Whether convolve_narrow is the fastest, if no transforms compute it.
template <class T>
constexpr bool prefers_narrow(const Convolution &c) {
  if (sizeof(T) != sizeof(float) || c.rank == 0 || c.groups != 1) return false;
  if (c.out_features == 0 || c.out_features > kNarrowFeatures) return false;
  const std::int64_t last = c.rank - 1, size = c.kernel_size[last] * c.in_features;
  if (c.in_feature != 1 || c.in_spatial[last] != c.in_features || c.kernel_dilation[last] != 1) return false;
  if (c.out_feature != 1 || c.out_spatial[last] != c.out_features || size < kLanes<T>) return false;
  for (std::int64_t axis = 0; axis < c.rank; ++axis)
    if (c.base_dilation[axis] != 1 || c.kernel_size[axis] == 0) return false;
  // An output at the sides takes as long as several others.
  const std::int64_t whole = length(whole_windows(axes_of(c).axis[kAxes - 1]));
  if (whole < kNarrowSums || 8 * whole < 7 * c.out_size[last]) return false;
  // Columns that are no whole part of a vector take twice as long.
  const std::int64_t count = adjacent_outputs<T>(c), other = rate_of_adjacent<T>(c, count);
  return narrow_rate<T>(c) > (count * c.out_features % kPart<T> == 0 ? other : other / 2);
}

/// Elements of the bias of a row of outputs that is seen as rows of whole vectors.
template <class T>
constexpr std::int64_t repeated_features(const Convolution &c) {
  return kLanes<T> * c.out_features;
}

/// Bytes of scratch memory that convolve_narrow needs.
template <class T>
constexpr std::size_t convolve_narrow_scratch(const Convolution &c) {
  return scratch_bytes<T>(window_elements(c) * c.out_features) +
         scratch_bytes<T>(kColumnOperands * repeated_features<T>(c));
}

/// The taps of a row of outputs that meet the input.
template <class T>
struct NarrowRows {
  /// The first of them, of the first output, and the filter there.
  const T *in, *filter;
  /// Rows along two axes, and how far apart they are.
  std::int64_t count[2], in_step[2], filter_step[2];
  /// Elements of each row, and from the filter of a feature to that of the next.
  std::int64_t size, feature_step;
};

/// `Features` sums of each of some neighbours whose windows are within the input.
template <class T, int Features>
MODELWHEEL_NOINLINE void narrow_outputs(const NarrowRows<T> &rows, std::int64_t in_step, T *out,
                                        std::int64_t out_step) {
  constexpr int kOutputs = kNarrowSums / Features, kWidth = kLanes<T>;
  const std::int64_t rest = rows.size % kWidth, last = rows.size - kWidth;
  // The last vector of a row begins earlier: what it has of the one before is left out.
  T lanes[kWidth];
  for (int lane = 0; lane < kWidth; ++lane) lanes[lane] = static_cast<T>(lane >= kWidth - rest);
  const auto is_rest = load<T>(lanes) != Vector<T>{};
  Vector<T> sum[Features][kOutputs] = {};
  for (std::int64_t z = 0; z < rows.count[0]; ++z)
    for (std::int64_t y = 0; y < rows.count[1]; ++y) {
      const T *const in = rows.in + z * rows.in_step[0] + y * rows.in_step[1];
      const T *const filter = rows.filter + z * rows.filter_step[0] + y * rows.filter_step[1];
      for (std::int64_t k = 0; k <= last; k += kWidth) {
        Vector<T> weights[Features];
        MODELWHEEL_UNROLL
        for (int f = 0; f < Features; ++f) weights[f] = load(filter + f * rows.feature_step + k);
        MODELWHEEL_UNROLL
        for (int i = 0; i < kOutputs; ++i) {
          const Vector<T> value = load(in + i * in_step + k);
          MODELWHEEL_UNROLL
          for (int f = 0; f < Features; ++f) sum[f][i] += value * weights[f];
        }
      }
      if (rest == 0) continue;
      MODELWHEEL_UNROLL
      for (int f = 0; f < Features; ++f) {
        const Vector<T> weights = is_rest ? load(filter + f * rows.feature_step + last) : Vector<T>{};
        MODELWHEEL_UNROLL
        for (int i = 0; i < kOutputs; ++i)
          sum[f][i] += (is_rest ? load(in + i * in_step + last) : Vector<T>{}) * weights;
      }
    }
  MODELWHEEL_UNROLL
  for (int f = 0; f < Features; ++f) {
    MODELWHEEL_UNROLL
    for (int first = 0; first < kOutputs; first += kPart<T>) {
      Part<T> square[kPart<T>];
      MODELWHEEL_UNROLL
      for (int i = 0; i < kPart<T>; ++i) square[i] = sum_of_parts<T>(sum[f][first + i]);
      transpose_square<T>(square);
      MODELWHEEL_UNROLL
      for (int i = 1; i < kPart<T>; ++i) square[0] += square[i];
      MODELWHEEL_UNROLL
      for (int i = 0; i < kPart<T>; ++i) out[(first + i) * out_step + f] = square[0][i];
    }
  }
}

/// The sum of one output, whose rows may be of any size.
template <class T>
MODELWHEEL_NOINLINE T narrow_output(const NarrowRows<T> &rows) {
  Part<T> sum{};
  T rest = 0;
  for (std::int64_t z = 0; z < rows.count[0]; ++z)
    for (std::int64_t y = 0; y < rows.count[1]; ++y) {
      const T *const in = rows.in + z * rows.in_step[0] + y * rows.in_step[1];
      const T *const filter = rows.filter + z * rows.filter_step[0] + y * rows.filter_step[1];
      std::int64_t k = 0;
      for (; k + kPart<T> <= rows.size; k += kPart<T>) sum += load<T, kPart<T>>(in + k) * load<T, kPart<T>>(filter + k);
      for (; k < rows.size; ++k) rest += in[k] * filter[k];
    }
  for (int i = 0; i < kPart<T>; ++i) rest += sum[i];
  return rest;
}

/// `Features` features of some outputs of a row, of which no window or kNarrowSums are within the input; `rows` begin
/// at the first tap of output 0.
template <class T, int Features>
void narrow_row(const Axis &along, const Range &outs, NarrowRows<T> rows, T *out) {
  constexpr std::int64_t kOutputs = kNarrowSums / Features;
  const std::int64_t features = along.in_step, step = along.stride * features;
  const Range all = whole_windows(along);
  const Range whole{larger_of(all.begin, outs.begin), smaller_of(all.end, outs.end)};
  const T *const in = rows.in, *const filter = rows.filter;
  for (std::int64_t x = whole.begin; x < whole.end; x += kOutputs) {
    // The last ones are computed again.
    const std::int64_t first = smaller_of(x, whole.end - kOutputs);
    rows.in = in + window_start(along, first) * features;
    narrow_outputs<T, Features>(rows, step, out + first * along.out_step, along.out_step);
  }
  const Range sides[] = {{outs.begin, smaller_of(all.begin, outs.end)}, {larger_of(all.end, outs.begin), outs.end}};
  for (const Range &side : sides)
    for (std::int64_t x = side.begin; x < side.end; ++x) {
      const Range taps = taps_within(along, x);
      rows.in = in + (window_start(along, x) + taps.begin) * features;
      rows.size = length(taps) * features;
      for (int f = 0; f < Features; ++f) {
        rows.filter = filter + f * rows.feature_step + taps.begin * features;
        out[x * along.out_step + f] = narrow_output(rows);
      }
    }
}

/// Copies the filters, one feature after the other, in the order of the inputs.
template <class T>
MODELWHEEL_NOINLINE void copy_narrow_filters(const Convolution &c, const Axes &axes, const T *kernel, T *to) {
  const Axis(&axis)[kAxes] = axes.axis;
  for (const Axis &one : axis) kernel += one.first_tap;
  for (std::int64_t feature = 0; feature < c.out_features; ++feature, kernel += c.panel == 0 ? c.kernel_out : 1)
    for (std::int64_t z = 0; z < axis[0].kernel_size; ++z)
      for (std::int64_t y = 0; y < axis[1].kernel_size; ++y)
        for (std::int64_t x = 0; x < axis[2].kernel_size; ++x, to += c.in_features)
          copy_weights(kernel + z * axis[0].tap_step + y * axis[1].tap_step + x * axis[2].tap_step, c.kernel_in,
                       c.in_features, to);
}

/// Finishes outputs that follow each other as rows of whole vectors, for which `e` has its columns repeated.
template <class T>
void finish_narrow(const Convolution &c, const Epilogue<T> &e, const T *first, std::int64_t outs) {
  const std::int64_t columns = repeated_features<T>(c), size = outs * c.out_features, whole = size / columns;
  finish_rows(e, first, whole, columns, 0, columns);
  finish_rows(e, first + whole * columns, 1, columns, 0, size - whole * columns);
}

/// Computes some outputs of each row of an image; see convolve_narrow.
template <class T>
void narrow_outputs(const Convolution &c, const Axes &axes, const Range &outs, const T *in, const T *filters, T *out,
                    const Epilogue<T> *epilogue) {
  const Axis(&axis)[kAxes] = axes.axis;
  const std::int64_t size = axis[2].kernel_size * c.in_features;
  const std::int64_t in_step[] = {axis[0].kernel_dilation * axis[0].in_step, axis[1].kernel_dilation * axis[1].in_step};
  for (std::int64_t z = 0; z < axis[0].out_size; ++z)
    for (std::int64_t y = 0; y < axis[1].out_size; ++y) {
      const Range taps_z = taps_within(axis[0], z), taps_y = taps_within(axis[1], y);
      NarrowRows<T> rows{in + window_start(axis[0], z) * axis[0].in_step + taps_z.begin * in_step[0] +
                             window_start(axis[1], y) * axis[1].in_step + taps_y.begin * in_step[1],
                         filters + (taps_z.begin * axis[1].kernel_size + taps_y.begin) * size,
                         {length(taps_z), length(taps_y)},
                         {in_step[0], in_step[1]},
                         {axis[1].kernel_size * size, size},
                         size,
                         window_elements(c)};
      T *const to = out + z * axis[0].out_step + y * axis[1].out_step;
      std::int64_t f = 0;
      for (; f + 2 <= c.out_features; f += 2, rows.filter += 2 * rows.feature_step)
        narrow_row<T, 2>(axis[2], outs, rows, to + f);
      if (f < c.out_features) narrow_row<T, 1>(axis[2], outs, rows, to + f);
      if (epilogue != nullptr) finish_narrow(c, *epilogue, to + outs.begin * c.out_features, length(outs));
    }
}

/// Where the outputs of a row end that are computed before the next row, so that their windows stay in the first-level
/// cache. In each block, as many windows are within the input as are computed together, or more.
template <class T>
std::int64_t end_of_block(const Convolution &c, const Axis &along, std::int64_t begin) {
  const Range whole = whole_windows(along);
  const std::int64_t rows = window_elements(c) / (along.kernel_size * c.in_features);
  const std::int64_t bytes = rows * along.stride * c.in_features * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t outs = larger_of(kNarrowBytes / bytes / kNarrowSums, std::int64_t{1}) * kNarrowSums;
  const std::int64_t end = larger_of(begin, whole.begin) + outs;
  return end + kNarrowSums <= whole.end ? end : along.out_size;
}

/// Computes a convolution for which prefers_narrow holds; see `convolution_by`. The epilogue must not wait.
template <class T>
MODELWHEEL_NOINLINE void convolve_narrow(const Convolution &c, const T *in, const T *kernel, T *out, void *memory,
                                         const Epilogue<T> *epilogue) {
  const Axes axes = axes_of(c);
  Scratch scratch(memory);
  T *const filters = scratch.take<T>(window_elements(c) * c.out_features);
  const std::int64_t columns = repeated_features<T>(c), size = c.out_size[c.rank - 1];
  T *const repeats = scratch.take<T>(kColumnOperands * columns);
  copy_narrow_filters(c, axes, kernel, filters);
  Epilogue<T> follows{};
  if (epilogue != nullptr) follows = with_repeated(*epilogue, c.out_features, kLanes<T>, repeats);
  for (std::int64_t image = 0; image < c.batch; ++image)
    for (Range outs{0, 0}; outs.begin < size; outs.begin = outs.end) {
      outs.end = end_of_block<T>(c, axes.axis[kAxes - 1], outs.begin);
      narrow_outputs(c, axes, outs, in + image * c.in_batch, filters, out + image * c.out_batch,
                     epilogue != nullptr ? &follows : nullptr);
    }
}

/// Few output features: vectors along the window.
struct NarrowMethod : ConvolutionMethod {
  template <class T>
  static constexpr bool kFor = kIsFloat<T>;

  template <class T>
  static constexpr bool prefers(const Convolution &c) {
    return prefers_narrow<T>(c);
  }

  template <class T>
  static constexpr std::size_t scratch(const Convolution &c) {
    return convolve_narrow_scratch<T>(c);
  }

  template <class T>
  static void compute(const Convolution &c, const T *in, const T *kernel, T *out, void *scratch,
                      const Epilogue<T> *epilogue) {
    convolve_narrow(c, in, kernel, out, scratch, epilogue);
  }

  template <class T>
  MODELWHEEL_COLD static constexpr bool same_bits(const Convolution &whole, const Convolution &part) {
    return whole.out_features == part.out_features;
  }
};

}  // namespace modelwheel::MODELWHEEL_LEVEL
