// src/kernels/convolution/windows.h - convolutions of floats and doubles as matrix products, without an im2col copy.
//
// Rows are output positions, the inner dimension is the window. A row of windows is evenly spaced in the input, so
// it is multiplied in place; only an input that needs padding is first copied, padded, in pieces that stay in
// cache. A dilated input (transposed convolution) splits into phases that meet no inserted zero.
#pragma once

#include <cstring>

#include "kernels/convolution/method.h"
#include "kernels/convolution/shape.h"
#include "kernels/gemm/gemm.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// How a convolution is cut into pieces: several images, or a range of outputs along the first spatial axis of one.
struct Pieces {
  /// Whether the input is copied with padding.
  bool padded;
  std::int64_t images;
  /// The axis that is cut, and the outputs along it in each piece.
  int axis;
  std::int64_t outs;
  /// Elements of the padded input of a piece; 0 when the input is used in place.
  std::int64_t elements;
};

/// Largest padded piece, unless a single row of outputs needs more: half of a common second-level cache.
inline constexpr std::int64_t kPieceBytes = 512 * 1024;

/// Number of phases of all axes.
constexpr std::int64_t num_phases(const Axes &axes) {
  std::int64_t product = 1;
  for (const Axis &axis : axes.axis) product *= phases_of(axis);
  return product;
}

template <class T>
constexpr Pieces pieces_of(const Convolution &c) {
  const Axes axes = axes_of(c);
  const int first = kAxes - static_cast<int>(c.rank);
  const Axis &cut = axes.axis[first];
  Pieces p{false, c.batch, first, cut.out_size, 0};
  std::int64_t slice = c.in_features;
  for (int a = 0; a < kAxes; ++a) {
    const Axis &axis = axes.axis[a];
    p.padded = p.padded || !within_input(axis);
    if (a != first) slice *= length(input_range(axis, {0, axis.out_size}));
  }
  const std::int64_t limit = kPieceBytes / static_cast<std::int64_t>(sizeof(T));
  const std::int64_t image = slice * length(input_range(cut, {0, cut.out_size}));
  if (!p.padded) {
    // Every phase reads the input again.
    if (num_phases(axes) > 1) p.images = larger_of(limit / larger_of(image, std::int64_t{1}), std::int64_t{1});
    return p;
  }
  if (image <= limit) {
    p.images = smaller_of(c.batch, limit / larger_of(image, std::int64_t{1}));
    p.elements = p.images * image;
    return p;
  }
  // The range of m outputs spans at most ((m - 1) * stride + window) / base_dilation + 1 inputs, wherever it begins.
  const std::int64_t window = (cut.kernel_size - 1) * cut.kernel_dilation;
  const std::int64_t outs = ((limit / slice - 1) * cut.base_dilation - window) / cut.stride + 1;
  p.images = 1;
  p.outs = smaller_of(larger_of(outs, std::int64_t{1}), cut.out_size);
  p.elements = slice * (((p.outs - 1) * cut.stride + window) / cut.base_dilation + 1);
  return p;
}

/// The input as a piece sees it; `origin` is the index of the first element along each axis.
template <class T>
struct Source {
  const T *data;
  std::int64_t batch, feature, step[kAxes], origin[kAxes];
};

/// Copies `count` elements with all their features.
template <class T>
MODELWHEEL_INLINE T *copy_elements(const Convolution &c, const T *from, std::int64_t step, std::int64_t count, T *to) {
  if (c.in_feature == 1 && (step == c.in_features || count == 1)) {
    std::memcpy(to, from, static_cast<std::size_t>(count * c.in_features) * sizeof(T));
    return to + count * c.in_features;
  }
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t f = 0; f < c.in_features; ++f) *to++ = from[i * step + f * c.in_feature];
  return to;
}

template <class T>
MODELWHEEL_INLINE T *zeros(T *to, std::int64_t count) {
  if (count > 0) std::memset(to, 0, static_cast<std::size_t>(count) * sizeof(T));
  return to + larger_of(count, std::int64_t{0});
}

