// src/kernels/convolution/decomposed_plan.h - how decomposed.h cuts a convolution with long windows, what
// that costs, and which convolutions it computes.
#pragma once

#include "kernels/base/numeric.h"
#include "kernels/base/thresholds.h"
#include "kernels/convolution/adjacent.h"
#include "kernels/convolution/shape.h"
#include "kernels/convolution/winograd_subfilters.h"
#include "kernels/gemm/shape.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Most output features that are computed together: kLineColumns or twice as many are.
inline constexpr std::int64_t kMostLineColumns = 2 * kLineColumns;
/// Most vectors of a tile along the line, and how many filters it then has.
inline constexpr int kLineVectors = 3;
constexpr int line_filters(int vectors) { return kVectorRegisters == 32 || vectors == 1 ? 8 : 4; }
/// Elements between what is written together: at steps of powers of two, it would be in one set of the cache.
inline constexpr std::int64_t kLineGap = 16;
/// Most bytes of transformed filters that are kept for further rows or images, and of transformed inputs.
inline constexpr std::int64_t kLineBytes = 2 * 1024 * 1024;

/// How a convolution is decomposed.
struct DecomposedPlan {
  /// The axis of the line, and the one before it, along which windows are short.
  Axis rows, line;
  /// Features of a place, of as many as the stride has.
  std::int64_t features;
  /// Whole sub-filters of each row of the window, and taps of the last one.
  std::int64_t subs, rest;
  /// Pairs of outputs, in vectors.
  std::int64_t vectors;
  /// Patches of a row of the input for each feature; places of its copy at even places, or at odd ones.
  std::int64_t patches, places;
  /// Whether all filters are kept.
  bool keeps;
};

/// Some of the sub-filters of a row of the window, for some features.
struct LinePiece {
  std::int64_t row, feature, features, sub, subs, taps;

  constexpr std::int64_t count() const { return features * subs; }
};

/// Calls visit(piece) for all of a window.
template <class Visit>
MODELWHEEL_INLINE constexpr void each_piece(const DecomposedPlan &p, const Visit &visit) {
  const std::int64_t parts = divide_up(p.subs, kLineSummed), subs = divide_up(p.subs, parts);
  const std::int64_t most = larger_of(kLineSummed / subs, std::int64_t{1});
  const std::int64_t features = divide_up(p.features, divide_up(p.features, most));
  for (std::int64_t row = 0; row < p.rows.kernel_size; ++row) {
    for (std::int64_t sub = 0; sub < p.subs; sub += subs)
      for (std::int64_t f = 0; f < p.features; f += features)
        visit(LinePiece{row, f, smaller_of(features, p.features - f), sub, smaller_of(subs, p.subs - sub), kSubTaps});
    for (std::int64_t f = 0; p.rest > 0 && f < p.features; f += kLineSummed)
      visit(LinePiece{row, f, smaller_of(kLineSummed, p.features - f), p.subs, 1, p.rest});
  }
}

/// Elements between the filters of one kind and those of the next in so many columns.
constexpr std::int64_t filter_step(const LinePiece &piece, std::int64_t width) {
  return piece.count() * width + kLineGap;
}

/// Elements of the transformed filters of a piece.
constexpr std::int64_t piece_size(const LinePiece &piece, std::int64_t width) {
  return (piece.taps + 1) * filter_step(piece, width);
}

/// Elements of all transformed filters.
constexpr std::int64_t line_filter_elements(const Convolution &c, const DecomposedPlan &p) {
  std::int64_t elements = 0;
  for (std::int64_t column = 0; column < c.out_features; column += kMostLineColumns) {
    const std::int64_t width = smaller_of(kMostLineColumns, c.out_features - column);
    each_piece(p, [&](const LinePiece &piece) { elements += piece_size(piece, width); });
  }
  return elements;
}

template <class T>
constexpr DecomposedPlan decomposed_plan(const Convolution &c) {
  const Axes axes = axes_of(c);
  DecomposedPlan p{};
  p.rows = axes.axis[kAxes - 2];
  p.line = axes.axis[kAxes - 1];
  p.features = c.in_features * p.line.stride;
  p.subs = p.line.kernel_size / p.line.stride / kSubTaps;
  p.rest = p.line.kernel_size / p.line.stride % kSubTaps;
  p.vectors = divide_up(p.line.out_size, std::int64_t{2 * kLanes<T>});
  p.patches = (p.vectors + divide_up(2 * p.subs, std::int64_t{kLanes<T>})) * kLanes<T>;
  // Transforms read two places more, in whole vectors.
  p.places = p.patches + larger_of(kLanes<T>, 4);
  p.keeps =
      c.batch * p.rows.out_size > 1 && line_filter_elements(c, p) <= kLineBytes / static_cast<std::int64_t>(sizeof(T));
  return p;
}

