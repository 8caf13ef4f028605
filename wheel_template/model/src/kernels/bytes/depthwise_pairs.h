// src/kernels/bytes/depthwise_pairs.h - depthwise convolutions of 8-bit integers by products of pairs of 16 bits.
//
// An instruction multiplies two neighbouring 16-bit integers of 8 features by two weights of each, and adds them. So
// taps of two lines become neighbours. What is loaded for a pixel is used by all outputs of a tile whose windows have
// it.
#pragma once

#include "kernels/bytes/windows.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Features of two vectors of pairs.
inline constexpr int kPairFeatures = 16;

/// Whether CPUs of this level have the instructions.
#if defined(__AVX2__)
inline constexpr bool kHasPairs = true;
#else
inline constexpr bool kHasPairs = false;
#endif

/// Whether there is code for the windows, and a vector of features.
constexpr bool has_pairs(const Convolution &c) {
  const Axes axes = axes_of(c);
  const Axis &x = axes.axis[2];
  return kHasPairs && c.in_features >= kPairFeatures && x.kernel_dilation == 1 &&
         (x.kernel_size == 3 || x.kernel_size == 5) && (x.stride == 1 || x.stride == 2);
}

/// Pixels of a line of the input, with padding.
constexpr std::int64_t pair_pixels(const Axis &x) { return (x.out_size - 1) * x.stride + x.kernel_size; }

/// 16-bit integers of the weights of a vector of features, in pairs of lines.
constexpr std::int64_t pair_weights(const Axis &y, const Axis &x) {
  return divide_up(y.kernel_size, std::int64_t{2}) * x.kernel_size * 2 * kPairFeatures;
}

/// Bytes of scratch memory of `DepthwisePairs` for so many lines of outputs of so many features.
constexpr std::size_t depthwise_pairs_scratch(const Convolution &c, std::int64_t lines, std::int64_t features) {
  const Axes axes = axes_of(c);
  const Axis &y = axes.axis[1], &x = axes.axis[2];
  return scratch_bytes<std::int16_t>(pair_weights(y, x)) +
         scratch_bytes<std::int8_t>(lines_read(y, lines) * pair_pixels(x) * features);
}

#if defined(__AVX2__)
/// Bytes that stay as they are.
struct PlainBytes {
  using Left = std::int8_t;
  static constexpr bool kMoved = false;
  static MODELWHEEL_INLINE Left left(std::int8_t value) { return value; }
};

/// A depthwise convolution, of which some lines of some features are computed at a time.
class DepthwisePairs {
 public:
  DepthwisePairs(const Convolution &c, std::int8_t padding, const std::int8_t *kernel, void *memory)
      : c_(c), axes_(axes_of(c)), padding_(padding), kernel_(kernel) {
    Scratch scratch(memory);
    weights_ = scratch.take<std::int16_t>(pair_weights(axes_.axis[1], axes_.axis[2]));
    pixels_ = scratch.take<std::int8_t>(0);
  }

  /// Computes some lines of outputs of an image, whose pixels are `step` sums apart; there is a vector of `features`.
  MODELWHEEL_NOINLINE void lines(const std::int8_t *image, Range outputs, Range features, std::int32_t *out,
                                 std::int64_t step) const {
    const Axis &y = axes_.axis[1], &x = axes_.axis[2];
    const std::int64_t first = window_start(y, outputs.begin), count = lines_read(y, length(outputs));
    const std::int64_t each = length(features), line = pair_pixels(x) * each;
    for (std::int64_t i = 0; i < count; ++i) {
      const bool inside = first + i >= 0 && first + i < y.in_size;
      pack_line<PlainBytes>(x, each, inside ? image + (first + i) * y.in_step + features.begin : nullptr,
                            pair_pixels(x), padding_, pixels_ + i * line);
    }
    // The last vector of features may overlap the one before.
    for (std::int64_t next = 0; next < each; next += kPairFeatures) {
      const std::int64_t f = smaller_of(next, each - kPairFeatures);
      pack_weights(features.begin + f);
      for (std::int64_t j = 0; j < length(outputs); ++j)
        compute(
            {pixels_ + j * y.stride * line + f, line * y.kernel_dilation, each, out + j * x.out_size * step + f, step});
    }
  }

 private:
  using Words = Vector<std::int16_t, kPairFeatures>;

  /// A line of outputs of a vector of features, and the first line of its input.
  struct Line {
    const std::int8_t *in;
    std::int64_t next_line, next_pixel;
    std::int32_t *out;
    std::int64_t step;
  };

