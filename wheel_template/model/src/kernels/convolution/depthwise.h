// src/kernels/convolution/depthwise.h - convolutions in which each input feature has its own filters.
//
// A direct loop, vectorised over features: a few neighbouring outputs are held in registers while the window is
// walked. Taps that fall outside the input are left out, so the input is never padded. Along the row, windows of three
// and five taps have code of their own, which loads each input once for all outputs of a tile; the products of an
// output are summed in the order of the taps everywhere.
#pragma once

#include "kernels/base/shuffle.h"
#include "kernels/convolution/method.h"
#include "kernels/convolution/shape.h"
#include "kernels/elementwise/epilogue.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Whether convolve_depthwise computes it: contiguous features, one input feature in each group, no dilated input.
constexpr bool is_depthwise(const Convolution &c) {
  bool plain =
      c.groups == c.in_features && c.groups > 1 && c.in_feature == 1 && c.kernel_out == 1 && c.out_feature == 1;
  for (const Axis &axis : axes_of(c).axis) plain = plain && axis.base_dilation == 1;
  return plain;
}

/// A row of taps that meets the input, by its offsets from the windows' first element and from the filters' first tap.
struct TapRow {
  std::int64_t in, kernel;
};

/// A row of outputs along the innermost axis.
template <class T>
struct DepthwiseRow {
  const TapRow *taps;
  std::int64_t num_taps;
  const Axis *axis;
  /// Element 0 of the row of inputs under the windows' first row of taps, the filters, and output 0.
  const T *in, *kernel;
  T *out;
  std::int64_t features;
  const Epilogue<T> *epilogue;
};

/// Finishes and stores neighbouring outputs from x on, `Lanes` features from f on.
template <class T, int Lanes, int Pixels>
MODELWHEEL_INLINE void store_pixels(const DepthwiseRow<T> &row, std::int64_t x, std::int64_t f,
                                    Vector<T, Lanes> (&sum)[Pixels][1]) {
  const std::int64_t step = row.axis->out_step;
  T *to = row.out + x * step + f;
  if (row.epilogue != nullptr) {
    const T *place[Pixels];
    const std::int64_t at[1] = {0};
    MODELWHEEL_UNROLL
    for (int i = 0; i < Pixels; ++i) place[i] = to + i * step;
    finish_vectors<T, Lanes>(*row.epilogue, place, f, at, sum);
    to = row.epilogue->result + (to - row.epilogue->sums);
  }
  MODELWHEEL_UNROLL
  for (int i = 0; i < Pixels; ++i) store<T, Lanes>(to + i * step, sum[i][0]);
}

/// `Pixels` neighbouring outputs from x on whose windows meet the input with the same taps, `Lanes` features at a time;
/// at the end of the features, lanes overlap.
template <class T, int Lanes, int Pixels>
MODELWHEEL_NOINLINE void depthwise_pixels(const DepthwiseRow<T> &row, std::int64_t x) {
  const Axis &a = *row.axis;
  const Range inside = taps_within(a, x);
  const std::int64_t in_step = a.stride * a.in_step, tap_step = a.kernel_dilation * a.in_step;
  const T *in = row.in + (window_start(a, x) + inside.begin * a.kernel_dilation) * a.in_step;
  const T *kernel = row.kernel + inside.begin * a.tap_step;
  for (std::int64_t first = 0; first < row.features; first += Lanes) {
    const std::int64_t f = smaller_of(first, row.features - Lanes);
    Vector<T, Lanes> sum[Pixels][1] = {};
    for (std::int64_t r = 0; r < row.num_taps; ++r) {
      const T *from = in + row.taps[r].in + f, *weights = kernel + row.taps[r].kernel + f;
      for (std::int64_t k = length(inside); k > 0; --k, from += tap_step, weights += a.tap_step) {
        const Vector<T, Lanes> weight = load<T, Lanes>(weights);
        MODELWHEEL_UNROLL
        for (int i = 0; i < Pixels; ++i) sum[i][0] += weight * load<T, Lanes>(from + i * in_step);
      }
    }
    store_pixels<T, Lanes>(row, x, f, sum);
  }
}

