// src/kernels/convolution/generic.h - convolutions of element types that have no fast path.
#pragma once

#include "kernels/base/numeric.h"
#include "kernels/convolution/method.h"
#include "kernels/convolution/shape.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// The input element under a tap, or -1 if that is padding or an inserted zero.
inline std::int64_t element_under(const Axis &a, std::int64_t out, std::int64_t tap) {
  const std::int64_t position = window_start(a, out) + tap * a.kernel_dilation;
  if (position < 0 || position % a.base_dilation != 0) return -1;
  const std::int64_t element = position / a.base_dilation;
  return element < a.in_size ? element : -1;
}

/// `Width` output features of one window: adds the products along the innermost spatial axis and the features.
template <int Width, class T>
MODELWHEEL_INLINE void add_products(const Convolution &c, const Axis &axis, std::int64_t x, const T *in,
                                    const T *kernel, typename Sum<T>::type (&sum)[Width]) {
  for (std::int64_t tap = 0; tap < axis.kernel_size; ++tap) {
    const std::int64_t element = element_under(axis, x, tap);
    if (element < 0) continue;
    for (std::int64_t f = 0; f < c.in_features / c.groups; ++f) {
      const auto left = widen(in[element * axis.in_step + f * c.in_feature]);
      const T *right = kernel + tap * axis.tap_step + f * c.kernel_in;
      for (int j = 0; j < Width; ++j) sum[j] += left * widen(right[j * c.kernel_out]);
    }
  }
}

/// `Width` output features of one window.
template <int Width, class T>
MODELWHEEL_INLINE void window_generic(const Convolution &c, const Axes &axes, const std::int64_t *at, const T *in,
                                      const T *kernel, T *out) {
  const Axis(&axis)[kAxes] = axes.axis;
  typename Sum<T>::type sum[Width] = {};
  for (std::int64_t z = 0; z < axis[0].kernel_size; ++z)
    for (std::int64_t y = 0; y < axis[1].kernel_size; ++y) {
      const std::int64_t plane = element_under(axis[0], at[0], z), row = element_under(axis[1], at[1], y);
      if (plane < 0 || row < 0) continue;
      add_products<Width>(c, axis[2], at[2], in + plane * axis[0].in_step + row * axis[1].in_step,
                          kernel + z * axis[0].tap_step + y * axis[1].tap_step, sum);
    }
  for (int j = 0; j < Width; ++j) narrow(sum[j], out[j * c.out_feature]);
}

/// All output features of one group in one window.
template <class T>
void features_generic(const Convolution &c, const Axes &axes, const std::int64_t *at, const T *in, const T *kernel,
                      T *out) {
  const std::int64_t features = c.out_features / c.groups;
  std::int64_t j = 0;
  for (; j + 8 <= features; j += 8)
    window_generic<8>(c, axes, at, in, kernel + j * c.kernel_out, out + j * c.out_feature);
  for (; j < features; ++j) window_generic<1>(c, axes, at, in, kernel + j * c.kernel_out, out + j * c.out_feature);
}

/// Computes any convolution.
template <class T>
MODELWHEEL_NOINLINE void convolve_generic(const Convolution &c, const T *in, const T *kernel, T *out) {
  const Axes axes = axes_of(c);
  const Axis(&axis)[kAxes] = axes.axis;
  kernel += axis[0].first_tap + axis[1].first_tap + axis[2].first_tap;
  for (std::int64_t image = 0; image < c.batch; ++image)
    for (std::int64_t group = 0; group < c.groups; ++group) {
      const T *from = in + image * c.in_batch + group * (c.in_features / c.groups) * c.in_feature;
      const T *filters = kernel + group * (c.out_features / c.groups) * c.kernel_out;
      T *to = out + image * c.out_batch + group * (c.out_features / c.groups) * c.out_feature;
      for (std::int64_t z = 0; z < axis[0].out_size; ++z)
        for (std::int64_t y = 0; y < axis[1].out_size; ++y)
          for (std::int64_t x = 0; x < axis[2].out_size; ++x) {
            const std::int64_t at[kAxes] = {z, y, x};
            features_generic(c, axes, at, from, filters,
                             to + z * axis[0].out_step + y * axis[1].out_step + x * axis[2].out_step);
          }
    }
}

/// Any convolution of elements that have no other method.
struct GenericMethod : ConvolutionMethod {
  static constexpr bool kIsDirect = true;
  template <class T>
  static constexpr bool kFor = !kHasGemm<T>;

  template <class T>
  static constexpr bool prefers(const Convolution &) {
    return true;
  }

  template <class T>
  static constexpr std::size_t scratch(const Convolution &) {
    return 0;
  }

  template <class T>
  static void compute(const Convolution &c, const T *in, const T *kernel, T *out, void *, const Epilogue<T> *) {
    convolve_generic(c, in, kernel, out);
  }

  template <class T>
  MODELWHEEL_COLD static constexpr bool same_bits(const Convolution &whole, const Convolution &part) {
    return part.out_features == whole.out_features;
  }
};

}  // namespace modelwheel::MODELWHEEL_LEVEL