/// Copies the given ranges of some images, zero where they leave the input, features contiguous.
template <class T>
MODELWHEEL_NOINLINE void copy_padded(const Convolution &c, const Axes &axes, const T *in, std::int64_t images,
                                     const Range *ranges, T *to) {
  const Axis &inner = axes.axis[2];
  const Range x = ranges[2];
  const Range inside{smaller_of(larger_of(x.begin, std::int64_t{0}), x.end),
                     larger_of(smaller_of(x.end, inner.in_size), x.begin)};
  for (std::int64_t image = 0; image < images; ++image)
    for (std::int64_t z = ranges[0].begin; z < ranges[0].end; ++z)
      for (std::int64_t y = ranges[1].begin; y < ranges[1].end; ++y) {
        if (z < 0 || z >= axes.axis[0].in_size || y < 0 || y >= axes.axis[1].in_size || length(inside) == 0) {
          to = zeros(to, length(x) * c.in_features);
          continue;
        }
        const T *row = in + image * c.in_batch + z * axes.axis[0].in_step + y * axes.axis[1].in_step;
        to = zeros(to, (inside.begin - x.begin) * c.in_features);
        to = copy_elements(c, row + inside.begin * inner.in_step, inner.in_step, length(inside), to);
        to = zeros(to, (x.end - inside.end) * c.in_features);
      }
}

/// The padded input of a piece.
template <class T>
Source<T> padded_source(const Convolution &c, const Axes &axes, const T *in, std::int64_t images, const Range *outs,
                        T *buffer) {
  Range ranges[kAxes];
  Source<T> source{buffer, c.in_features, 1, {}, {}};
  for (int a = kAxes - 1; a >= 0; --a) {
    ranges[a] = input_range(axes.axis[a], outs[a]);
    source.origin[a] = ranges[a].begin;
    source.step[a] = source.batch;
    source.batch *= length(ranges[a]);
  }
  copy_padded(c, axes, in, images, ranges, buffer);
  return source;
}

/// One of the nested axes that the inner dimension runs over.
struct InnerAxis {
  std::int64_t count, lhs, rhs;
};

/// Drops axes of one element and merges adjacent axes that are contiguous in memory; returns how many remain.
constexpr int join_axes(InnerAxis *axes, int count) {
  int kept = 0;
  for (int i = 0; i < count; ++i) {
    const InnerAxis axis = axes[i];
    if (axis.count == 1) continue;
    InnerAxis *before = kept > 0 ? &axes[kept - 1] : nullptr;
    if (before != nullptr && before->lhs == axis.count * axis.lhs && before->rhs == axis.count * axis.rhs)
      *before = {before->count * axis.count, axis.lhs, axis.rhs};
    else
      axes[kept++] = axis;
  }
  if (kept == 0) axes[kept++] = {1, 0, 0};
  return kept;
}

/// Splits the inner dimension into the longest axis, which the tile walks, and a segment for each element of the rest.
inline void split_inner(Gemm &g, InnerAxis *axes, int count, Segment *segments) {
  count = join_axes(axes, count);
  int longest = count - 1;
  for (int i = 0; i < count; ++i)
    if (axes[i].count > axes[longest].count) longest = i;
  g.depth = larger_of(axes[longest].count, std::int64_t{1});
  g.lhs_k = axes[longest].lhs;
  g.rhs_k = axes[longest].rhs;
  g.segments = segments;
  g.num_segments = axes[longest].count > 0 ? 1 : 0;
  segments[0] = {0, 0};
  for (int i = 0; i < count; ++i) {
    if (i == longest) continue;
    // Backwards, so that the source of every segment is read before it is overwritten.
    for (std::int64_t s = g.num_segments - 1; s >= 0; --s)
      for (std::int64_t k = axes[i].count - 1; k >= 0; --k)
        segments[s * axes[i].count + k] = {segments[s].lhs + k * axes[i].lhs, segments[s].rhs + k * axes[i].rhs};
    g.num_segments *= axes[i].count;
  }
}

