// src/kernels/bytes/depthwise_quads.h - depthwise convolutions of 8-bit integers by AVX512-VNNI.
//
// An instruction multiplies four bytes of 16 features by four weights of each. So four taps of a line become
// neighbours: for each output, a quad of every feature, from which the next one follows by shifting new bytes in. Lines
// of outputs read the same quads, of which those of 16 features at a time stay in the first-level cache.
#pragma once

#include "kernels/bytes/windows.h"
#include "kernels/elementwise/typed.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Features of a vector of quads.
inline constexpr int kQuadFeatures = 16;

/// Quads of the taps along the last axis.
constexpr std::int64_t quads_of(const Axis &x) { return divide_up(x.kernel_size, std::int64_t{kQuad}); }

/// Whether CPUs of this level may have the instructions.
#if defined(__AVX512BW__)
inline constexpr bool kMayHaveQuads = true;
#else
inline constexpr bool kMayHaveQuads = false;
#endif

/// Whether there is a vector of features, and taps are neighbours.
constexpr bool has_quads(const Convolution &c) {
  constexpr std::int64_t kMostQuads = 16;
  const Axes axes = axes_of(c);
  const Axis &y = axes.axis[1], &x = axes.axis[2];
  return kMayHaveQuads && c.in_features >= kQuadFeatures && x.kernel_dilation == 1 &&
         y.kernel_size * quads_of(x) <= kMostQuads;
}

/// Pixels of a line of the input, with padding, from which all quads are.
constexpr std::int64_t quad_pixels(const Axis &x) { return (x.out_size - 1) * x.stride + quads_of(x) * kQuad; }

/// Bytes of scratch memory of `DepthwiseQuads` for so many lines of outputs.
constexpr std::size_t depthwise_quads_scratch(const Convolution &c, std::int64_t lines) {
  if (!has_quads(c)) return 0;
  const Axes axes = axes_of(c);
  const Axis &y = axes.axis[1], &x = axes.axis[2];
  const std::int64_t needed = lines_read(y, lines), each = kQuadFeatures * quads_of(x);
  return scratch_bytes<std::uint32_t>(each * y.kernel_size) + scratch_bytes<std::uint32_t>(needed * each * x.out_size) +
         scratch_bytes<std::uint8_t>(needed * quad_pixels(x) * c.in_features);
}

#if defined(__AVX512BW__)
/// A depthwise convolution, of which some lines are computed at a time.
class DepthwiseQuads {
 public:
  DepthwiseQuads(const Convolution &c, std::int8_t padding, const std::int8_t *kernel, std::int64_t most, void *memory)
      : c_(c), axes_(axes_of(c)), padding_(padding), kernel_(kernel) {
    const Axis &y = axes_.axis[1], &x = axes_.axis[2];
    Scratch scratch(memory);
    weights_ = scratch.take<std::uint32_t>(kVector * quads_of(x) * y.kernel_size);
    quads_ = scratch.take<std::uint32_t>(lines_read(y, most) * line());
    pixels_ = scratch.take<std::uint8_t>(0);
  }

  /// Computes some lines of outputs of an image, whose rows are dense.
  MODELWHEEL_NOINLINE void lines(const std::int8_t *image, Range outputs, std::int32_t *out) const {
    const Axis &y = axes_.axis[1], &x = axes_.axis[2];
    const std::int64_t first = window_start(y, outputs.begin), count = lines_read(y, length(outputs));
    const std::int64_t pixels = quad_pixels(x) * c_.in_features, row = x.out_size * c_.in_features;
    for (std::int64_t i = 0; i < count; ++i) {
      const bool inside = first + i >= 0 && first + i < y.in_size;
      pack_line<BytesVnni>(x, c_.in_features, inside ? image + (first + i) * y.in_step : nullptr, quad_pixels(x),
                           padding_, pixels_ + i * pixels);
    }
    // The last vector of features may overlap the one before.
    for (std::int64_t f = 0; f < c_.in_features; f += kVector) {
      const std::int64_t at = smaller_of(f, c_.in_features - kVector);
      const Sums more = pack_weights(at);
      for (std::int64_t i = 0; i < count; ++i) pack_quads(pixels_ + i * pixels + at, quads_ + i * line());
      for (std::int64_t j = 0; j < length(outputs); ++j)
        compute(quads_ + j * y.stride * line(), more, out + j * row + at);
    }
  }

 private:
  static constexpr int kVector = kQuadFeatures;
  using Quads = Vector<std::uint32_t, kVector>;
  using Sums = Vector<std::int32_t, kVector>;

  /// Elements of the quads of a line of outputs.
  std::int64_t line() const { return quads_of(axes_.axis[2]) * axes_.axis[2].out_size * kVector; }

