// src/kernels/convolution/winograd_plan.h - how winograd.h cuts a convolution, what that costs, and which convolutions
// it computes.
#pragma once

#include "kernels/base/numeric.h"
#include "kernels/base/thresholds.h"
#include "kernels/convolution/winograd_transforms.h"
#include "kernels/gemm/run.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Most bytes of transformed filters, and of transformed inputs, unless these are fewer than a tile of a product needs.
inline constexpr std::int64_t kFiltersBytes = 1024 * 1024;
inline constexpr std::int64_t kInputsBytes = 128 * 1024;
/// Most features of the input: with more, what is transformed at a time leaves the second-level cache.
inline constexpr std::int64_t kMaxFeatures = 1024;

/// The two axes of the windows, the first of which a convolution along a line lacks.
struct WinogradAxes {
  /// Of windows whose rows are transformed by themselves, the first has one tap.
  Axis axis[2];
  /// Rows of a window that are transformed by themselves and added up as further features are, how far apart they are,
  /// and their taps in the kernel.
  std::int64_t rows, row_dilation, row_step;
  /// Whether the first axis is the second of the convolution: there are no transforms along it, or they gain less.
  bool swapped;
  /// Elements before the first row of the input and of the output.
  std::int64_t first_in, first_out;
};

/// Whether there are transforms along one axis for so many taps.
constexpr bool has_transform(std::int64_t taps) { return taps == 3 || taps == 5; }

/// Outputs along an axis of as many tiles as the taps of a window are apart, which begin one after the other: the
/// outputs of a tile are as far apart as the taps.
constexpr std::int64_t group_side(const Axis &a) { return tile_side(a.kernel_size) * a.kernel_dilation; }

/// Products with transforms along a line, for each feature, of windows of several lines; by the size of the input,
/// which all parts of a convolution have in common.
constexpr std::int64_t line_products(const Axis &line, const Axis &other) {
  const std::int64_t tiles = divide_up(line.in_size, group_side(line)) * line.kernel_dilation;
  return patch_side(line.kernel_size) * tiles * other.in_size * other.kernel_size;
}

MODELWHEEL_COLD constexpr WinogradAxes winograd_axes(const Convolution &c) {
  const Axes axes = axes_of(c);
  const Axis &above = axes.axis[kAxes - 2], &along = axes.axis[kAxes - 1];
  WinogradAxes two{{above, along}, 1, 1, 0, false, 0, 0};
  const bool is_square = above.kernel_size == 3 && along.kernel_size == 3;
  if (!is_square && has_transform(above.kernel_size) &&
      (!has_transform(along.kernel_size) || 49 * line_products(along, above) > 50 * line_products(above, along)))
    two = {{along, above}, 1, 1, 0, true, 0, 0};
  Axis &first = two.axis[0];
  if (!is_square) {
    two.rows = first.kernel_size;
    two.row_dilation = first.kernel_dilation;
    two.row_step = first.tap_step;
    first.kernel_size = 1;
  }
  for (Axis &axis : two.axis)
    if (axis.kernel_size == 1) axis.kernel_dilation = 1;
  return two;
}

/// The axes of one of several parts of a convolution, whose rows are as far apart as the parts are many, as are those
/// of its windows: the rows of a part are neighbours.
constexpr WinogradAxes axes_of_part(const WinogradAxes &whole, std::int64_t parts, std::int64_t part) {
  WinogradAxes axes = whole;
  Axis &row = axes.axis[0];
  const std::int64_t start = part - row.pad_low, first = (start % parts + parts) % parts;
  axes.first_in = first * row.in_step;
  axes.first_out = part * row.out_step;
  axes.row_dilation /= parts;
  row.pad_low = (first - start) / parts;
  row.in_size = divide_up(larger_of(row.in_size - first, std::int64_t{0}), parts);
  row.out_size = divide_up(row.out_size - part, parts);
  row.in_step *= parts;
  row.out_step *= parts;
  return axes;
}

/// Tiles along an axis, of whole groups.
constexpr std::int64_t tiles_along(const Axis &a) { return divide_up(a.out_size, group_side(a)) * a.kernel_dilation; }

/// How a convolution is cut.
struct WinogradPlan {
  /// Products of each tile, feature of the input and feature of the output.
  std::int64_t kinds;
  /// Parts that are computed one after the other, see axes_of_part.
  std::int64_t parts;
  /// Tiles of outputs along the axes of an image, or of its largest part, and of all images.
  std::int64_t tile_rows, tile_columns, tiles;
  /// Numbers that are added up for each product: of all features, in all rows that are transformed by themselves.
  std::int64_t depth;
  /// Tiles after those of a block, in whose place the last rows of its windows begin.
  std::int64_t reach;
  /// Columns whose filters are transformed together, in whole panels, and most tiles of a block. Where it has a reach,
  /// a block is in one image.
  std::int64_t columns, block;
};

