// src/kernels/convolution/adjacent.h - convolutions with few output features and wide windows: adjacent outputs as one.
//
// Eight features fill half of a vector of AVX-512, and with one vector of columns a product reads a number for each
// multiplication. Seen as one output with the features of all, some adjacent outputs fill two vectors. Their window is
// wider by the distance of the outputs, with zeros in the filters where the window of each of them does not reach;
// results are in memory as before.
//
// A zero times infinity is not a number: images with such results are computed again as they are.
#pragma once

#include "kernels/convolution/method.h"
#include "kernels/convolution/windows.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Fewest outputs of an image, each of some adjacent ones, that are worth the wider filters.
inline constexpr std::int64_t kFewestAdjacent = 32;
/// Most bytes of the wider filters: every tile of outputs reads them all.
inline constexpr std::int64_t kAdjacentBytes = 128 * 1024;

/// How many per cent of the peak products with so many columns reach, about.
template <class T>
constexpr std::int64_t rate_of_columns(std::int64_t columns) {
  if (columns >= 2 * kLanes<T>) return 82;
  if (columns >= kLanes<T>) return kVectorRegisters == 32 ? 69 : 72;
  return 40 * columns / kLanes<T> * (kLanes<T> > 8 ? 2 : 1);
}

/// The convolution with `count` adjacent outputs as one, its filters dense.
constexpr Convolution with_adjacent(Convolution c, std::int64_t count) {
  const std::int64_t last = c.rank - 1;
  c.kernel_size[last] += (count - 1) * c.stride[last];
  c.stride[last] *= count;
  c.out_size[last] /= count;
  c.out_spatial[last] *= count;
  c.out_features *= count;
  c.panel = 0;
  c.kernel_out = 1;
  c.kernel_in = c.out_features;
  std::int64_t step = c.in_features * c.out_features;
  for (std::int64_t axis = last; axis >= 0; step *= c.kernel_size[axis--]) {
    c.kernel_spatial[axis] = step;
    c.reversed[axis] = false;
  }
  return c;
}

/// Elements of its filters.
constexpr std::int64_t adjacent_filters(const Convolution &wide) {
  return wide.kernel_size[0] * wide.kernel_spatial[0];
}

/// How many per cent of the peak the convolution reaches, about, with `count` adjacent outputs as one.
template <class T>
constexpr std::int64_t rate_of_adjacent(const Convolution &c, std::int64_t count) {
  const Convolution wide = with_adjacent(c, count);
  const std::int64_t last = c.rank - 1;
  return rate_of_columns<T>(wide.out_features) * c.kernel_size[last] / wide.kernel_size[last];
}

/// How many outputs that are adjacent along the last axis are computed as one; 1 where that gains nothing. It depends
/// on one image alone.
template <class T>
constexpr std::int64_t adjacent_outputs(const Convolution &c) {
  if (c.rank == 0 || c.groups != 1 || c.out_feature != 1 || c.out_features >= 2 * kLanes<T>) return 1;
  const std::int64_t last = c.rank - 1, size = c.out_size[last];
  if (c.out_spatial[last] != c.out_features || c.kernel_dilation[last] != 1 || c.base_dilation[last] != 1) return 1;
  std::int64_t places = 1, best = 1;
  for (std::int64_t axis = 0; axis < c.rank; ++axis) {
    places *= c.out_size[axis];
    if (c.base_dilation[axis] != 1) return 1;
  }
  std::int64_t rate = rate_of_adjacent<T>(c, 1) * 108 / 100;
  for (std::int64_t count = 2; count * c.out_features <= 2 * kLanes<T>; ++count) {
    const std::int64_t columns = count * c.out_features;
    if (size % count != 0 || columns % kLanes<T> != 0 || places < count * kFewestAdjacent) continue;
    const std::int64_t filters = adjacent_filters(with_adjacent(c, count));
    if (filters * static_cast<std::int64_t>(sizeof(T)) > kAdjacentBytes) continue;
    const std::int64_t own = rate_of_adjacent<T>(c, count);
    if (own > rate) {
      rate = own;
      best = count;
    }
  }
  return best;
}

