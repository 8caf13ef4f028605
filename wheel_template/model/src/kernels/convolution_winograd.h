// src/kernels/convolution_winograd.h - convolutions of windows of 3 x 3 by Winograd's F(2x2, 3x3); see
// winograd_transforms.h.
//
// The filters are transformed at run time, so that weights are stored once, for a block of columns that stays in the
// second-level cache; then come blocks of tiles: their inputs are transformed, sixteen matrix products computed, and
// the results transformed back into sums, with the epilogue. Where there is one block of tiles, the filters of a strip
// of columns are transformed just before they are needed.
#pragma once

#include "gemm_run.h"
#include "numeric.h"
#include "winograd_transforms.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Most bytes of transformed filters, and of transformed inputs, unless these are fewer than a tile of a product needs.
inline constexpr std::int64_t kFiltersBytes = 1024 * 1024;
inline constexpr std::int64_t kInputsBytes = 128 * 1024;
/// Elements between what is written together: at steps of powers of two, it would be in one set of the cache.
inline constexpr std::int64_t kGap = 16;

/// How a convolution is cut.
struct WinogradPlan {
  /// Tiles of outputs along the axes of an image, and of all images.
  std::int64_t tile_rows, tile_columns, tiles;
  /// Columns whose filters are transformed together, in whole panels, and most tiles of a block.
  std::int64_t columns, block;
};

template <class T>
constexpr WinogradPlan winograd_plan(const Convolution &c) {
  constexpr std::int64_t kSize = kPatchSize * static_cast<std::int64_t>(sizeof(T));
  WinogradPlan plan{divide_up(c.out_size[0], kTileSide), divide_up(c.out_size[1], kTileSide), 0, 0, 0};
  plan.tiles = c.batch * plan.tile_rows * plan.tile_columns;
  const std::int64_t depth = c.in_features, panels = divide_up(c.out_features, kPanel);
  const std::int64_t fitting = larger_of(kFiltersBytes / (kSize * depth * kPanel), std::int64_t{1});
  plan.columns = divide_up(panels, divide_up(panels, fitting)) * kPanel;
  // Inputs of all tiles are transformed once for all blocks of columns.
  const std::int64_t bytes = plan.tiles * depth * kSize;
  const std::int64_t limit = plan.columns < c.out_features ? kFiltersBytes : kInputsBytes;
  // Two tiles of a product at least, see tiles_from.
  const std::int64_t together = larger_of(kInputsBytes / (kSize * depth) / kTallRows, std::int64_t{2}) * kTallRows;
  plan.block = bytes <= limit ? plan.tiles : together;
  return plan;
}

/// Whether convolve_winograd can compute it.
template <class T>
constexpr bool fits_winograd(const Convolution &c) {
  bool fits = kHasGemm<T> && sizeof(T) == sizeof(float) && c.rank == 2 && c.groups == 1 && c.in_feature == 1 &&
              c.kernel_out == 1 && c.out_feature == 1 && c.in_features >= kLanes<T> && c.out_features > 0 &&
              c.out_features % kPanel == 0;
  for (int axis = 0; axis < 2; ++axis)
    fits = fits && c.kernel_size[axis] == kFilterSide && c.stride[axis] == 1 && c.kernel_dilation[axis] == 1 &&
           c.base_dilation[axis] == 1;
  return fits && winograd_plan<T>(c).tiles >= kTallRows;
}

/// Most features of the input: with more, what is transformed at a time leaves the second-level cache.
inline constexpr std::int64_t kMaxFeatures = 1024;
/// Products of vectors that take as long as transforming a vector of filters, of inputs, or of products, which wait for
/// the second-level cache.
inline constexpr std::int64_t kTransformCost = 5 * kVectorBytes / 2;

