// src/kernels/convolution/winograd.h - convolutions of windows of 3 x 3 places, and of rows of 3 or 5 places, by
// Winograd's method; see winograd_transforms.h.
//
// The filters are transformed at run time, so that weights are stored once, for a block of columns that stays in the
// second-level cache; then come blocks of tiles: their inputs are transformed, matrix products of each kind computed,
// sixteen for 3 x 3, and the results transformed back into sums, with the epilogue. Where there is one block of tiles,
// the filters of a strip of columns are transformed just before they are needed.
//
// A window of several rows of 3 or 5 places is one of a single row with as many times the features: each row of the
// input is transformed once, and the products add up those of neighbours.
#pragma once

#include "kernels/base/numeric.h"
#include "kernels/convolution/method.h"
#include "kernels/convolution/winograd_plan.h"
#include "kernels/elementwise/epilogue.h"
#include "kernels/gemm/run.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// What all parts of a convolution need; W is its Tiling.
template <class T, class W>
struct Winograd {
  const Convolution &c;
  WinogradAxes axes;
  WinogradPlan plan;
  const T *in, *kernel;
  /// A place outside the input, all features.
  const T *zeros;
  T *out, *filters, *inputs, *products;
  const Epilogue<T> *epilogue;
  /// The inputs of each row of a window, from those of the first.
  const Segment *segments;

  /// Element (0, 0) of the filters of a column.
  const T *filter(std::int64_t column) const {
    const std::int64_t to_column = c.panel == 0 ? column : column / kPanel * c.panel + column % kPanel;
    return kernel + to_column + axes.axis[0].first_tap + axes.axis[1].first_tap;
  }
};

/// A tile: its image, and where it begins there.
struct WinogradTile {
  std::int64_t image, y, x;
};

/// The first output along an axis of the tile with a number.
MODELWHEEL_INLINE std::int64_t first_output(const Axis &a, std::int64_t number) {
  return number / a.kernel_dilation * group_side(a) + number % a.kernel_dilation;
}

/// The first output of the tile after the one that begins at an output.
template <int kSide>
MODELWHEEL_INLINE std::int64_t next_output(const Axis &a, std::int64_t output) {
  if (a.kernel_dilation == 1) return output + kSide;
  return ++output % a.kernel_dilation == 0 ? output + (kSide - 1) * a.kernel_dilation : output;
}

/// The tile with a number.
template <class T, class W>
MODELWHEEL_INLINE WinogradTile tile_at(const Winograd<T, W> &w, std::int64_t number) {
  const std::int64_t row = number / w.plan.tile_columns;
  return {row / w.plan.tile_rows, first_output(w.axes.axis[0], row % w.plan.tile_rows),
          first_output(w.axes.axis[1], number % w.plan.tile_columns)};
}

/// The tile after another; where windows have no gaps without divisions, which would take as long as a vector of its
/// sums. Where blocks have a reach, it goes on in the same image.
template <class T, class W>
MODELWHEEL_INLINE WinogradTile tile_after(const Winograd<T, W> &w, WinogradTile tile) {
  tile.x = next_output<W::kTile[1]>(w.axes.axis[1], tile.x);
  if (tile.x < w.plan.tile_columns * W::kTile[1]) return tile;
  tile.x = 0;
  tile.y = next_output<W::kTile[0]>(w.axes.axis[0], tile.y);
  if (tile.y < w.plan.tile_rows * W::kTile[0] || w.plan.reach != 0) return tile;
  return {tile.image + 1, 0, 0};
}

/// The inputs of a tile; places outside the image are zeros.
template <class T, class W>
struct WinogradPatch {
  const T *at[W::kPatch[0]][W::kPatch[1]];
};

/// Where the inputs of a tile begin.
template <class T, class W>
MODELWHEEL_INLINE const T *patch_start(const Winograd<T, W> &w, const WinogradTile &tile) {
  const Axis *axis = w.axes.axis;
  return w.in + tile.image * w.c.in_batch + (tile.y - axis[0].pad_low) * axis[0].in_step +
         (tile.x - axis[1].pad_low) * axis[1].in_step;
}