  static MODELWHEEL_INLINE Quads bytes_at(const std::uint8_t *from) {
    return converted<std::uint32_t, kVector>(load<std::uint8_t, kVector>(from));
  }

  /// Four taps of each feature in one place; returns what sums have too much because the input is moved by 128.
  Sums pack_weights(std::int64_t feature) const {
    const Axis &y = axes_.axis[1], &x = axes_.axis[2];
    Sums sum{};
    std::uint32_t *to = weights_;
    for (std::int64_t i = 0; i < y.kernel_size; ++i)
      for (std::int64_t k = 0; k < x.kernel_size; k += kQuad, to += kVector) {
        Quads quads{};
        for (std::int64_t t = k; t < smaller_of(k + kQuad, x.kernel_size); ++t) {
          const std::int8_t *const from = kernel_ + (i * x.kernel_size + t) * c_.in_features + feature;
          sum += converted<std::int32_t, kVector>(load<std::int8_t, kVector>(from));
          quads |= bytes_at(reinterpret_cast<const std::uint8_t *>(from)) << static_cast<std::uint32_t>((t - k) * 8);
        }
        store<std::uint32_t, kVector>(to, quads);
      }
    return sum * splat<std::int32_t, kVector>(-128);
  }

  /// The quads of each output that reads a line, of a vector of features.
  void pack_quads(const std::uint8_t *from, std::uint32_t *to) const {
    const Axis &x = axes_.axis[2];
    const std::int64_t features = c_.in_features, count = x.out_size;
    for (std::int64_t k = 0; k < quads_of(x); ++k, from += kQuad * features, to += count * kVector) {
      if (x.stride == 1)
        shift_in<1>(from, count, features, to);
      else if (x.stride == 2)
        shift_in<2>(from, count, features, to);
      else
        for (std::int64_t i = 0; i < count; ++i)
          shift_in<1>(from + i * x.stride * features, 1, features, to + i * kVector);
    }
  }

  /// Quads in so many places, `Stride` pixels apart.
  template <int Stride>
  static MODELWHEEL_INLINE void shift_in(const std::uint8_t *from, std::int64_t count, std::int64_t features,
                                         std::uint32_t *to) {
    Quads quads{};
    for (int t = 0; t < kQuad; ++t, from += features) quads = quads >> 8 | bytes_at(from) << 24;
    for (;; to += kVector) {
      store<std::uint32_t, kVector>(to, quads);
      if (--count == 0) break;
      MODELWHEEL_UNROLL
      for (int t = 0; t < Stride; ++t, from += features) quads = quads >> 8 | bytes_at(from) << 24;
    }
  }

  /// A line of outputs of a vector of features.
  void compute(const std::uint32_t *quads, Sums more, std::int32_t *out) const {
    const Axis &y = axes_.axis[1], &x = axes_.axis[2];
    const std::int64_t next = y.kernel_dilation * line(), count = quads_of(x);
    if (y.kernel_size == 3 && count == 1) return compute_taps<3>(quads, next, more, out);
    for (std::int64_t i = 0; i < x.out_size; ++i, quads += kVector, out += c_.in_features) {
      __m512i sums = reinterpret_cast<__m512i>(more);
      const std::uint32_t *weights = weights_;
      for (std::int64_t r = 0; r < y.kernel_size; ++r)
        for (std::int64_t q = 0; q < count; ++q, weights += kVector)
          BytesVnni::add(sums, _mm512_loadu_si512(quads + r * next + q * x.out_size * kVector),
                         _mm512_loadu_si512(weights));
      _mm512_storeu_si512(out, sums);
    }
  }

  /// A line of outputs of one quad in each of few lines, whose weights stay in registers.
  template <int Taps>
  void compute_taps(const std::uint32_t *quads, std::int64_t next, Sums more, std::int32_t *out) const {
    const std::int64_t features = c_.in_features, count = axes_.axis[2].out_size;
    __m512i weights[Taps];
    MODELWHEEL_UNROLL
    for (int t = 0; t < Taps; ++t) weights[t] = _mm512_loadu_si512(weights_ + t * kVector);
    for (std::int64_t i = 0; i < count; ++i, quads += kVector, out += features) {
      __m512i sums = reinterpret_cast<__m512i>(more);
      MODELWHEEL_UNROLL
      for (int t = 0; t < Taps; ++t) BytesVnni::add(sums, _mm512_loadu_si512(quads + t * next), weights[t]);
      _mm512_storeu_si512(out, sums);
    }
  }

  const Convolution &c_;
  const Axes axes_;
  const std::int8_t padding_;
  const std::int8_t *const kernel_;
  std::uint32_t *weights_;
  std::uint32_t *quads_;
  std::uint8_t *pixels_;
};
#endif

}  // namespace modelwheel::MODELWHEEL_LEVEL