/// Whether convolve_winograd computes it: that is measurably faster. The number of images does not matter, so that each
/// has the same bits in any batch.
template <class T>
constexpr bool prefers_winograd(const Convolution &c) {
  Convolution image = c;
  image.batch = 1;
  if (!fits_winograd<T>(image) || c.in_features > kMaxFeatures) return false;
  if (c.of_winograd) return true;
  // For each vector of columns and feature of the input.
  const WinogradPlan plan = winograd_plan<T>(image);
  const std::int64_t tiles = plan.tiles;
  // Many weights come from further away.
  const std::int64_t filters = plan.columns < c.out_features ? 2 * kTransformCost : kTransformCost;
  const std::int64_t transforms = tiles * kTransformCost / c.out_features + tiles * kTransformCost / c.in_features;
  const std::int64_t products = divide_up(tiles, kRunRows) * kRunRows * kPatchSize;
  const std::int64_t direct = c.out_size[0] * c.out_size[1] * kFilterSide * kFilterSide;
  return 10 * direct >= 11 * (products + transforms + filters);
}

/// The block of tiles from one on. None has fewer than a tile of the products has rows.
MODELWHEEL_INLINE Range tiles_from(const WinogradPlan &plan, std::int64_t done) {
  const std::int64_t left = plan.tiles - done;
  return {done, done + (left <= plan.block ? left : smaller_of(plan.block, left - kTallRows))};
}

/// Some columns: one strip of products.
struct WinogradStrip {
  std::int64_t first, width;
};