template <class T>
MODELWHEEL_COLD constexpr WinogradPlan winograd_plan(const Convolution &c, std::int64_t parts = 1) {
  const WinogradAxes whole = winograd_axes(c), axes = axes_of_part(whole, parts, 0);
  const Axis &row = axes.axis[0], &column = axes.axis[1];
  WinogradPlan plan{};
  plan.parts = parts;
  plan.kinds = patch_side(row.kernel_size) * patch_side(column.kernel_size);
  plan.tile_rows = tiles_along(row);
  plan.tile_columns = tiles_along(column);
  plan.tiles = c.batch * tiles_along(whole.axis[0]) * plan.tile_columns;
  plan.depth = c.in_features * axes.rows;
  plan.reach = (axes.rows - 1) * axes.row_dilation * plan.tile_columns;
  const std::int64_t size = plan.kinds * static_cast<std::int64_t>(sizeof(T)), features = c.in_features;
  const std::int64_t panels = divide_up(c.out_features, kPanel);
  const std::int64_t fitting = larger_of(kFiltersBytes / (size * plan.depth * kPanel), std::int64_t{1});
  plan.columns = divide_up(panels, divide_up(panels, fitting)) * kPanel;
  // Inputs of all tiles are transformed once for all blocks of columns.
  const std::int64_t image = plan.reach == 0 ? plan.tiles : plan.tile_rows * plan.tile_columns;
  const std::int64_t bytes = (image + plan.reach) * features * size;
  const std::int64_t limit = plan.columns < c.out_features ? kFiltersBytes : kInputsBytes;
  // Two tiles of a product at least, see tiles_from; and what is kept of one block for the next is at most a half.
  const std::int64_t fewest = larger_of(std::int64_t{2 * kTallRows}, plan.reach);
  const std::int64_t together = larger_of(kInputsBytes / (size * features) / kTallRows * kTallRows, fewest);
  plan.block = bytes <= limit ? image : smaller_of(together, image);
  // Where rows of windows are apart, what blocks have in common would be as many times as large.
  const std::int64_t apart = axes.row_dilation;
  const bool divides =
      apart > 1 && plan.block < image && whole.axis[0].out_size / apart * plan.tile_columns >= kTallRows;
  return divides ? winograd_plan<T>(c, apart) : plan;
}

/// Elements between what is written together: at steps of powers of two, it would be in one set of the cache.
inline constexpr std::int64_t kGap = 16;

/// The block of tiles from one on. None has fewer than a tile of the products has rows.
MODELWHEEL_INLINE Range tiles_from(const WinogradPlan &plan, std::int64_t done) {
  const std::int64_t image = plan.tile_rows * plan.tile_columns;
  const std::int64_t left = plan.reach == 0 ? plan.tiles - done : image - done % image;
  return {done, done + (left <= plan.block ? left : smaller_of(plan.block, left - kTallRows))};
}

/// Some columns: one strip of products.
struct WinogradStrip {
  std::int64_t first, width;
};

/// The strip of products from a column on, of those that end before `end`: a single vector may begin before.
template <class T>
MODELWHEEL_INLINE constexpr WinogradStrip strip_from(std::int64_t column, std::int64_t end) {
  const Columns columns = run_columns<T, kLanes<T>>(column, end);
  return {columns.first, columns.last + kLanes<T>};
}

/// Columns of the widest strip: the first of a block of columns, or of the last one.
template <class T>
constexpr std::int64_t widest_strip(const Convolution &c, const WinogradPlan &plan) {
  const std::int64_t rest = c.out_features % plan.columns;
  return larger_of(strip_from<T>(0, plan.columns).width, rest == 0 ? 0 : strip_from<T>(0, rest).width);
}

/// Elements from the filters of a product to those of the next.
constexpr std::int64_t filters_step(std::int64_t depth, std::int64_t width) { return depth * width + kGap; }

/// Elements of the inputs or products of a tile, and of those of one kind.
constexpr std::int64_t kind_step(std::int64_t count) { return count + kGap; }
constexpr std::int64_t tile_step(std::int64_t kinds, std::int64_t count) { return kinds * kind_step(count); }

/// Memory of convolve_winograd, in elements.
struct WinogradMemory {
  std::int64_t filters, inputs, products, zeros;
};

template <class T>
constexpr WinogradMemory winograd_memory(const Convolution &c) {
  const WinogradPlan plan = winograd_plan<T>(c);
  const std::int64_t tiles = smaller_of(plan.block, plan.tiles), features = c.in_features;
  const std::int64_t width = widest_strip<T>(c, plan), columns = plan.tiles <= plan.block ? width : plan.columns;
  return {plan.kinds * (plan.depth * columns + kGap * columns / kLanes<T>),
          (tiles + plan.reach) * tile_step(plan.kinds, features), tiles * tile_step(plan.kinds, width), features};
}