/// All outputs of a row by windows of any kind; `whole` are those whose windows are within the input along the row.
template <class T, int Lanes>
void depthwise_row(const DepthwiseRow<T> &row, Range whole) {
  std::int64_t x = 0;
  while (x < whole.begin) depthwise_pixels<T, Lanes, 1>(row, x++);
  for (; x + 8 <= whole.end; x += 8) depthwise_pixels<T, Lanes, 8>(row, x);
  // The last ones overlap those before, when there are enough.
  if (x < whole.end && length(whole) >= 8) {
    depthwise_pixels<T, Lanes, 8>(row, whole.end - 8);
    x = whole.end;
  }
  while (x < row.axis->out_size) depthwise_pixels<T, Lanes, 1>(row, x++);
}

/// Adds to `sum` the products of one row of `Taps` taps: each input is loaded once for all windows that it is in. At
/// an `Edge`, inputs that are not `inside` are left out.
template <class T, int Lanes, int Pixels, int Taps, int Stride, bool Edge>
MODELWHEEL_INLINE void add_taps(const T *in, std::int64_t in_step, const T *kernel, std::int64_t tap_step, Range inside,
                                Vector<T, Lanes> (&sum)[Pixels][1]) {
  Vector<T, Lanes> weight[Taps];
  MODELWHEEL_UNROLL
  for (int k = 0; k < Taps; ++k) weight[k] = load<T, Lanes>(kernel + k * tap_step);
  // More steps than MODELWHEEL_UNROLL is for.
#pragma GCC unroll 32
  for (int x = 0; x < (Pixels - 1) * Stride + Taps; ++x) {
    if (Edge && (x < inside.begin || x >= inside.end)) continue;
    Vector<T, Lanes> value = load<T, Lanes>(in + x * in_step);
    keep_in_register(value);
    MODELWHEEL_UNROLL
    for (int k = 0; k < Taps; ++k)
      if (x >= k && (x - k) % Stride == 0 && (x - k) / Stride < Pixels) sum[(x - k) / Stride][0] += weight[k] * value;
  }
}

/// `Pixels` neighbouring outputs from x on, all features, for windows with `Taps` taps without gaps.
template <class T, int Lanes, int Pixels, int Taps, int Stride, bool Edge>
MODELWHEEL_NOINLINE void depthwise_tile(const DepthwiseRow<T> &row, std::int64_t x) {
  const Axis &a = *row.axis;
  const std::int64_t start = window_start(a, x), in_step = a.in_step, tap_step = a.tap_step;
  const Range inside{-start, a.in_size - start};
  const T *in = row.in + start * in_step;
  for (std::int64_t first = 0; first < row.features; first += Lanes) {
    const std::int64_t f = smaller_of(first, row.features - Lanes);
    Vector<T, Lanes> sum[Pixels][1] = {};
    for (std::int64_t r = 0; r < row.num_taps; ++r)
      add_taps<T, Lanes, Pixels, Taps, Stride, Edge>(in + row.taps[r].in + f, in_step,
                                                     row.kernel + row.taps[r].kernel + f, tap_step, inside, sum);
    store_pixels<T, Lanes>(row, x, f, sum);
  }
}

/// Outputs of a tile, and the fewest of a row of tiles.
inline constexpr int kTilePixels = 8, kFewPixels = 4;

/// All outputs of a row in tiles; the last ones overlap those before.
template <class T, int Lanes, int Taps, int Stride>
void depthwise_tiles(const DepthwiseRow<T> &row, Range whole) {
  const std::int64_t end = row.axis->out_size;
  std::int64_t x = 0;
  const auto edge = [&] {
    if (end - x <= kFewPixels || end < kTilePixels) {
      depthwise_tile<T, Lanes, kFewPixels, Taps, Stride, true>(row, smaller_of(x, end - kFewPixels));
      x += kFewPixels;
    } else {
      depthwise_tile<T, Lanes, kTilePixels, Taps, Stride, true>(row, smaller_of(x, end - kTilePixels));
      x += kTilePixels;
    }
  };
  while (x < whole.begin) edge();
  for (; x + kTilePixels <= whole.end; x += kTilePixels)
    depthwise_tile<T, Lanes, kTilePixels, Taps, Stride, false>(row, x);
  while (x < end) edge();
}