/// Whether a tile needs no padding.
template <class T, class W>
MODELWHEEL_INLINE bool is_inside(const Winograd<T, W> &w, const WinogradTile &tile) {
  const Axis *axis = w.axes.axis;
  const std::int64_t y = tile.y - axis[0].pad_low, x = tile.x - axis[1].pad_low;
  return y >= 0 && x >= 0 && y + (W::kPatch[0] - 1) * axis[0].kernel_dilation < axis[0].in_size &&
         x + (W::kPatch[1] - 1) * axis[1].kernel_dilation < axis[1].in_size;
}

template <class T, class W>
MODELWHEEL_NOINLINE WinogradPatch<T, W> patch_of(const Winograd<T, W> &w, const WinogradTile &tile) {
  const Axis *axis = w.axes.axis;
  const T *from = patch_start(w, tile);
  WinogradPatch<T, W> patch;
  for (int i = 0; i < W::kPatch[0]; ++i)
    for (int j = 0; j < W::kPatch[1]; ++j) {
      const std::int64_t down = i * axis[0].kernel_dilation, along = j * axis[1].kernel_dilation;
      const std::int64_t y = tile.y - axis[0].pad_low + down, x = tile.x - axis[1].pad_low + along;
      const bool inside = y >= 0 && y < axis[0].in_size && x >= 0 && x < axis[1].in_size;
      patch.at[i][j] = inside ? from + down * axis[0].in_step + along * axis[1].in_step : w.zeros;
    }
  return patch;
}

/// Transforms the filters of a strip.
template <class T, class W>
MODELWHEEL_NOINLINE void winograd_filters(const Winograd<T, W> &w, const WinogradStrip &strip, T *to) {
  const std::int64_t features = w.c.in_features, plane = filters_step(w.plan.depth, strip.width);
  const std::int64_t step[2] = {w.axes.axis[0].tap_step, w.axes.axis[1].tap_step};
  // Whole lines of the cache at a time.
  for (std::int64_t row = 0; row < w.axes.rows; ++row, to += features * strip.width)
    for (std::int64_t first = 0; first < strip.width; first += kPanel)
      for (std::int64_t k = 0; k < features; ++k)
        for (std::int64_t next = first; next < smaller_of(first + kPanel, strip.width); next += kLanes<T>) {
          const std::int64_t j = smaller_of(next, strip.width - kLanes<T>);
          transform_filters<T, W>(w.filter(strip.first + j) + row * w.axes.row_step + k * w.c.kernel_in, step,
                                  to + k * strip.width + j, plane);
        }
}

/// Transforms the inputs of a tile, whose element (i, j) begins at `at(i, j)`.
template <class T, class W, class At>
MODELWHEEL_INLINE void transform_patch(std::int64_t depth, const At &at, T *to) {
  for (std::int64_t first = 0; first < depth; first += kLanes<T>) {
    // The last vector overlaps the one before.
    const std::int64_t f = smaller_of(first, depth - kLanes<T>);
    transform_features<T, W>([&](int i, int j) { return at(i, j) + f; }, to + f, kind_step(depth));
  }
}

/// Transforms the inputs of some tiles, and of as many as they reach. What the tile before the first reached is there
/// already if it is in the same image.
template <class T, class W>
MODELWHEEL_NOINLINE void winograd_inputs(const Winograd<T, W> &w, Range before, Range tiles) {
  const Axis *axis = w.axes.axis;
  const std::int64_t depth = w.c.in_features, row = axis[0].in_step * axis[0].kernel_dilation;
  const std::int64_t column = axis[1].in_step * axis[1].kernel_dilation, step = tile_step(W::kPatchSize, depth);
  T *to = w.inputs;
  WinogradTile tile = tile_at(w, tiles.begin);
  std::int64_t left = length(tiles) + w.plan.reach;
  if (w.plan.reach != 0 && length(before) > 0 && tile.image == tile_at(w, before.begin).image) {
    const std::int64_t kept = w.plan.reach * step;
    std::memmove(to, to + length(before) * step, static_cast<std::size_t>(kept) * sizeof(T));
    to += kept;
    left -= w.plan.reach;
    tile.y += (w.axes.rows - 1) * w.axes.row_dilation;
  }
  for (; left > 0; --left, tile = tile_after(w, tile)) {
    if (is_inside(w, tile)) {
      const T *from = patch_start(w, tile);
      transform_patch<T, W>(depth, [&](int i, int j) { return from + i * row + j * column; }, to);
    } else {
      const WinogradPatch<T, W> patch = patch_of(w, tile);
      transform_patch<T, W>(depth, [&](int i, int j) { return patch.at[i][j]; }, to);
    }
    to += step;
  }
}

