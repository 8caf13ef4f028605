// src/kernels/bytes/byte_depthwise.h - depthwise convolutions of 8-bit integers, summed in 32 bits.
//
// Instructions for bytes add up neighbouring products, of which a filter for a single feature has none. CPUs with
// AVX512-VNNI multiply quads of taps that are made neighbours, others with AVX2 pairs. For windows or CPUs without
// either, some lines of some features of the input become floats, which hold every sum exactly, and are convolved by
// the kernels for floats while they are in cache. What is outside of images is taken out first: the padding of floats
// is 0.
#pragma once

#include "kernels/bytes/depthwise_pairs.h"
#include "kernels/bytes/depthwise_quads.h"
#include "kernels/convolution/depthwise.h"
#include "kernels/elementwise/typed.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Lines of outputs, and features of them, whose inputs and sums stay in cache.
struct DepthwiseBlock {
  std::int64_t lines, features;
  /// Features of the last block, if less than two vectors would be left for another one, or those of all.
  std::int64_t widest;

  constexpr std::int64_t features_from(std::int64_t begin, std::int64_t end) const {
    return end - begin <= widest ? end - begin : features;
  }
};

/// Bytes of a sum, and of a float.
inline constexpr std::int64_t kSumBytes = 4;

/// Bytes of a feature, if elements of the input have so many: those of each line of outputs with the lines of inputs
/// that it adds, and those of the lines of inputs before.
struct FeatureBytes {
  std::int64_t each, before;
};

constexpr FeatureBytes feature_bytes(const Convolution &c, std::int64_t element) {
  const Axes axes = axes_of(c);
  const Axis &y = axes.axis[1], &x = axes.axis[2];
  const std::int64_t line = element * x.in_size;
  return {y.stride * line + kSumBytes * x.out_size, (y.kernel_size - 1) * y.kernel_dilation * line};
}

/// What a block should have at most.
inline constexpr std::int64_t kDepthwiseBytes = 128 * 1024;

/// Lines of outputs of so many features that fit into a block.
constexpr std::int64_t lines_of_features(const Convolution &c, const FeatureBytes &bytes, std::int64_t features) {
  const std::int64_t fitting = (kDepthwiseBytes / features - bytes.before) / larger_of(bytes.each, std::int64_t{1});
  return smaller_of(axes_of(c).axis[1].out_size, larger_of(fitting, std::int64_t{1}));
}

/// The blocks: of few features if lines are long, because all but the first one have inputs in common with the one
/// before. They begin where two vectors do.
constexpr DepthwiseBlock depthwise_block(const Convolution &c) {
  constexpr std::int64_t kLines = 4, kLeast = 2 * kLanes<float>;
  const FeatureBytes bytes = feature_bytes(c, has_pairs(c) ? 1 : kSumBytes);
  const std::int64_t all = c.in_features, lines = smaller_of(axes_of(c).axis[1].out_size, kLines);
  const std::int64_t fitting = kDepthwiseBytes / larger_of(bytes.before + lines * bytes.each, std::int64_t{1});
  const std::int64_t blocks = divide_up(all, larger_of(fitting / kLeast * kLeast, kLeast));
  const std::int64_t features = blocks == 1 ? all : divide_up(all, blocks * kLeast) * kLeast;
  const std::int64_t left = all % features;
  return {lines_of_features(c, bytes, features), features, features + (left < kLeast ? left : 0)};
}

/// Lines of outputs of all features, for quads.
constexpr std::int64_t quad_block_lines(const Convolution &c) {
  return lines_of_features(c, feature_bytes(c, kSumBytes), c.in_features);
}

/// The input, as dense floats, and the result of some lines of outputs of some features of one image.
struct DepthwiseLines {
  Convolution c;
  /// The first line of the input, and how many there are.
  Range in;
};

constexpr DepthwiseLines depthwise_part(const Convolution &c, Range lines, std::int64_t features) {
  const Axes axes = axes_of(c);
  const Axis &y = axes.axis[1], &x = axes.axis[2];
  const Range spanned = input_range(y, lines);
  const std::int64_t begin = larger_of(smaller_of(spanned.begin, y.in_size), std::int64_t{0});
  const std::int64_t end = larger_of(smaller_of(spanned.end, y.in_size), begin);
  Convolution part{};
  part.batch = 1, part.groups = part.in_features = part.out_features = features, part.rank = 2;
  const Axis *const both[] = {&y, &x};
  for (int d = 0; d < 2; ++d) {
    const Axis &a = *both[d];
    part.in_size[d] = a.in_size, part.kernel_size[d] = a.kernel_size, part.out_size[d] = a.out_size;
    part.stride[d] = a.stride, part.pad_low[d] = a.pad_low;
    part.kernel_dilation[d] = a.kernel_dilation, part.base_dilation[d] = 1;
  }
  part.in_size[0] = end - begin, part.out_size[0] = length(lines);
  part.pad_low[0] = begin - window_start(y, lines.begin);
  part.in_feature = part.kernel_out = part.out_feature = 1;
  part.in_spatial[1] = part.out_spatial[1] = features;
  part.in_spatial[0] = features * x.in_size, part.out_spatial[0] = features * x.out_size;
  part.kernel_in = part.kernel_spatial[1] = c.in_features, part.kernel_spatial[0] = c.in_features * x.kernel_size;
  part.in_batch = part.in_spatial[0] * part.in_size[0], part.out_batch = part.out_spatial[0] * part.out_size[0];
  return {part, {begin, end}};
}