/// Most segments that split_inner makes.
constexpr std::int64_t max_segments(const Convolution &c) {
  std::int64_t product = c.in_features / c.groups, longest = product;
  for (const Axis &axis : axes_of(c).axis) {
    product *= axis.kernel_size;
    longest = larger_of(longest, axis.kernel_size);
  }
  return larger_of(product / larger_of(longest, std::int64_t{1}), std::int64_t{1});
}

/// Elements of the inner dimension of each output.
constexpr std::int64_t window_elements(const Convolution &c) {
  std::int64_t product = c.in_features / c.groups;
  for (const Axis &axis : axes_of(c).axis) product *= axis.kernel_size;
  return product;
}

/// Computes one phase of one group of a piece.
template <class T>
void convolve_phase(const Convolution &c, const Axes &axes, const Phase *phases, const Source<T> &source,
                    std::int64_t images, std::int64_t group, const T *kernel, T *out, Segment *segments, T *scratch,
                    const Epilogue<T> *epilogue) {
  const std::int64_t features = c.in_features / c.groups;
  Gemm g{};
  g.n = c.out_features / c.groups;
  g.rhs_n = c.kernel_out;
  g.panel = c.panel;
  g.out_n = c.out_feature;
  g.panel = c.panel;
  g.rows[0] = {images, source.batch, c.out_batch};
  InnerAxis inner[kAxes + 1];
  const T *lhs = source.data + group * features * source.feature, *rhs = kernel + group * g.n * c.kernel_out;
  out += group * g.n * c.out_feature;
  for (int a = 0; a < kAxes; ++a) {
    const Phase &p = phases[a];
    const Axis &axis = axes.axis[a];
    g.rows[a + 1] = {p.outs, p.in_per_out * source.step[a], p.out_stride * axis.out_step};
    inner[a] = {p.taps, p.in_per_tap * source.step[a], p.tap_stride * axis.tap_step};
    lhs += (p.first_in - source.origin[a]) * source.step[a];
    rhs += axis.first_tap + p.first_tap * axis.tap_step;
    out += p.first_out * axis.out_step;
  }
  inner[kAxes] = {features, source.feature, c.kernel_in};
  split_inner(g, inner, kAxes + 1, segments);
  gemm(g, lhs, rhs, out, scratch, epilogue);
}

/// Computes the outputs of some images in the given ranges.
template <class T>
void convolve_piece(const Convolution &c, const Axes &axes, const Range *outs, const Source<T> &source,
                    std::int64_t images, const T *kernel, T *out, Segment *segments, T *scratch,
                    const Epilogue<T> *epilogue) {
  const Axis *axis = axes.axis;
  for (std::int64_t group = 0; group < c.groups; ++group) {
    Epilogue<T> of_group{};
    if (epilogue != nullptr) of_group = from_column(*epilogue, group * (c.out_features / c.groups));
    for (std::int64_t z = 0; z < phases_of(axis[0]); ++z)
      for (std::int64_t y = 0; y < phases_of(axis[1]); ++y)
        for (std::int64_t x = 0; x < phases_of(axis[2]); ++x) {
          const Phase phases[kAxes] = {phase_of(axis[0], outs[0], z), phase_of(axis[1], outs[1], y),
                                       phase_of(axis[2], outs[2], x)};
          if (phases[0].outs * phases[1].outs * phases[2].outs == 0) continue;
          convolve_phase(c, axes, phases, source, images, group, kernel, out, segments, scratch,
                         epilogue != nullptr ? &of_group : nullptr);
        }
  }
}

/// Places of all images' outputs.
constexpr std::int64_t out_places(const Convolution &c) {
  std::int64_t product = c.batch;
  for (const Axis &axis : axes_of(c).axis) product *= axis.out_size;
  return product;
}

/// Bytes of scratch memory that convolve_gemm needs.
template <class T>
constexpr std::size_t convolve_gemm_scratch(const Convolution &c) {
  return scratch_bytes<Segment>(max_segments(c)) + scratch_bytes<T>(pieces_of<T>(c).elements) +
         scratch_bytes<T>(gemm_scratch<T>(out_places(c), window_elements(c), c.out_features / c.groups, c.panel));
}