/// Whether convolve_decomposed can compute it.
template <class T>
constexpr bool fits_decomposed(const Convolution &c) {
  const bool is_dense =
      c.groups == 1 && c.in_feature == 1 && c.kernel_out == 1 && c.out_feature == 1 && c.in_features > 0;
  if (!kHasGemm<T> || sizeof(T) != sizeof(float) || !is_dense || (c.rank != 1 && c.rank != 2)) return false;
  if (c.out_features == 0 || c.out_features % kLineColumns != 0) return false;
  const Axes axes = axes_of(c);
  for (const Axis &axis : axes.axis)
    if (axis.kernel_dilation != 1 || axis.base_dilation != 1 || axis.kernel_size == 0 || axis.out_size == 0)
      return false;
  const Axis &rows = axes.axis[kAxes - 2], &line = axes.axis[kAxes - 1];
  if (line.kernel_size % line.stride != 0 || line.kernel_size / line.stride < kLineTaps) return false;
  // Sums of two parts at least: that outweighs the roundings of the transforms.
  const std::int64_t features = c.in_features * line.stride;
  return rows.kernel_size * features * (line.kernel_size / line.stride / kSubTaps) > kLineSummed;
}

/// Elements of the transformed inputs of one row, and of them those of whole sub-filters.
constexpr std::int64_t whole_patches(const DecomposedPlan &p) { return kSubKinds * p.features * p.patches; }
constexpr std::int64_t row_patches(const DecomposedPlan &p) {
  return whole_patches(p) + (p.rest > 0 ? (p.rest + 1) * p.features * p.patches : 0);
}

/// Products of vectors that take as long as transforming a vector of filters, of inputs or of sums, which wait for the
/// second-level cache, and as beginning and ending a tile.
inline constexpr std::int64_t kLineTransformCost = 20 + 5 * kVectorBytes / 8, kLineTileCost = 80;

/// What an image costs by convolve_decomposed, in products of vectors.
template <class T>
constexpr std::int64_t decomposed_cost(const Convolution &c) {
  const DecomposedPlan p = decomposed_plan<T>(c);
  const std::int64_t columns = c.out_features, groups = divide_up(p.vectors, std::int64_t{kLineVectors});
  const std::int64_t tiles = groups * columns / line_filters(static_cast<int>(divide_up(p.vectors, groups)));
  std::int64_t products = 0, filters = 0;
  each_piece(p, [&](const LinePiece &piece) {
    products += (piece.taps + 1) * (piece.count() * p.vectors * columns + tiles * kLineTileCost);
    filters += piece.count() * columns;
  });
  const std::int64_t rows = smaller_of(p.rows.in_size, p.rows.out_size * p.rows.kernel_size);
  if (!p.keeps) filters *= p.rows.out_size;
  const std::int64_t inputs = rows * p.features * p.patches, sums = p.rows.out_size * p.line.out_size * columns;
  // Tiles of one vector have too few sums in flight.
  if (p.vectors == 1) products += products / 4;
  return p.rows.out_size * products + kLineTransformCost * (filters + inputs * 3 / 2 + sums) / kLanes<T>;
}

/// Whether convolve_decomposed computes it: that is measurably faster. The number of images does not matter, so that
/// each has the same bits in any batch.
template <class T>
constexpr bool prefers_decomposed(const Convolution &c) {
  Convolution image = c;
  image.batch = 1;
  if (!fits_decomposed<T>(image)) return false;
  if (c.of_transforms) return true;
  const DecomposedPlan p = decomposed_plan<T>(image);
  if (p.rows.kernel_size * row_patches(p) * static_cast<std::int64_t>(sizeof(T)) > kLineBytes) return false;
  // Products of convolve_gemm with many columns reach so many per cent of the peak.
  const std::int64_t rate = rate_of_columns<T>(2 * kLanes<T>);
  std::int64_t direct = c.in_features * c.out_features;
  for (const Axis &axis : axes_of(image).axis) direct *= axis.out_size * axis.kernel_size;
  direct =
      direct / kLanes<T> * rate / larger_of(rate_of_adjacent<T>(image, adjacent_outputs<T>(image)), std::int64_t{1});
  return 100 * direct >= 105 * decomposed_cost<T>(image);
}

/// Memory of convolve_decomposed, in elements.
struct DecomposedMemory {
  std::int64_t filters, split, inputs, sums;
};

template <class T>
constexpr DecomposedMemory decomposed_memory(const Convolution &c) {
  const DecomposedPlan p = decomposed_plan<T>(c);
  std::int64_t filters = line_filter_elements(c, p);
  if (!p.keeps) {
    filters = 0;
    each_piece(p, [&](const LinePiece &piece) { filters = larger_of(filters, piece_size(piece, kMostLineColumns)); });
  }
  return {filters, 2 * p.features * p.places, p.rows.kernel_size * row_patches(p),
          kSubKinds * kMostLineColumns * p.vectors * kLanes<T>};
}

/// Bytes of scratch memory that convolve_decomposed needs.
template <class T>
constexpr std::size_t convolve_decomposed_scratch(const Convolution &c) {
  const DecomposedMemory m = decomposed_memory<T>(c);
  return scratch_bytes<T>(m.filters) + scratch_bytes<T>(m.split) + scratch_bytes<T>(m.inputs) +
         scratch_bytes<T>(m.sums);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