/// Most elements of the input that a block needs.
constexpr std::int64_t depthwise_inputs(const Convolution &c, const DepthwiseBlock &block) {
  const Axes axes = axes_of(c);
  const Axis &y = axes.axis[1];
  return smaller_of(lines_read(y, block.lines), y.in_size) * axes.axis[2].in_size * block.widest;
}

/// Bytes of scratch memory of `byte_depthwise`.
constexpr std::size_t byte_depthwise_scratch(const Convolution &c) {
  const DepthwiseBlock block = depthwise_block(c);
  const std::size_t quads = depthwise_quads_scratch(c, quad_block_lines(c));
  if (has_pairs(c)) return larger_of(depthwise_pairs_scratch(c, block.lines, block.widest), quads);
  const Axes axes = axes_of(c);
  const std::int64_t taps = axes.axis[1].kernel_size * axes.axis[2].kernel_size;
  const std::size_t floats = scratch_bytes<float>(taps * c.in_features) + scratch_bytes<std::int32_t>(c.in_features) +
                             scratch_bytes<float>(depthwise_inputs(c, block)) +
                             convolve_depthwise_scratch<float>(depthwise_part(c, {0, block.lines}, block.widest).c);
  return larger_of(floats, quads);
}

/// Most sums of `byte_depthwise` that are in scratch memory, which are in rows of the features of a block.
constexpr std::int64_t depthwise_sums(const Convolution &c) {
  const DepthwiseBlock block = depthwise_block(c);
  const std::int64_t width = axes_of(c).axis[2].out_size, all = quad_block_lines(c) * width * c.in_features;
  return larger_of(block.lines * width * block.widest + c.in_features, has_quads(c) ? all : 0);
}

/// Bytes less `less`, as floats.
inline void floats_of(const std::int8_t *from, std::int64_t n, std::int32_t less, float *to) {
  constexpr int kVector = kLanes<float>;
  std::int64_t i = 0;
  for (; i + kVector <= n; i += kVector)
    store<float, kVector>(
        to + i, converted<float, kVector>(converted<std::int32_t, kVector>(load<std::int8_t, kVector>(from + i)) -
                                          splat<std::int32_t, kVector>(less)));
  for (; i < n; ++i) to[i] = static_cast<float>(from[i] - less);
}

/// Whole floats plus what all outputs of a feature have more, as integers in their place; `step` is that of rows.
inline void integers_of(float *sums, std::int64_t rows, std::int64_t step, std::int64_t features,
                        const std::int32_t *more) {
  constexpr int kVector = kLanes<float>;
  for (std::int64_t i = 0; i < rows; ++i, sums += step) {
    auto *const out = reinterpret_cast<std::int32_t *>(sums);
    std::int64_t j = 0;
    for (; j + kVector <= features; j += kVector)
      store<std::int32_t, kVector>(out + j, converted<std::int32_t, kVector>(load<float, kVector>(sums + j)) +
                                                load<std::int32_t, kVector>(more + j));
    for (; j < features; ++j) {
      float sum;
      std::memcpy(&sum, sums + j, sizeof sum);
      const std::int32_t whole = static_cast<std::int32_t>(sum) + more[j];
      std::memcpy(sums + j, &whole, sizeof whole);
    }
  }
}

#if defined(__AVX512BW__)
/// `byte_depthwise` of what has quads, on a CPU with AVX512-VNNI.
template <class Sums>
void byte_depthwise_by_quads(const Convolution &c, Range rows, std::int8_t padding, const std::int8_t *in,
                             const std::int8_t *kernel, const Sums &sums, void *memory) {
  const Axes axes = axes_of(c);
  const std::int64_t height = axes.axis[1].out_size, width = axes.axis[2].out_size, most = quad_block_lines(c);
  const DepthwiseQuads quads(c, padding, kernel, most, memory);
  for (std::int64_t line = rows.begin / width; line < rows.end / width;) {
    const std::int64_t first = line % height, left = smaller_of(rows.end / width - line, height - first);
    const std::int64_t count = smaller_of(most, left);
    quads.lines(in + line / height * c.in_batch, {first, first + count}, sums.at(line * width, 0));
    sums.finish(line * width, count * width, {0, c.in_features});
    line += count;
  }
}
#endif