/// Whether convolve_adjacent computes it, if no transforms do.
template <class T>
constexpr bool prefers_adjacent(const Convolution &c) {
  return sizeof(T) == sizeof(float) && adjacent_outputs<T>(c) > 1;
}

/// Bytes of scratch memory that convolve_adjacent needs.
template <class T>
constexpr std::size_t convolve_adjacent_scratch(const Convolution &c) {
  const Convolution wide = with_adjacent(c, adjacent_outputs<T>(c));
  return scratch_bytes<T>(adjacent_filters(wide)) + scratch_bytes<T>(kColumnOperands * wide.out_features) +
         larger_of(convolve_gemm_scratch<T>(c), convolve_gemm_scratch<T>(wide));
}

/// Copies `count` weights that are `step` elements apart.
template <class T>
MODELWHEEL_INLINE void copy_weights(const T *from, std::int64_t step, std::int64_t count, T *to) {
  std::int64_t f = 0;
  if (step == 1)
    for (; f + kPart<T> <= count; f += kPart<T>) store<T, kPart<T>>(to + f, load<T, kPart<T>>(from + f));
  for (; f < count; ++f) to[f] = from[f * step];
}

/// Copies the filters of `count` adjacent outputs, with zeros between and after them: those of each input are `width`
/// elements. Few features are in one panel.
template <class T>
MODELWHEEL_NOINLINE void copy_filters(const Convolution &c, std::int64_t count, std::int64_t width, const T *kernel,
                                      T *to) {
  const Axes axes = axes_of(c);
  const Axis &inner = axes.axis[kAxes - 1];
  const std::int64_t window = inner.kernel_size + (count - 1) * inner.stride, features = c.out_features;
  const std::int64_t taps = axes.axis[0].kernel_size * axes.axis[1].kernel_size * window;
  std::memset(to, 0, static_cast<std::size_t>(taps * c.in_features * width) * sizeof(T));
  for (const Axis &axis : axes.axis) kernel += axis.first_tap;
  for (std::int64_t z = 0; z < axes.axis[0].kernel_size; ++z)
    for (std::int64_t y = 0; y < axes.axis[1].kernel_size; ++y)
      for (std::int64_t x = 0; x < window; ++x, to += c.in_features * width)
        for (std::int64_t i = 0; i < count; ++i) {
          const std::int64_t tap = x - i * inner.stride;
          if (tap < 0 || tap >= inner.kernel_size) continue;
          const T *from = kernel + z * axes.axis[0].tap_step + y * axes.axis[1].tap_step + tap * inner.tap_step;
          for (std::int64_t k = 0; k < c.in_features; ++k)
            copy_weights(from + k * c.kernel_in, c.panel == 0 ? c.kernel_out : 1, features,
                         to + k * width + i * features);
        }
}

/// A value for each feature, for each of `count` adjacent outputs.
template <class T>
const T *repeated(const T *values, std::int64_t features, std::int64_t count, T *to) {
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t f = 0; f < features; ++f) to[i * features + f] = values[f];
  return to;
}

/// The epilogue of rows that have the features of `count` outputs; `to` has room for the values of kColumnOperands
/// rows.
template <class T>
Epilogue<T> with_repeated(const Epilogue<T> &e, std::int64_t features, std::int64_t count, T *to) {
  return with_columns(e, [=](const T *values, int number) {
    return repeated(values, features, count, to + number * features * count);
  });
}

/// Whether all of some numbers are finite.
template <class T>
MODELWHEEL_NOINLINE bool are_finite(const T *from, std::int64_t count) {
  Vector<T> zero{};
  std::int64_t i = 0;
  for (; i + kLanes<T> <= count; i += kLanes<T>) zero += load<T>(from + i) - load<T>(from + i);
  T total = 0;
  for (int lane = 0; lane < kLanes<T>; ++lane) total += zero[lane];
  for (; i < count; ++i) total += from[i] - from[i];
  return total == 0;
}