/// All outputs of a row, by vectors no wider than the features.
template <class T>
void depthwise_outputs(const DepthwiseRow<T> &row, Range whole) {
  constexpr int kHalf = kHalfLanes<T>;
  const Axis &a = *row.axis;
  const bool spaced = a.kernel_dilation == 1 && a.out_size >= kFewPixels && a.out_size > whole.begin;
  const bool tiles = spaced && row.features >= kLanes<T>;
  if (tiles && a.kernel_size == 3 && a.stride == 1)
    depthwise_tiles<T, kLanes<T>, 3, 1>(row, whole);
  else if (tiles && a.kernel_size == 3 && a.stride == 2)
    depthwise_tiles<T, kLanes<T>, 3, 2>(row, whole);
  else if (tiles && a.kernel_size == 5 && a.stride == 1)
    depthwise_tiles<T, kLanes<T>, 5, 1>(row, whole);
  else if (tiles && a.kernel_size == 5 && a.stride == 2)
    depthwise_tiles<T, kLanes<T>, 5, 2>(row, whole);
  else if (row.features >= kLanes<T>)
    depthwise_row<T, kLanes<T>>(row, whole);
  else if (spaced && row.features >= kHalf && a.kernel_size == 3 && a.stride == 1)
    depthwise_tiles<T, kHalf, 3, 1>(row, whole);
  else if (row.features >= kHalf)
    depthwise_row<T, kHalf>(row, whole);
  else if (row.features >= kPart<T>)
    depthwise_row<T, kPart<T>>(row, whole);
  else
    depthwise_row<T, 1>(row, whole);
}

/// How an image is cut, so that what neighbouring rows of outputs have in common stays in cache.
struct DepthwiseBlocks {
  /// Rows of outputs along the middle axis, whose inputs stay in the second level.
  std::int64_t rows;
  /// Features of a few rows of inputs, which stay in the first level.
  std::int64_t features;
};

template <class T>
constexpr DepthwiseBlocks depthwise_blocks(const Axes &axes, std::int64_t features) {
  constexpr std::int64_t kFirst = 24 * 1024, kSecond = 256 * 1024, kLeast = 2 * kLanes<T>;
  const Axis(&axis)[kAxes] = axes.axis;
  const std::int64_t line = axis[2].in_size * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t rows = larger_of(kSecond / (line * features * axis[1].stride), std::int64_t{1});
  const std::int64_t fitting = kFirst / (line * axis[0].kernel_size * axis[1].kernel_size) / kLeast * kLeast;
  const std::int64_t blocks = divide_up(features, larger_of(fitting, kLeast));
  return {rows, blocks == 1 ? features : divide_up(features, blocks * kLanes<T>) * kLanes<T>};
}

/// Some rows of outputs. `taps` has room for all rows of taps of a window.
template <class T>
void depthwise_rows(const Axes &axes, std::int64_t z, Range rows, Range whole, const T *in, const T *kernel, T *out,
                    std::int64_t features, TapRow *taps, const Epilogue<T> *epilogue) {
  const Axis(&axis)[kAxes] = axes.axis;
  const Range z_taps = taps_within(axis[0], z);
  for (std::int64_t y = rows.begin; y < rows.end; ++y) {
    const Range y_taps = taps_within(axis[1], y);
    TapRow *next = taps;
    for (std::int64_t i = z_taps.begin; i < z_taps.end; ++i)
      for (std::int64_t j = y_taps.begin; j < y_taps.end; ++j)
        *next++ = {(window_start(axis[0], z) + i * axis[0].kernel_dilation) * axis[0].in_step +
                       (window_start(axis[1], y) + j * axis[1].kernel_dilation) * axis[1].in_step,
                   i * axis[0].tap_step + j * axis[1].tap_step};
    T *to = out + z * axis[0].out_step + y * axis[1].out_step;
    depthwise_outputs<T>({taps, next - taps, &axis[2], in, kernel, to, features, epilogue}, whole);
  }
}

/// One image.
template <class T>
void depthwise_image(const Axes &axes, const T *in, const T *kernel, T *out, std::int64_t features, TapRow *taps,
                     const Epilogue<T> *epilogue) {
  const Axis(&axis)[kAxes] = axes.axis;
  const DepthwiseBlocks blocks = depthwise_blocks<T>(axes, features);
  const Range whole = whole_windows(axis[2]);
  kernel += axis[0].first_tap + axis[1].first_tap + axis[2].first_tap;
  for (std::int64_t z = 0; z < axis[0].out_size; ++z)
    for (std::int64_t y = 0; y < axis[1].out_size; y += blocks.rows)
      for (std::int64_t first = 0; first < features; first += blocks.features) {
        // The last block overlaps the one before.
        const std::int64_t f = smaller_of(first, features - blocks.features);
        Epilogue<T> of_block{};
        if (epilogue != nullptr) of_block = from_column(*epilogue, f);
        depthwise_rows(axes, z, {y, smaller_of(y + blocks.rows, axis[1].out_size)}, whole, in + f, kernel + f, out + f,
                       blocks.features, taps, epilogue != nullptr ? &of_block : nullptr);
      }
}