/// The filters as floats, and what all sums of each feature have more because the padding is taken out.
struct DepthwiseFilters {
  float *taps;
  std::int32_t *more;

  void read(const std::int8_t *kernel, std::int64_t count, std::int64_t features, std::int8_t padding) const {
    floats_of(kernel, count * features, 0, taps);
    for (std::int64_t j = 0; j < features; ++j) {
      std::int32_t sum = 0;
      for (std::int64_t t = 0; t < count; ++t) sum += kernel[t * features + j];
      more[j] = sum * padding;
    }
  }
};

/// Some outputs of a block, in one image.
struct DepthwiseOutputs {
  std::int64_t image;
  Range lines, features;
  /// The first row of sums, and how many there are.
  std::int64_t row, count;
};

/// Has `compute` compute all blocks of whole lines of outputs, and finishes their sums.
template <class Sums, class Compute>
MODELWHEEL_INLINE void depthwise_blocks(const Convolution &c, Range rows, const DepthwiseBlock &block, const Sums &sums,
                                        const Compute &compute) {
  const Axes axes = axes_of(c);
  const Axis &y = axes.axis[1], &x = axes.axis[2];
  for (std::int64_t row = rows.begin; row < rows.end;) {
    const std::int64_t image = row / x.out_size / y.out_size, first = row / x.out_size % y.out_size;
    const std::int64_t left = smaller_of((rows.end - row) / x.out_size, y.out_size - first);
    const std::int64_t lines = smaller_of(block.lines, left), count = lines * x.out_size;
    for (std::int64_t j = 0; j < c.in_features;) {
      const Range features{j, j + block.features_from(j, c.in_features)};
      compute(DepthwiseOutputs{image, {first, first + lines}, features, row, count});
      sums.finish(row, count, features);
      j = features.end;
    }
    row += count;
  }
}

/// Computes a convolution in each feature by itself along at most two axes; see `byte_convolution`. The kernel has
/// at most 512 taps, so that floats hold sums exactly, and features last. `given` says where rows of sums go and what
/// follows them. `rows` are whole lines of outputs.
template <class Sums>
void byte_depthwise(const Convolution &c, Range rows, std::int8_t padding, const std::int8_t *in,
                    const std::int8_t *kernel, const Sums &given, void *memory) {
#if defined(__AVX512BW__)
  if (has_quads(c) && has_vnni())
    return byte_depthwise_by_quads(c, rows, padding, in, kernel, given.with_step(c.in_features), memory);
#endif
  const DepthwiseBlock block = depthwise_block(c);
  const auto sums = given.with_step(block.widest);
#if defined(__AVX2__)
  if (has_pairs(c)) {
    const DepthwisePairs pairs(c, padding, kernel, memory);
    return depthwise_blocks(c, rows, block, sums, [&](const DepthwiseOutputs &o) {
      pairs.lines(in + o.image * c.in_batch, o.lines, o.features, sums.at(o.row, o.features.begin), sums.step_m);
    });
  }
#endif
  const Axes axes = axes_of(c);
  const Axis &y = axes.axis[1], &x = axes.axis[2];
  const std::int64_t f = c.in_features, taps = y.kernel_size * x.kernel_size;
  Scratch scratch(memory);
  const DepthwiseFilters filters{scratch.take<float>(taps * f), scratch.take<std::int32_t>(f)};
  auto *const images = scratch.take<float>(depthwise_inputs(c, block));
  void *const own = scratch.take<char>(0);
  filters.read(kernel, taps, f, padding);
  depthwise_blocks(c, rows, block, sums, [&](const DepthwiseOutputs &o) {
    const std::int64_t features = length(o.features), first = o.features.begin;
    DepthwiseLines part = depthwise_part(c, o.lines, features);
    float *to = images;
    for (std::int64_t line = part.in.begin; line < part.in.end; ++line)
      for (std::int64_t i = 0; i < x.in_size; ++i, to += features)
        floats_of(in + o.image * c.in_batch + line * y.in_step + i * x.in_step + first, features, padding, to);
    part.c.out_spatial[1] = sums.step_m, part.c.out_spatial[0] = sums.step_m * x.out_size;
    auto *const out = reinterpret_cast<float *>(sums.at(o.row, first));
    convolve_depthwise<float>(part.c, images, filters.taps + first, out, own, nullptr);
    integers_of(out, o.count, sums.step_m, features, filters.more + first);
  });
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