/// The sums of a vector of columns of a tile without transforms.
template <class T, class W>
MODELWHEEL_NOINLINE void direct_sums(const Winograd<T, W> &w, WinogradTile tile, std::int64_t column,
                                     Vector<T> (&sum)[W::kTileSize][1]) {
  for (int p = 0; p < W::kTileSize; ++p) sum[p][0] = Vector<T>{};
  for (std::int64_t row = 0; row < w.axes.rows; ++row, tile.y += w.axes.row_dilation) {
    const WinogradPatch<T, W> patch = patch_of(w, tile);
    for (int i = 0; i < W::kTaps[0]; ++i)
      for (int j = 0; j < W::kTaps[1]; ++j) {
        const T *filter = w.filter(column) + row * w.axes.row_step + i * w.axes.axis[0].tap_step;
        for (std::int64_t k = 0; k < w.c.in_features; ++k) {
          const Vector<T> right = load(filter + j * w.axes.axis[1].tap_step + k * w.c.kernel_in);
          for (int p = 0; p < W::kTileSize; ++p)
            sum[p][0] += splat(patch.at[p / W::kTile[1] + i][p % W::kTile[1] + j][k]) * right;
        }
      }
  }
}

/// Puts the neighbour in place of outputs past the end.
template <class T, class W>
MODELWHEEL_INLINE void repeat_inner(bool below, bool right, Vector<T> (&sum)[W::kTileSize][1]) {
  constexpr int kColumns = W::kTile[1];
  for (int i = 0; i < W::kTile[0]; ++i)
    if (kColumns == 2 && !right) sum[i * kColumns + kColumns - 1][0] = sum[i * kColumns][0];
  for (int j = 0; j < kColumns; ++j)
    if (W::kTile[0] == 2 && !below) sum[(W::kTile[0] - 1) * kColumns + j][0] = sum[j][0];
}

/// Writes the results of a strip of some tiles. Returns whether all sums are finite; with `Careful`, those that are not
/// are computed again without transforms, in which infinities cancel each other and large numbers overflow.
template <class T, class W, bool Careful>
MODELWHEEL_NOINLINE bool write_tiles(const Winograd<T, W> &w, const WinogradStrip &strip, Range tiles) {
  const Axis *axis = w.axes.axis;
  const std::int64_t plane = kind_step(strip.width);
  const T *from = w.products;
  Vector<T> zero{};  // NaN after a sum that is not finite
  WinogradTile tile = tile_at(w, tiles.begin);
  for (std::int64_t left = length(tiles); left > 0; --left, tile = tile_after(w, tile)) {
    // The last groups may have tiles past the end.
    const bool is_output = tile.y < axis[0].out_size && tile.x < axis[1].out_size;
    const bool below = tile.y + axis[0].kernel_dilation < axis[0].out_size;
    const bool right = tile.x + axis[1].kernel_dilation < axis[1].out_size;
    T *const start = w.out + tile.image * w.c.out_batch + tile.y * axis[0].out_step + tile.x * axis[1].out_step;
    const std::int64_t row = below ? axis[0].kernel_dilation * axis[0].out_step : 0;
    const std::int64_t column = right ? axis[1].kernel_dilation * axis[1].out_step : 0;
    for (std::int64_t next = 0; is_output && next < strip.width; next += kLanes<T>) {
      const std::int64_t j = smaller_of(next, strip.width - kLanes<T>);
      Vector<T> sum[W::kTileSize][1];
      transform_products<T, W>(from + j, plane, sum);
      if constexpr (Careful) {
        Vector<T> direct[W::kTileSize][1];
        direct_sums(w, tile, strip.first + j, direct);
        for (int p = 0; p < W::kTileSize; ++p)
          sum[p][0] = sum[p][0] - sum[p][0] == Vector<T>{} ? sum[p][0] : direct[p][0];
      }
      repeat_inner<T, W>(below, right, sum);
      if constexpr (!Careful) {
        MODELWHEEL_UNROLL
        for (int p = 0; p < W::kTileSize; ++p) zero += sum[p][0] - sum[p][0];
      }
      T *const at = start + strip.first + j;
      T *to[W::kTileSize];
      MODELWHEEL_UNROLL
      for (int p = 0; p < W::kTileSize; ++p) to[p] = at + p / W::kTile[1] * row + p % W::kTile[1] * column;
      store_sums<T, kLanes<T>>(w.epilogue, to, strip.first + j, 0, sum);
    }
    from += tile_step(W::kPatchSize, strip.width);
  }
  T total = 0;
  for (int lane = 0; lane < kLanes<T>; ++lane) total += zero[lane];
  return total - total == 0;
}