/// The strip of products from a column on, of those that end before `end`.
template <class T>
MODELWHEEL_INLINE constexpr WinogradStrip strip_from(std::int64_t column, std::int64_t end) {
  const Columns columns = run_columns<T, kLanes<T>>(0, end - column);
  return {column, columns.last + kLanes<T>};
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
constexpr std::int64_t tile_step(std::int64_t count) { return kPatchSize * kind_step(count); }

/// Memory of convolve_winograd, in elements.
struct WinogradMemory {
  std::int64_t filters, inputs, products, zeros;
};

template <class T>
constexpr WinogradMemory winograd_memory(const Convolution &c) {
  const WinogradPlan plan = winograd_plan<T>(c);
  const std::int64_t tiles = smaller_of(plan.block, plan.tiles), depth = c.in_features;
  const std::int64_t width = widest_strip<T>(c, plan), columns = plan.tiles <= plan.block ? width : plan.columns;
  return {kPatchSize * (depth * columns + kGap * columns / kLanes<T>), tiles * tile_step(depth),
          tiles * tile_step(width), depth};
}

/// Bytes of scratch memory that convolve_winograd needs.
template <class T>
constexpr std::size_t convolve_winograd_scratch(const Convolution &c) {
  const WinogradMemory m = winograd_memory<T>(c);
  return scratch_bytes<T>(m.filters) + scratch_bytes<T>(m.inputs) + scratch_bytes<T>(m.products) +
         scratch_bytes<T>(m.zeros);
}

/// What all parts of a convolution need.
template <class T>
struct Winograd {
  const Convolution &c;
  WinogradPlan plan;
  const T *in, *kernel;
  /// A place outside the input, all features.
  const T *zeros;
  T *out, *filters, *inputs, *products;
  const Epilogue<T> *epilogue;

  /// Element (0, 0) of the filters of a column, and how far apart its rows and columns are.
  const T *filter(std::int64_t column) const {
    const std::int64_t to_column = c.panel == 0 ? column : column / kPanel * c.panel + column % kPanel;
    const Axes axes = axes_of(c);
    return kernel + to_column + axes.axis[1].first_tap + axes.axis[2].first_tap;
  }
  std::int64_t tap_step(int axis) const { return axes_of(c).axis[axis + 1].tap_step; }
};

/// A tile: its image, and where it begins there.
struct WinogradTile {
  std::int64_t image, y, x;
};

/// The tile with a number.
MODELWHEEL_INLINE WinogradTile tile_at(const WinogradPlan &plan, std::int64_t number) {
  const std::int64_t row = number / plan.tile_columns;
  return {row / plan.tile_rows, row % plan.tile_rows * kTileSide, number % plan.tile_columns * kTileSide};
}

/// The inputs of a tile; places outside the image are zeros.
template <class T>
struct WinogradPatch {
  const T *at[kPatchSide][kPatchSide];
};

/// Where the inputs of a tile begin.
template <class T>
MODELWHEEL_INLINE const T *patch_start(const Winograd<T> &w, const WinogradTile &tile) {
  const Convolution &c = w.c;
  return w.in + tile.image * c.in_batch + (tile.y - c.pad_low[0]) * c.in_spatial[0] +
         (tile.x - c.pad_low[1]) * c.in_spatial[1];
}

/// Whether a tile needs no padding.
MODELWHEEL_INLINE bool is_inside(const Convolution &c, const WinogradTile &tile) {
  const std::int64_t y = tile.y - c.pad_low[0], x = tile.x - c.pad_low[1];
  return y >= 0 && x >= 0 && y + kPatchSide <= c.in_size[0] && x + kPatchSide <= c.in_size[1];
}

template <class T>
MODELWHEEL_NOINLINE WinogradPatch<T> patch_of(const Winograd<T> &w, const WinogradTile &tile) {
  const Convolution &c = w.c;
  const T *from = patch_start(w, tile);
  WinogradPatch<T> patch;
  for (int i = 0; i < kPatchSide; ++i)
    for (int j = 0; j < kPatchSide; ++j) {
      const std::int64_t y = tile.y - c.pad_low[0] + i, x = tile.x - c.pad_low[1] + j;
      const bool inside = y >= 0 && y < c.in_size[0] && x >= 0 && x < c.in_size[1];
      patch.at[i][j] = inside ? from + i * c.in_spatial[0] + j * c.in_spatial[1] : w.zeros;
    }
  return patch;
}

/// Transforms the filters of a strip.
template <class T>
MODELWHEEL_NOINLINE void winograd_filters(const Winograd<T> &w, const WinogradStrip &strip, T *to) {
  const std::int64_t depth = w.c.in_features, plane = filters_step(depth, strip.width);
  const std::int64_t step[2] = {w.tap_step(0), w.tap_step(1)};
  // Whole lines of the cache at a time.
  for (std::int64_t first = 0; first < strip.width; first += kPanel)
    for (std::int64_t k = 0; k < depth; ++k)
      for (std::int64_t j = first; j < smaller_of(first + kPanel, strip.width); j += kLanes<T>)
        transform_filters(w.filter(strip.first + j) + k * w.c.kernel_in, step, to + k * strip.width + j, plane);
}

/// Transforms the inputs of a tile, whose element (i, j) begins at `at(i, j)`.
template <class T, class At>
MODELWHEEL_INLINE void transform_patch(std::int64_t depth, const At &at, T *to) {
  for (std::int64_t first = 0; first < depth; first += kLanes<T>) {
    // The last vector overlaps the one before.
    const std::int64_t f = smaller_of(first, depth - kLanes<T>);
    transform_features([&](int i, int j) { return at(i, j) + f; }, to + f, kind_step(depth));
  }
}

/// Transforms the inputs of some tiles.
template <class T>
MODELWHEEL_NOINLINE void winograd_inputs(const Winograd<T> &w, Range tiles) {
  const std::int64_t depth = w.c.in_features, row = w.c.in_spatial[0], column = w.c.in_spatial[1];
  T *to = w.inputs;
  for (std::int64_t number = tiles.begin; number < tiles.end; ++number, to += tile_step(depth)) {
    const WinogradTile tile = tile_at(w.plan, number);
    if (is_inside(w.c, tile)) {
      const T *from = patch_start(w, tile);
      transform_patch(depth, [&](int i, int j) { return from + i * row + j * column; }, to);
    } else {
      const WinogradPatch<T> patch = patch_of(w, tile);
      transform_patch(depth, [&](int i, int j) { return patch.at[i][j]; }, to);
    }
  }
}

/// The sums of a vector of columns of a tile without transforms.
template <class T>
MODELWHEEL_NOINLINE void direct_sums(const Winograd<T> &w, const WinogradPatch<T> &patch, std::int64_t column,
                                     Vector<T> (&sum)[kTileSide * kTileSide][1]) {
  for (int p = 0; p < kTileSide * kTileSide; ++p) sum[p][0] = Vector<T>{};
  for (int i = 0; i < kFilterSide; ++i)
    for (int j = 0; j < kFilterSide; ++j) {
      const T *filter = w.filter(column) + i * w.tap_step(0) + j * w.tap_step(1);
      for (std::int64_t k = 0; k < w.c.in_features; ++k) {
        const Vector<T> right = load(filter + k * w.c.kernel_in);
        for (int p = 0; p < kTileSide * kTileSide; ++p)
          sum[p][0] += splat(patch.at[p / kTileSide + i][p % kTileSide + j][k]) * right;
      }
    }
}

/// Writes the results of a strip of some tiles. Returns whether all sums are finite; with `Careful`, those that are not
/// are computed again without transforms, in which infinities cancel each other and large numbers overflow.
template <class T, bool Careful>
MODELWHEEL_NOINLINE bool write_tiles(const Winograd<T> &w, const WinogradStrip &strip, Range tiles) {
  const Convolution &c = w.c;
  const std::int64_t plane = kind_step(strip.width);
  const T *from = w.products;
  Vector<T> zero{};  // NaN after a sum that is not finite
  for (std::int64_t number = tiles.begin; number < tiles.end; ++number, from += tile_step(strip.width)) {
    const WinogradTile tile = tile_at(w.plan, number);
    // Of outputs past the end, the neighbour is written again.
    const bool below = tile.y + 1 < c.out_size[0], right = tile.x + 1 < c.out_size[1];
    T *const start = w.out + tile.image * c.out_batch + tile.y * c.out_spatial[0] + tile.x * c.out_spatial[1];
    const std::int64_t row = below ? c.out_spatial[0] : 0, column = right ? c.out_spatial[1] : 0;
    for (std::int64_t j = 0; j < strip.width; j += kLanes<T>) {
      Vector<T> sum[kTileSide * kTileSide][1];
      transform_products(from + j, plane, sum);
      if constexpr (Careful) {
        Vector<T> direct[kTileSide * kTileSide][1];
        direct_sums(w, patch_of(w, tile), strip.first + j, direct);
        for (int p = 0; p < kTileSide * kTileSide; ++p)
          sum[p][0] = sum[p][0] - sum[p][0] == Vector<T>{} ? sum[p][0] : direct[p][0];
      }
      if (!right) {
        sum[1][0] = sum[0][0];
        sum[3][0] = sum[2][0];
      }
      if (!below) {
        sum[2][0] = sum[0][0];
        sum[3][0] = sum[1][0];
      }
      if constexpr (!Careful) {
        MODELWHEEL_UNROLL
        for (int p = 0; p < kTileSide * kTileSide; ++p) zero += sum[p][0] - sum[p][0];
      }
      T *const at = start + strip.first + j;
      T *const to[kTileSide * kTileSide] = {at, at + column, at + row, at + row + column};
      store_sums<T, kLanes<T>>(w.epilogue, to, strip.first + j, 0, sum);
    }
  }
  T total = 0;
  for (int lane = 0; lane < kLanes<T>; ++lane) total += zero[lane];
  return total - total == 0;
}

/// The kernels of the products: none fetches results.
constexpr GemmUses winograd_uses() {
  GemmUses uses{};
  for (bool (&strip)[kRunTiles] : uses.strip[0]) strip[kWholeTiles] = strip[kShorterTiles] = true;
  return uses;
}
inline constexpr GemmUses kWinogradUses = winograd_uses();

template <class T>
struct WinogradCalls {
  static MODELWHEEL_INLINE void strip(int, int vectors, int tiles, const Strip<T> &strip, const Run<T> &run) {
    call_strip<T, kLanes<T>, kWinogradUses>(vectors, tiles, strip, run);
  }
};

/// A strip of some tiles.
template <class T>
void winograd_strip(const Winograd<T> &w, const WinogradStrip &strip, const T *filters, Range tiles) {
  const std::int64_t depth = w.c.in_features;
  const std::int64_t last = strip.width - kLanes<T>;
  const int vectors = static_cast<int>(strip.width / kLanes<T>);
  const Segment all{0, 0};
  for (int p = 0; p < kPatchSize; ++p) {
    const Strip<T> right{&all,        1,       depth, 1,    filters + p * filters_step(depth, strip.width),
                         strip.width, true,    false, last, kPanel,
                         last,        nullptr, 0};
    const Run<T> run{w.inputs + p * kind_step(depth), tile_step(depth), w.products + p * kind_step(strip.width),
                     tile_step(strip.width), length(tiles)};
    strip_of_width<T, kLanes<T>, WinogradCalls<T>>(vectors, right, run);
  }
  if (!write_tiles<T, false>(w, strip, tiles)) write_tiles<T, true>(w, strip, tiles);
}

/// A block of columns for all tiles, which are in one block: filters of a strip are needed once.
template <class T>
void winograd_strips(const Winograd<T> &w, Range columns) {
  const Range all{0, w.plan.tiles};
  if (columns.begin == 0) winograd_inputs(w, all);
  for (std::int64_t j = columns.begin; j < columns.end;) {
    const WinogradStrip strip = strip_from<T>(j, columns.end);
    winograd_filters(w, strip, w.filters);
    winograd_strip(w, strip, w.filters, all);
    j += strip.width;
  }
}

/// A block of columns, for one block of tiles after the other.
template <class T>
void winograd_columns(const Winograd<T> &w, Range columns) {
  T *to = w.filters;
  for (std::int64_t j = columns.begin; j < columns.end;) {
    const WinogradStrip strip = strip_from<T>(j, columns.end);
    winograd_filters(w, strip, to);
    to += kPatchSize * filters_step(w.c.in_features, strip.width);
    j += strip.width;
  }
  for (Range tiles{0, 0}; tiles.end < w.plan.tiles;) {
    tiles = tiles_from(w.plan, tiles.end);
    winograd_inputs(w, tiles);
    const T *filters = w.filters;
    for (std::int64_t j = columns.begin; j < columns.end;) {
      const WinogradStrip strip = strip_from<T>(j, columns.end);
      winograd_strip(w, strip, filters, tiles);
      filters += kPatchSize * filters_step(w.c.in_features, strip.width);
      j += strip.width;
    }
  }
}

/// Computes a convolution for which prefers_winograd holds; see `convolution`.
template <class T>
MODELWHEEL_NOINLINE void convolve_winograd(const Convolution &c, const T *in, const T *kernel, T *out, void *memory,
                                           const Epilogue<T> *epilogue) {
  const WinogradMemory m = winograd_memory<T>(c);
  Scratch scratch(memory);
  T *const filters = scratch.take<T>(m.filters), *const inputs = scratch.take<T>(m.inputs);
  T *const products = scratch.take<T>(m.products), *const zeros = scratch.take<T>(m.zeros);
  std::memset(zeros, 0, static_cast<std::size_t>(m.zeros) * sizeof(T));
  const Winograd<T> w{c, winograd_plan<T>(c), in, kernel, zeros, out, filters, inputs, products, epilogue};
  const bool at_once = w.plan.tiles <= w.plan.block;
  for (std::int64_t j = 0; j < c.out_features; j += w.plan.columns) {
    const Range columns{j, smaller_of(j + w.plan.columns, c.out_features)};
    at_once ? winograd_strips(w, columns) : winograd_columns(w, columns);
  }
}

extern template void convolve_winograd(const Convolution &, const float *, const float *, float *, void *,
                                       const Epilogue<float> *);

}  // namespace modelwheel::MODELWHEEL_LEVEL