/// Computes a convolution of any layout; see `convolution_by`.
template <class T>
MODELWHEEL_NOINLINE void convolve_gemm(const Convolution &c, const T *in, const T *kernel, T *out, void *memory,
                                       const Epilogue<T> *epilogue) {
  const Axes axes = axes_of(c);
  const Pieces pieces = pieces_of<T>(c);
  Scratch scratch(memory);
  Segment *segments = scratch.take<Segment>(max_segments(c));
  T *buffer = scratch.take<T>(pieces.elements);
  T *packed = scratch.take<T>(0);
  Range outs[kAxes] = {{0, axes.axis[0].out_size}, {0, axes.axis[1].out_size}, {0, axes.axis[2].out_size}};
  const std::int64_t end = axes.axis[pieces.axis].out_size;
  for (std::int64_t image = 0; image < c.batch; image += pieces.images)
    for (std::int64_t first = 0; first < end; first += pieces.outs) {
      const std::int64_t images = smaller_of(pieces.images, c.batch - image);
      outs[pieces.axis] = {first, smaller_of(first + pieces.outs, end)};
      const T *from = in + image * c.in_batch;
      const Source<T> in_place{from,
                               c.in_batch,
                               c.in_feature,
                               {axes.axis[0].in_step, axes.axis[1].in_step, axes.axis[2].in_step},
                               {0, 0, 0}};
      const Source<T> source = pieces.padded ? padded_source(c, axes, from, images, outs, buffer) : in_place;
      convolve_piece(c, axes, outs, source, images, kernel, out + image * c.out_batch, segments, packed, epilogue);
    }
}

/// Whether elements follow each other in the input as in a copy of it with padding along the first spatial axis: there
/// are no gaps between them, and the windows reach all of the other axes and nothing more.
constexpr bool is_dense(const Convolution &c) {
  const Axes axes = axes_of(c);
  std::int64_t step = c.in_features;
  bool dense = c.in_feature == 1;
  for (std::int64_t axis = c.rank - 1; axis >= 0; step *= c.in_size[axis--]) {
    dense = dense && (c.in_spatial[axis] == step || c.in_size[axis] == 1);
    const Axis &own = axes.axis[kAxes - c.rank + axis];
    const Range reached = input_range(own, {0, own.out_size});
    dense = dense && (axis == 0 || (reached.begin == 0 && reached.end == own.in_size));
  }
  return dense;
}

/// Any convolution of floats or doubles, as matrix products of its windows.
struct WindowsMethod : ConvolutionMethod {
  static constexpr bool kIsDirect = true;
  template <class T>
  static constexpr bool kFor = kHasGemm<T>;

  template <class T>
  static constexpr bool prefers(const Convolution &) {
    return true;
  }

  template <class T>
  static constexpr std::size_t scratch(const Convolution &c) {
    return convolve_gemm_scratch<T>(c);
  }

  template <class T>
  static void compute(const Convolution &c, const T *in, const T *kernel, T *out, void *scratch,
                      const Epilogue<T> *epilogue) {
    convolve_gemm(c, in, kernel, out, scratch, epilogue);
  }

  /// A part that needs no padding is computed in place; the inner dimension is then walked in another order if the
  /// input has gaps. Of few columns or short filters, gemm_narrow adds the products.
  template <class T>
  MODELWHEEL_COLD static constexpr bool same_bits(const Convolution &whole, const Convolution &part) {
    const bool wide = part.out_features >= 2 * kLanes<T> && part.in_features / part.groups >= kLanes<T>;
    return (is_dense(whole) || pieces_of<T>(whole).padded == pieces_of<T>(part).padded) &&
           (whole.out_features == part.out_features || wide);
  }
};

extern template void convolve_gemm(const Convolution &, const float *, const float *, float *, void *,
                                   const Epilogue<float> *);
extern template void convolve_gemm(const Convolution &, const double *, const double *, double *, void *,
                                   const Epilogue<double> *);

}  // namespace modelwheel::MODELWHEEL_LEVEL