/// The kernels of the products: none fetches results.
constexpr GemmUses winograd_uses() {
  GemmUses uses{};
  for (bool (&strip)[kRunTiles] : uses.strip[0]) strip[kWholeTiles] = strip[kShorterTiles] = true;
  uses.strip[0][0][kShorterTiles] = false;
  return uses;
}
inline constexpr GemmUses kWinogradUses = winograd_uses();

template <class T>
struct WinogradCalls {
  static MODELWHEEL_INLINE void strip(int, int vectors, int, const Strip<T> &strip, const Run<T> &run) {
    const bool shorter = vectors > 1 && shorter_tiles(run.rows) > 0;
    call_strip<T, kLanes<T>, kWinogradUses>(vectors, shorter ? kShorterTiles : kWholeTiles, strip, run);
  }
};

/// The products of a strip of one kind, by tiles of so many rows, the last of which overlaps the one before. Sums of
/// some products are added to each other.
template <class T, int Vectors, int Rows>
MODELWHEEL_NOINLINE void strip_of_short_sums(const Strip<T> &given, const Run<T> &all) {
  constexpr int kBases = (Rows + kRowsOfBase - 1) / kRowsOfBase;
  const Strip<T> strip = given;
  const Run<T> run = all;
  const std::int64_t most = most_summed(strip.depth * strip.num_segments);
  const std::int64_t summed = divide_up(strip.depth, divide_up(strip.depth, most));
  for (std::int64_t done = 0; done < run.rows; done += Rows) {
    const std::int64_t first = smaller_of(done, run.rows - Rows);
    const T *base[kBases], *rhs = strip.rhs;
    T *const out = run.out + first * run.out_step;
    for (const Segment *segment = strip.segments; segment != strip.segments + strip.num_segments; ++segment) {
      MODELWHEEL_UNROLL
      for (int b = 0; b < kBases; ++b) base[b] = run.lhs + segment->lhs + (first + kRowsOfBase * b) * run.lhs_step;
      for (std::int64_t left = strip.depth; left > 0; left -= summed) {
        Vector<T> sum[Rows][Vectors] = {};
        for (std::int64_t k = smaller_of(left, summed); k > 0; --k, rhs += strip.rhs_step) {
          add_run<T, kLanes<T>, Vectors, Rows>(base, run.lhs_step, rhs, strip.panel, strip.rhs_last, sum);
          MODELWHEEL_UNROLL
          for (int b = 0; b < kBases; ++b) {
            ++base[b];
            keep_apart(base[b]);
          }
        }
        const bool is_first = segment == strip.segments && left == strip.depth;
        MODELWHEEL_UNROLL
        for (int i = 0; i < Rows; ++i) {
          T *const to = out + i * run.out_step;
          // The last vector may overlap the one before, so that all are read before one is written.
          MODELWHEEL_UNROLL
          for (int j = 0; j < Vectors; ++j)
            if (!is_first) sum[i][j] += load(to + (j + 1 < Vectors ? j * kLanes<T> : strip.last));
          MODELWHEEL_UNROLL
          for (int j = 0; j < Vectors; ++j) store(to + (j + 1 < Vectors ? j * kLanes<T> : strip.last), sum[i][j]);
        }
      }
    }
  }
}

