// src/kernels/convolution_depthwise.h - convolutions in which each input feature has its own filters.
//
// A direct loop, vectorised over features: a few neighbouring outputs are held in registers while the window is
// walked. Taps that fall outside the input are left out, so the input is never padded.
#pragma once

#include "convolution_shape.h"
#include "epilogue.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Whether convolve_depthwise computes it: contiguous features, one input feature in each group, no dilated input.
constexpr bool is_depthwise(const Convolution &c) {
  bool plain =
      c.groups == c.in_features && c.groups > 1 && c.in_feature == 1 && c.kernel_out == 1 && c.out_feature == 1;
  for (const Axis &axis : axes_of(c).axis) plain = plain && axis.base_dilation == 1;
  return plain;
}

/// A tap that meets the input, by its offsets from the window's first element and from the filter's first tap.
struct Tap {
  std::int64_t in, kernel;
};

/// `Pixels` neighbouring outputs, `Lanes` features at a time; at the end of the features, lanes overlap.
template <class T, int Lanes, int Pixels>
MODELWHEEL_INLINE void depthwise_features(const Tap *taps, std::int64_t num_taps, const T *in, std::int64_t in_step,
                                          const T *kernel, T *out, std::int64_t out_step, std::int64_t features,
                                          const Epilogue<T> *epilogue) {
  for (std::int64_t first = 0; first < features; first += Lanes) {
    const std::int64_t f = smaller_of(first, features - Lanes);
    Vector<T, Lanes> sum[Pixels][1] = {};
    for (std::int64_t t = 0; t < num_taps; ++t) {
      const Vector<T, Lanes> weight = load<T, Lanes>(kernel + taps[t].kernel + f);
      const T *from = in + taps[t].in + f;
      MODELWHEEL_UNROLL
      for (int i = 0; i < Pixels; ++i) sum[i][0] += weight * load<T, Lanes>(from + i * in_step);
    }
    T *to = out + f;
    if (epilogue != nullptr) {
      const T *place[Pixels];
      const std::int64_t at[1] = {0};
      MODELWHEEL_UNROLL
      for (int i = 0; i < Pixels; ++i) place[i] = to + i * out_step;
      finish_vectors<T, Lanes>(*epilogue, place, f, at, sum);
      to = epilogue->result + (to - epilogue->sums);
    }
    MODELWHEEL_UNROLL
    for (int i = 0; i < Pixels; ++i) store<T, Lanes>(to + i * out_step, sum[i][0]);
  }
}

/// The same with vectors no wider than the features.
template <class T, int Pixels>
MODELWHEEL_NOINLINE void depthwise_pixels(const Tap *taps, std::int64_t num_taps, const T *in, std::int64_t in_step,
                                          const T *kernel, T *out, std::int64_t out_step, std::int64_t features,
                                          const Epilogue<T> *epilogue) {
  constexpr int kNarrow = 16 / static_cast<int>(sizeof(T));
  if (features >= kLanes<T>)
    depthwise_features<T, kLanes<T>, Pixels>(taps, num_taps, in, in_step, kernel, out, out_step, features, epilogue);
  else if (features >= kNarrow)
    depthwise_features<T, kNarrow, Pixels>(taps, num_taps, in, in_step, kernel, out, out_step, features, epilogue);
  else
    depthwise_features<T, 1, Pixels>(taps, num_taps, in, in_step, kernel, out, out_step, features, epilogue);
}

/// One row of outputs along the innermost axis.
template <class T>
class DepthwiseRow {
 public:
  /// `z` and `y` locate the row; `in`, `kernel` and `out` are those of the image; `taps` has room for all taps.
  DepthwiseRow(const Axes &axes, std::int64_t z, std::int64_t y, const T *in, const T *kernel, T *out,
               std::int64_t features, Tap *taps, const Epilogue<T> *epilogue)
      : axis_(axes.axis),
        at_{z, y},
        in_(in),
        kernel_(kernel),
        out_(out),
        features_(features),
        taps_(taps),
        epilogue_(epilogue) {
    for (int a = 0; a < 2; ++a) {
      in_ += window_start(axis_[a], at_[a]) * axis_[a].in_step;
      out_ += at_[a] * axis_[a].out_step;
    }
  }