/// Elements of an image in which each feature is repeated for each of its filters; 0 if each has one filter.
constexpr std::int64_t repeated_elements(const Convolution &c) {
  if (c.out_features == c.in_features) return 0;
  std::int64_t product = c.out_features;
  for (const Axis &axis : axes_of(c).axis) product *= axis.in_size;
  return product;
}

/// Repeats each feature of an image; `axes` becomes those of the copy.
template <class T>
void repeat_features(const Convolution &c, Axes &axes, const T *in, T *to) {
  const std::int64_t times = c.out_features / c.in_features;
  const Axis(&axis)[kAxes] = axes.axis;
  T *next = to;
  for (std::int64_t z = 0; z < axis[0].in_size; ++z)
    for (std::int64_t y = 0; y < axis[1].in_size; ++y)
      for (std::int64_t x = 0; x < axis[2].in_size; ++x) {
        const T *from = in + z * axis[0].in_step + y * axis[1].in_step + x * axis[2].in_step;
        for (std::int64_t f = 0; f < c.in_features; ++f)
          for (std::int64_t i = 0; i < times; ++i) *next++ = from[f];
      }
  std::int64_t step = c.out_features;
  for (int a = kAxes - 1; a >= 0; --a) {
    axes.axis[a].in_step = step;
    step *= axes.axis[a].in_size;
  }
}

/// Most rows of taps that a window has.
constexpr std::int64_t max_tap_rows(const Convolution &c) {
  const Axes axes = axes_of(c);
  return axes.axis[0].kernel_size * axes.axis[1].kernel_size;
}

/// Bytes of scratch memory that convolve_depthwise needs.
template <class T>
constexpr std::size_t convolve_depthwise_scratch(const Convolution &c) {
  return scratch_bytes<TapRow>(max_tap_rows(c)) + scratch_bytes<T>(repeated_elements(c));
}

/// Computes a convolution for which is_depthwise holds; see `convolution_by`.
template <class T>
MODELWHEEL_NOINLINE void convolve_depthwise(const Convolution &c, const T *in, const T *kernel, T *out, void *memory,
                                            const Epilogue<T> *epilogue) {
  Scratch scratch(memory);
  TapRow *taps = scratch.take<TapRow>(max_tap_rows(c));
  T *repeated = scratch.take<T>(0);
  for (std::int64_t image = 0; image < c.batch; ++image, in += c.in_batch, out += c.out_batch) {
    Axes axes = axes_of(c);
    const T *from = in;
    if (c.out_features != c.in_features) {
      repeat_features(c, axes, in, repeated);
      from = repeated;
    }
    depthwise_image(axes, from, kernel, out, c.out_features, taps, epilogue);
  }
}

/// A filter of its own for each input feature.
struct DepthwiseMethod : ConvolutionMethod {
  static constexpr bool kIsDirect = true;
  template <class T>
  static constexpr bool kFor = kHasGemm<T>;

  template <class T>
  static constexpr bool prefers(const Convolution &c) {
    return is_depthwise(c);
  }

  template <class T>
  static constexpr std::size_t scratch(const Convolution &c) {
    return convolve_depthwise_scratch<T>(c);
  }

  template <class T>
  static void compute(const Convolution &c, const T *in, const T *kernel, T *out, void *scratch,
                      const Epilogue<T> *epilogue) {
    convolve_depthwise(c, in, kernel, out, scratch, epilogue);
  }

  template <class T>
  MODELWHEEL_COLD static constexpr bool same_bits(const Convolution &, const Convolution &) {
    return true;
  }
};

extern template void convolve_depthwise(const Convolution &, const float *, const float *, float *, void *,
                                        const Epilogue<float> *);
extern template void convolve_depthwise(const Convolution &, const double *, const double *, double *, void *,
                                        const Epilogue<double> *);

}  // namespace modelwheel::MODELWHEEL_LEVEL