/// Whether the results at some positions along the first axis are all finite.
template <class T>
bool rows_are_finite(const Convolution &c, std::int64_t rows, const T *result) {
  if (c.rank == 1) return are_finite(result, rows * c.out_features);
  const std::int64_t last = c.rank - 1, runs = c.rank == 3 ? c.out_size[1] : 1;
  bool finite = true;
  for (std::int64_t i = 0; i < runs; ++i)
    finite = finite && are_finite(result + i * c.out_spatial[1], c.out_size[last] * c.out_features);
  return finite;
}

/// Computes again, without zeros between, what is not finite in an image. Each position along the first axis by itself,
/// so that parts of the image have the same bits.
template <class T>
void correct_rows(const Convolution &c, std::int64_t count, const T *in, const T *kernel, T *out, void *scratch,
                  const Epilogue<T> *epilogue) {
  const std::int64_t rows = c.rank == 1 ? count : 1;
  for (std::int64_t y = 0; y < c.out_size[0]; y += rows) {
    T *const to = out + y * c.out_spatial[0];
    if (rows_are_finite(c, rows, epilogue != nullptr ? epilogue->result + (to - epilogue->sums) : to)) continue;
    Convolution part = c;
    part.out_size[0] = rows;
    part.pad_low[0] -= y * c.stride[0];
    convolve_gemm(part, in, kernel, to, scratch, epilogue);
  }
}

/// Computes a convolution of which adjacent_outputs is not 1; see `convolution_by`. The epilogue must not wait.
template <class T>
MODELWHEEL_NOINLINE void convolve_adjacent(const Convolution &c, const T *in, const T *kernel, T *out, void *memory,
                                           const Epilogue<T> *epilogue) {
  const std::int64_t count = adjacent_outputs<T>(c);
  Convolution wide = with_adjacent(c, count), one = c;
  Scratch scratch(memory);
  T *const filters = scratch.take<T>(adjacent_filters(wide));
  T *const columns = scratch.take<T>(kColumnOperands * wide.out_features);
  void *const rest = scratch.take<T>(0);
  copy_filters(c, count, wide.out_features, kernel, filters);
  Epilogue<T> follows{};
  if (epilogue != nullptr) follows = with_repeated(*epilogue, c.out_features, count, columns);
  wide.batch = one.batch = 1;
  for (std::int64_t image = 0; image < c.batch; ++image) {
    const T *const from = in + image * c.in_batch;
    T *const to = out + image * c.out_batch;
    convolve_gemm(wide, from, filters, to, rest, epilogue != nullptr ? &follows : nullptr);
    correct_rows(one, count, from, kernel, to, rest, epilogue);
  }
}

/// Few output features: adjacent outputs as one.
struct AdjacentMethod : ConvolutionMethod {
  template <class T>
  static constexpr bool kFor = kIsFloat<T>;

  template <class T>
  static constexpr bool prefers(const Convolution &c) {
    return prefers_adjacent<T>(c);
  }

  template <class T>
  static constexpr std::size_t scratch(const Convolution &c) {
    return convolve_adjacent_scratch<T>(c);
  }

  template <class T>
  static void compute(const Convolution &c, const T *in, const T *kernel, T *out, void *scratch,
                      const Epilogue<T> *epilogue) {
    convolve_adjacent(c, in, kernel, out, scratch, epilogue);
  }

  template <class T>
  MODELWHEEL_COLD static constexpr bool same_bits(const Convolution &whole, const Convolution &part) {
    const std::int64_t count = adjacent_outputs<T>(whole);
    return count == adjacent_outputs<T>(part) && whole.out_features == part.out_features &&
           pieces_of<T>(with_adjacent(whole, count)).padded == pieces_of<T>(with_adjacent(part, count)).padded;
  }

  /// Adjacent outputs are along the last axis.
  template <class T>
  static constexpr std::int64_t unit(const Convolution &c) {
    return c.rank == 1 ? adjacent_outputs<T>(c) : 1;
  }
};

}  // namespace modelwheel::MODELWHEEL_LEVEL