/// Bytes of scratch memory that convolve_winograd needs.
template <class T>
constexpr std::size_t convolve_winograd_scratch(const Convolution &c) {
  const WinogradMemory m = winograd_memory<T>(c);
  return scratch_bytes<T>(m.filters) + scratch_bytes<T>(m.inputs) + scratch_bytes<T>(m.products) +
         scratch_bytes<T>(m.zeros) + scratch_bytes<Segment>(winograd_axes(c).rows);
}

/// Most products that are added in order where sums are short, see Tiling, of so many: the longer the sums of the
/// definition, the larger are their errors.
constexpr std::int64_t most_summed(std::int64_t depth) {
  return depth < 128 ? 16 : 24 * smaller_of(depth / 64, std::int64_t{3});
}

/// Whether there are transforms for windows of so many taps along both axes whose errors are about as large as those of
/// the definition's sums in order. Along one axis, these sums must be long enough, the more so where much of the
/// windows is padding.
constexpr bool has_transforms(const WinogradAxes &axes, std::int64_t features) {
  if (axes.axis[0].kernel_size == 3) return true;
  const Axis &line = axes.axis[1];
  const std::int64_t fewest = line.in_size < 3 * line.kernel_size * line.kernel_dilation ? 2 : 1;
  return has_transform(line.kernel_size) && features * axes.rows >= fewest * kWinogradLineFeatures;
}

/// Whether convolve_winograd can compute it.
template <class T>
MODELWHEEL_COLD constexpr bool fits_winograd(const Convolution &c) {
  const bool is_dense = c.groups == 1 && c.in_feature == 1 && c.kernel_out == 1 && c.out_feature == 1;
  if (!kHasGemm<T> || sizeof(T) != sizeof(float) || !is_dense || (c.rank != 1 && c.rank != 2)) return false;
  // With few columns it gains too little for so much code.
  if (c.in_features < kLanes<T> || c.out_features < kPanel) return false;
  if (c.panel != 0 && c.out_features % kPanel != 0) return false;
  const WinogradAxes axes = winograd_axes(c);
  for (const Axis &axis : axes.axis)
    if (axis.stride != 1 || axis.base_dilation != 1) return false;
  if (axes.rows < 1 || !has_transforms(axes, c.in_features)) return false;
  const WinogradPlan plan = winograd_plan<T>(c);
  const std::int64_t rest = c.out_features % plan.columns;
  if (rest != 0 && rest < kLanes<T>) return false;
  return (plan.reach == 0 ? plan.tiles : plan.tile_rows * plan.tile_columns) >= kTallRows;
}

/// Products of vectors that take as long as transforming a vector of filters, of inputs, or of products of 4 x 4
/// kinds, which wait for the second-level cache.
inline constexpr std::int64_t kTransformCost = 5 * kVectorBytes / 2;

constexpr std::int64_t transform_cost(const WinogradPlan &plan) { return kTransformCost * plan.kinds / 16; }

/// Whether convolve_winograd computes it: that is measurably faster. The number of images does not matter, so that each
/// has the same bits in any batch.
template <class T>
MODELWHEEL_COLD constexpr bool prefers_winograd(const Convolution &c) {
  Convolution image = c;
  image.batch = 1;
  if (!fits_winograd<T>(image) || c.in_features > kMaxFeatures) return false;
  if (c.of_transforms) return true;
  // For each vector of columns and feature of the input.
  const WinogradPlan plan = winograd_plan<T>(image);
  const WinogradAxes axes = winograd_axes(c);
  const std::int64_t tiles = plan.tiles, cost = transform_cost(plan);
  // Many weights come from further away.
  const std::int64_t filters = (plan.columns < c.out_features ? 2 * cost : cost) * axes.rows;
  const std::int64_t transforms = (tiles + plan.reach) * cost / c.out_features + tiles * cost / c.in_features;
  const std::int64_t products = divide_up(tiles, kRunRows) * kRunRows * plan.kinds * axes.rows;
  std::int64_t direct = axes.rows;
  for (const Axis &axis : axes.axis) direct *= axis.out_size * axis.kernel_size;
  // Columns that fill no whole vectors slow both methods down.
  return 50 * direct >= 51 * (products + transforms + filters);
}

/// Whether windows have the taps of a Tiling.
template <class W>
constexpr bool has_windows(const Convolution &c) {
  const WinogradAxes axes = winograd_axes(c);
  return axes.axis[0].kernel_size == W::kTaps[0] && axes.axis[1].kernel_size == W::kTaps[1];
}

/// What the largest part costs by Winograd's method, in products of vectors: parts by rows transform all filters, those
/// by columns all inputs.
template <class T>
MODELWHEEL_COLD constexpr std::int64_t winograd_cost(const Convolution &c, std::int64_t rows, std::int64_t columns) {
  Convolution part = c;
  part.out_size[0] = rows;
  const WinogradPlan plan = winograd_plan<T>(part);
  return plan.kinds * plan.tiles * plan.depth * columns +
         transform_cost(plan) *
             ((plan.tiles + plan.reach) * c.in_features + plan.depth * columns + plan.tiles * columns);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