  void run() {
    list_taps();
    const Range whole = whole_windows();
    std::int64_t x = 0;
    while (x < whole.begin) pixels<1>(x++);
    while (x + 8 <= whole.end) x = pixels<8>(x);
    // The last ones overlap those before, when there are enough.
    const std::int64_t rest = whole.end - x, all = length(whole);
    if (rest > 4 && all >= 8) x = pixels<8>(whole.end - 8);
    if (rest > 0 && rest <= 4 && all >= 4) x = pixels<4>(whole.end - 4);
    while (x < axis_[2].out_size) pixels<1>(x++);
  }

 private:
  /// Outputs whose windows are within the input along the row.
  Range whole_windows() const {
    const Axis &a = axis_[2];
    const std::int64_t last = a.in_size - 1 - (a.kernel_size - 1) * a.kernel_dilation + a.pad_low;
    const std::int64_t begin = larger_of(-divide_down(-a.pad_low, a.stride), std::int64_t{0});
    const std::int64_t end = smaller_of(divide_down(last, a.stride) + 1, a.out_size);
    return {smaller_of(begin, a.out_size), larger_of(begin, end)};
  }

  /// Lists the taps that meet the input along the outer axes, those of one place along the row together.
  void list_taps() {
    const Range z_taps = taps_within(axis_[0], at_[0]), y_taps = taps_within(axis_[1], at_[1]);
    Tap *next = taps_;
    for (std::int64_t x = 0; x < axis_[2].kernel_size; ++x)
      for (std::int64_t z = z_taps.begin; z < z_taps.end; ++z)
        for (std::int64_t y = y_taps.begin; y < y_taps.end; ++y) {
          *next = {0, 0};
          const std::int64_t index[kAxes] = {z, y, x};
          for (int a = 0; a < kAxes; ++a) {
            next->in += index[a] * axis_[a].kernel_dilation * axis_[a].in_step;
            next->kernel += axis_[a].first_tap + index[a] * axis_[a].tap_step;
          }
          ++next;
        }
    in_column_ = length(z_taps) * length(y_taps);
  }

  /// Outputs from x on, for which the same taps meet the input; returns where they end.
  template <int Pixels>
  std::int64_t pixels(std::int64_t x) {
    const Range taps = taps_within(axis_[2], x);
    depthwise_pixels<T, Pixels>(taps_ + taps.begin * in_column_, length(taps) * in_column_,
                                in_ + window_start(axis_[2], x) * axis_[2].in_step, axis_[2].stride * axis_[2].in_step,
                                kernel_, out_ + x * axis_[2].out_step, axis_[2].out_step, features_, epilogue_);
    return x + Pixels;
  }

  const Axis *axis_;
  std::int64_t at_[2];
  const T *in_;
  const T *kernel_;
  T *out_;
  std::int64_t features_;
  Tap *taps_;
  const Epilogue<T> *epilogue_;
  /// How many taps share a place along the row.
  std::int64_t in_column_ = 0;
};

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

/// Most taps that a window has.
constexpr std::int64_t max_taps(const Convolution &c) {
  std::int64_t product = 1;
  for (const Axis &axis : axes_of(c).axis) product *= axis.kernel_size;
  return product;
}

/// Bytes of scratch memory that convolve_depthwise needs.
template <class T>
constexpr std::size_t convolve_depthwise_scratch(const Convolution &c) {
  return scratch_bytes<Tap>(max_taps(c)) + scratch_bytes<T>(repeated_elements(c));
}

/// Computes a convolution for which is_depthwise holds; see `convolution`.
template <class T>
MODELWHEEL_NOINLINE void convolve_depthwise(const Convolution &c, const T *in, const T *kernel, T *out, void *memory,
                                            const Epilogue<T> *epilogue) {
  Scratch scratch(memory);
  Tap *taps = scratch.take<Tap>(max_taps(c));
  T *repeated = scratch.take<T>(0);
  for (std::int64_t image = 0; image < c.batch; ++image, in += c.in_batch, out += c.out_batch) {
    Axes axes = axes_of(c);
    const T *from = in;
    if (c.out_features != c.in_features) {
      repeat_features(c, axes, in, repeated);
      from = repeated;
    }
    for (std::int64_t z = 0; z < axes.axis[0].out_size; ++z)
      for (std::int64_t y = 0; y < axes.axis[1].out_size; ++y)
        DepthwiseRow<T>(axes, z, y, from, kernel, out, c.out_features, taps, epilogue).run();
  }
}

extern template void convolve_depthwise(const Convolution &, const float *, const float *, float *, void *,
                                        const Epilogue<float> *);
extern template void convolve_depthwise(const Convolution &, const double *, const double *, double *, void *,
                                        const Epilogue<double> *);

}  // namespace modelwheel::MODELWHEEL_LEVEL