  static MODELWHEEL_INLINE __m256i words_at(const std::int8_t *from) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from)));
  }

  /// The weights of a tap in two lines as neighbours: features 0 to 3 and 8 to 11, then the others.
  void pack_weights(std::int64_t feature) const {
    const Axis &y = axes_.axis[1], &x = axes_.axis[2];
    std::int16_t *to = weights_;
    for (std::int64_t i = 0; i < y.kernel_size; i += 2)
      for (std::int64_t k = 0; k < x.kernel_size; ++k, to += 2 * kPairFeatures) {
        const std::int8_t *const from = kernel_ + (i * x.kernel_size + k) * c_.in_features + feature;
        const __m256i upper = words_at(from);
        const __m256i lower =
            i + 1 < y.kernel_size ? words_at(from + x.kernel_size * c_.in_features) : _mm256_setzero_si256();
        store<std::int16_t, kPairFeatures>(to, reinterpret_cast<Words>(_mm256_unpacklo_epi16(upper, lower)));
        store<std::int16_t, kPairFeatures>(to + kPairFeatures,
                                           reinterpret_cast<Words>(_mm256_unpackhi_epi16(upper, lower)));
      }
  }

  void compute(const Line &line) const {
    const Axis &x = axes_.axis[2];
    if (x.kernel_size == 3)
      x.stride == 1 ? tiles<3, 1>(line) : tiles<3, 2>(line);
    else
      x.stride == 1 ? tiles<5, 1>(line) : tiles<5, 2>(line);
  }

  /// All outputs in tiles, of which the last may overlap the one before.
  template <int Taps, int Stride>
  void tiles(const Line &line) const {
    constexpr int kPixels = 4;
    const std::int64_t count = axes_.axis[2].out_size;
    if (count < kPixels) {
      for (std::int64_t i = 0; i < count; ++i) tile<Taps, Stride, 1>(line, i);
      return;
    }
    for (std::int64_t i = 0; i < count; i += kPixels) tile<Taps, Stride, kPixels>(line, smaller_of(i, count - kPixels));
  }

  template <int Taps, int Stride, int Pixels>
  MODELWHEEL_INLINE void tile(const Line &line, std::int64_t first) const {
    __m256i sums[Pixels][2] = {};
    const std::int8_t *in = line.in + first * Stride * line.next_pixel;
    const std::int16_t *weights = weights_;
    for (std::int64_t left = axes_.axis[1].kernel_size; left > 0;
         left -= 2, in += 2 * line.next_line, weights += Taps * 2 * kPairFeatures)
      add_pair<Taps, Stride, Pixels>(in, left > 1 ? line.next_line : 0, line.next_pixel, weights, sums);
    std::int32_t *out = line.out + first * line.step;
    MODELWHEEL_UNROLL
    for (int i = 0; i < Pixels; ++i, out += line.step) {
      auto *const to = reinterpret_cast<__m256i *>(out);
      _mm256_storeu_si256(to, _mm256_permute2x128_si256(sums[i][0], sums[i][1], 0x20));
      _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(sums[i][0], sums[i][1], 0x31));
    }
  }

  /// Adds the products of two lines of taps; those of a line by itself have weights of 0 for the second.
  template <int Taps, int Stride, int Pixels>
  static MODELWHEEL_INLINE void add_pair(const std::int8_t *in, std::int64_t next_line, std::int64_t next_pixel,
                                         const std::int16_t *weights, __m256i (&sums)[Pixels][2]) {
    // More steps than MODELWHEEL_UNROLL is for.
#pragma GCC unroll 16
    for (int x = 0; x < (Pixels - 1) * Stride + Taps; ++x, in += next_pixel) {
      const __m256i upper = words_at(in), lower = words_at(in + next_line);
      const __m256i low = _mm256_unpacklo_epi16(upper, lower), high = _mm256_unpackhi_epi16(upper, lower);
      MODELWHEEL_UNROLL
      for (int k = 0; k < Taps; ++k) {
        if (x < k || (x - k) % Stride != 0 || (x - k) / Stride >= Pixels) continue;
        const auto *const of_tap = reinterpret_cast<const __m256i *>(weights + k * 2 * kPairFeatures);
        __m256i(&sum)[2] = sums[(x - k) / Stride];
        sum[0] = _mm256_add_epi32(sum[0], _mm256_madd_epi16(low, _mm256_loadu_si256(of_tap)));
        sum[1] = _mm256_add_epi32(sum[1], _mm256_madd_epi16(high, _mm256_loadu_si256(of_tap + 1)));
      }
    }
  }

  const Convolution &c_;
  const Axes axes_;
  const std::int8_t padding_;
  const std::int8_t *const kernel_;
  std::int16_t *weights_;
  std::int8_t *pixels_;
};
#endif

}  // namespace modelwheel::MODELWHEEL_LEVEL