/// Calls it for so many vectors.
template <class T, int Vectors = kRunVectors<T, kLanes<T>>>
MODELWHEEL_INLINE void short_sums(int vectors, const Strip<T> &strip, const Run<T> &run) {
  constexpr int kRows = Vectors == 1 ? kTallRows : kRunRows;
  if constexpr (Vectors > 1)
    if (vectors != Vectors) return short_sums<T, Vectors - 1>(vectors, strip, run);
  strip_of_short_sums<T, Vectors, kRows>(strip, run);
}

/// A strip of some tiles.
template <class T, class W>
void winograd_strip(const Winograd<T, W> &w, const WinogradStrip &strip, const T *filters, Range tiles) {
  const std::int64_t depth = w.c.in_features, rows = w.axes.rows;
  const std::int64_t last = strip.width - kLanes<T>;
  const int vectors = static_cast<int>(divide_up(strip.width, kLanes<T>));
  for (int p = 0; p < W::kPatchSize; ++p) {
    const Strip<T> right{w.segments,  rows,    depth, 1,    filters + p * filters_step(w.plan.depth, strip.width),
                         strip.width, true,    false, last, kPanel,
                         last,        nullptr, 0};
    const Run<T> run{w.inputs + p * kind_step(depth), tile_step(W::kPatchSize, depth),
                     w.products + p * kind_step(strip.width), tile_step(W::kPatchSize, strip.width), length(tiles)};
    if constexpr (W::kShortSums)
      short_sums(vectors, right, run);
    else
      strip_of_width<T, kLanes<T>, WinogradCalls<T>>(vectors, right, run);
  }
  if (!write_tiles<T, W, false>(w, strip, tiles)) write_tiles<T, W, true>(w, strip, tiles);
}

/// A block of columns for all tiles, which are in one block: filters of a strip are needed once.
template <class T, class W>
void winograd_strips(const Winograd<T, W> &w, Range columns) {
  const Range all{0, w.plan.tiles};
  if (columns.begin == 0) winograd_inputs(w, {0, 0}, all);
  for (std::int64_t j = columns.begin; j < columns.end;) {
    const WinogradStrip strip = strip_from<T>(j, columns.end);
    winograd_filters(w, strip, w.filters);
    winograd_strip(w, strip, w.filters, all);
    j = strip.first + strip.width;
  }
}

/// One of several parts, see axes_of_part.
template <class T, class W>
MODELWHEEL_COLD Winograd<T, W> part_of(const Winograd<T, W> &whole, std::int64_t part) {
  Winograd<T, W> w = whole;
  w.axes = axes_of_part(whole.axes, whole.plan.parts, part);
  w.plan.tile_rows = tiles_along(w.axes.axis[0]);
  w.plan.tiles = w.c.batch * w.plan.tile_rows * w.plan.tile_columns;
  w.in += w.axes.first_in;
  w.out += w.axes.first_out;
  return w;
}

/// A block of columns of a part, for one block of tiles after the other.
template <class T, class W>
void winograd_part(const Winograd<T, W> &w, Range columns) {
  for (Range tiles{0, 0}; tiles.end < w.plan.tiles;) {
    const Range before = tiles;
    tiles = tiles_from(w.plan, tiles.end);
    winograd_inputs(w, before, tiles);
    const T *filters = w.filters;
    for (std::int64_t j = columns.begin; j < columns.end;) {
      const WinogradStrip strip = strip_from<T>(j, columns.end);
      winograd_strip(w, strip, filters, tiles);
      filters += W::kPatchSize * filters_step(w.plan.depth, strip.width);
      j = strip.first + strip.width;
    }
  }
}

/// A block of columns.
template <class T, class W>
void winograd_columns(const Winograd<T, W> &w, Range columns) {
  T *to = w.filters;
  for (std::int64_t j = columns.begin; j < columns.end;) {
    const WinogradStrip strip = strip_from<T>(j, columns.end);
    winograd_filters(w, strip, to);
    to += W::kPatchSize * filters_step(w.plan.depth, strip.width);
    j = strip.first + strip.width;
  }
  for (std::int64_t part = 0; part < w.plan.parts; ++part) winograd_part(part_of(w, part), columns);
}

/// Computes a convolution with the windows of a Tiling for which prefers_winograd holds; see `convolution_by`.
template <class T, class W>
MODELWHEEL_NOINLINE void convolve_winograd(const Convolution &c, const T *in, const T *kernel, T *out, void *memory,
                                           const Epilogue<T> *epilogue) {
  const WinogradMemory m = winograd_memory<T>(c);
  Scratch scratch(memory);
  T *const filters = scratch.take<T>(m.filters), *const inputs = scratch.take<T>(m.inputs);
  T *const products = scratch.take<T>(m.products), *const zeros = scratch.take<T>(m.zeros);
  std::memset(zeros, 0, static_cast<std::size_t>(m.zeros) * sizeof(T));
  const WinogradPlan plan = winograd_plan<T>(c);
  const WinogradAxes axes = winograd_axes(c);
  Segment *const segments = scratch.take<Segment>(axes.rows);
  const std::int64_t apart = axes.row_dilation / plan.parts * plan.tile_columns;
  for (std::int64_t i = 0; i < axes.rows; ++i) segments[i] = {i * apart * tile_step(W::kPatchSize, c.in_features), 0};
  const Winograd<T, W> w{c, axes, plan, in, kernel, zeros, out, filters, inputs, products, epilogue, segments};
  const bool at_once = plan.tiles <= plan.block;
  for (std::int64_t j = 0; j < c.out_features; j += plan.columns) {
    const Range columns{j, smaller_of(j + plan.columns, c.out_features)};
    at_once ? winograd_strips(w, columns) : winograd_columns(w, columns);
  }
}

/// Windows of a Tiling, by Winograd's method.
template <class W>
struct WinogradMethod : ConvolutionMethod {
  static constexpr bool kTransforms = true;
  template <class T>
  static constexpr bool kFor = kIsFloat<T>;

  template <class T>
  static constexpr bool prefers(const Convolution &c) {
    return has_windows<W>(c) && prefers_winograd<T>(c);
  }

  template <class T>
  static constexpr std::size_t scratch(const Convolution &c) {
    return convolve_winograd_scratch<T>(c);
  }

  template <class T>
  static void compute(const Convolution &c, const T *in, const T *kernel, T *out, void *scratch,
                      const Epilogue<T> *epilogue) {
    convolve_winograd<T, W>(c, in, kernel, out, scratch, epilogue);
  }

  /// Tiles of the rows begin where tiles of all rows do.
  template <class T>
  MODELWHEEL_COLD static constexpr bool same_bits(const Convolution &whole, const Convolution &part) {
    return (whole.pad_low[0] - part.pad_low[0]) % unit<T>(whole) == 0;
  }

  template <class T>
  static constexpr std::int64_t unit(const Convolution &c) {
    const bool along_first = c.rank == 1 || W::kTaps[0] != 1 || winograd_axes(c).swapped;
    return along_first ? tile_side(c.kernel_size[0]) * c.kernel_dilation[0] : 1;
  }

  template <class T>
  MODELWHEEL_COLD static constexpr bool has_few_rows(const Convolution &c, std::int64_t rows, std::int64_t columns,
                                                     std::int64_t) {
    return winograd_cost<T>(c, c.out_size[0], columns) < winograd_cost<T>(c, rows, c.out_features);
  }
};

extern template void convolve_winograd<float, Tiling<3, 3>>(const Convolution &, const float *, const float *, float *,
                                                            void *, const Epilogue<float> *);
extern template void convolve_winograd<float, Tiling<1, 3>>(const Convolution &, const float *, const float *, float *,
                                                            void *, const Epilogue<float> *);
extern template void convolve_winograd<float, Tiling<1, 5>>(const Convolution &, const float *, const float *, float *,
                                                            void *, const Epilogue<float> *);

}  // namespace modelwheel::MODELWHEEL_LEVEL
