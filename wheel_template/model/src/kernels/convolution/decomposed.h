// src/kernels/convolution/decomposed.h - convolutions of long windows along a line by Winograd's method, sub-filter by
// sub-filter.
//
// A window of 4 s + m taps is s sub-filters of four taps and one of m (Huang et al., "DWM: A Decomposable Winograd
// Method for Convolution Acceleration", arXiv:2002.00552). The patches of inputs of two adjacent outputs begin at even
// places for all of them, so that each input is transformed once; sums over all features and sub-filters are
// transformed back once. Two outputs take 5 s + m + 1 products instead of 2 (4 s + m). With a stride, the places that
// it passes over are further features. The filters are transformed when they are needed first, so that weights are
// stored once.
//
// Vectors run along pairs of outputs: then a convolution with few output features fills them too, and each number of
// the filters is read for several vectors.
#pragma once

#include <cstring>

#include "kernels/base/shuffle.h"
#include "kernels/convolution/decomposed_plan.h"
#include "kernels/convolution/method.h"
#include "kernels/convolution/winograd_subfilters.h"
#include "kernels/elementwise/epilogue.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// What all parts of a convolution need.
template <class T>
struct Decomposed {
  const Convolution &c;
  DecomposedPlan plan;
  const T *kernel;
  T *filters, *split, *inputs, *sums;
  const Epilogue<T> *epilogue;

  /// Tap (0, 0) of the filters of a column.
  const T *filter(std::int64_t column) const {
    const std::int64_t to_column = c.panel == 0 ? column : column / kPanel * c.panel + column % kPanel;
    return kernel + to_column + plan.rows.first_tap + plan.line.first_tap;
  }
};

/// Transforms the filters of `width` columns of a piece: the kinds one after another, each feature after feature.
template <class T, int Lanes, class Transform>
MODELWHEEL_NOINLINE void transform_piece(const Decomposed<T> &d, const LinePiece &piece, std::int64_t column,
                                         std::int64_t width, T *to) {
  constexpr int kTaps = Transform::kTaps;
  const Axis &line = d.plan.line;
  const std::int64_t tap = line.tap_step * line.stride, plane = filter_step(piece, width);
  const T *row = d.filter(column) + piece.row * d.plan.rows.tap_step + piece.sub * kSubTaps * tap;
  for (std::int64_t s = 0; s < piece.subs; ++s, row += kSubTaps * tap) {
    std::int64_t feature = piece.feature % d.c.in_features;
    const T *from = row + piece.feature / d.c.in_features * line.tap_step + feature * d.c.kernel_in;
    for (std::int64_t f = 0; f < piece.features; ++f) {
      for (std::int64_t j = 0; j < width; j += Lanes) {
        Vector<T, Lanes> x[kTaps], of_kind[kTaps + 1];
        MODELWHEEL_UNROLL
        for (int i = 0; i < kTaps; ++i) x[i] = load<T, Lanes>(from + i * tap + j);
        Transform::filter(x, of_kind);
        MODELWHEEL_UNROLL
        for (int i = 0; i <= kTaps; ++i) store<T, Lanes>(to + i * plane + (f * piece.subs + s) * width + j, of_kind[i]);
      }
      from += d.c.kernel_in;
      if (++feature == d.c.in_features) {
        feature = 0;
        from += line.tap_step - d.c.in_features * d.c.kernel_in;
      }
    }
  }
}

template <class T>
MODELWHEEL_INLINE void piece_filters(const Decomposed<T> &d, const LinePiece &piece, std::int64_t column,
                                     std::int64_t width, T *to) {
  constexpr int kNarrow = smaller_of(kLanes<T>, static_cast<int>(kLineColumns));
  with_taps(piece.taps, [&](auto transform) {
    using Transform = decltype(transform);
    if (width % kLanes<T> == 0)
      transform_piece<T, kLanes<T>, Transform>(d, piece, column, width, to);
    else
      transform_piece<T, kNarrow, Transform>(d, piece, column, width, to);
  });
}

/// Copies a row of the input, padded: even places, then odd ones, each feature after feature.
template <class T>
MODELWHEEL_NOINLINE void split_row(const Decomposed<T> &d, const T *in) {
  const DecomposedPlan &p = d.plan;
  const std::int64_t step = 2 * p.line.stride, features = d.c.in_features;
  T *to = d.split;
  for (std::int64_t place = 0; place < step; ++place, to += features * p.places) {
    // Place i of these is place i * step + first of the input.
    const std::int64_t first = place - p.line.pad_low;
    const std::int64_t begin = smaller_of(larger_of(-divide_down(first, step), std::int64_t{0}), p.places);
    const std::int64_t inside = divide_down(p.line.in_size - 1 - first, step) + 1;
    const std::int64_t end = larger_of(begin, smaller_of(inside, p.places));
    for (std::int64_t f = 0; f < features; ++f) {
      T *const row = to + f * p.places;
      std::memset(row, 0, static_cast<std::size_t>(begin) * sizeof(T));
      std::memset(row + end, 0, static_cast<std::size_t>(p.places - end) * sizeof(T));
    }
    const std::int64_t in_step = step * p.line.in_step;
    transpose(in + begin * in_step + first * p.line.in_step, in_step, end - begin, features, to + begin, p.places);
  }
}

/// Transforms the patches of a row, `first` and those that follow.
template <class T, class Transform>
MODELWHEEL_NOINLINE void transform_row_patches(const DecomposedPlan &p, const T *split, std::int64_t first,
                                               std::int64_t count, T *to) {
  constexpr int kPlaces = Transform::kTaps + 1;
  const std::int64_t plane = p.features * p.patches;
  for (std::int64_t f = 0; f < p.features; ++f, to += p.patches) {
    const T *even = split + f * p.places + first, *odd = even + p.features * p.places;
    for (std::int64_t i = 0; i < count; i += kLanes<T>) {
      Vector<T> x[kPlaces], of_kind[kPlaces];
      MODELWHEEL_UNROLL
      for (int j = 0; j < kPlaces; ++j) x[j] = load((j % 2 == 0 ? even : odd) + i + j / 2);
      Transform::input(x, of_kind);
      MODELWHEEL_UNROLL
      for (int j = 0; j < kPlaces; ++j) store(to + j * plane + i, of_kind[j]);
    }
  }
}

/// Transforms a row of an image; outside of it are zeros.
template <class T>
MODELWHEEL_NOINLINE void line_inputs(const Decomposed<T> &d, const T *image, std::int64_t row, T *to) {
  const DecomposedPlan &p = d.plan;
  if (row < 0 || row >= p.rows.in_size) {
    std::memset(to, 0, static_cast<std::size_t>(row_patches(p)) * sizeof(T));
    return;
  }
  split_row(d, image + row * p.rows.in_step);
  transform_row_patches<T, SubTransform<kSubTaps>>(p, d.split, 0, p.patches, to);
  if (p.rest > 0)
    with_taps(p.rest, [&](auto transform) {
      transform_row_patches<T, decltype(transform)>(p, d.split, 2 * p.subs, p.vectors * kLanes<T>,
                                                    to + whole_patches(p));
    });
}

/// Products of one kind that are added to the sums of some filters along the line.
template <class T>
struct LineTile {
  const T *inputs;
  std::int64_t features, feature_step, subs, sub_step;
  const T *filters;
  std::int64_t width;
  T *sums;
  std::int64_t step;
  bool accumulates;
};

template <class T, int Vectors, int kFilters>
MODELWHEEL_NOINLINE void line_tile(const LineTile<T> &given) {
  const LineTile<T> t = given;
  Vector<T> sum[kFilters][Vectors] = {};
  const T *filters = t.filters;
  for (std::int64_t f = 0; f < t.features; ++f) {
    const T *from = t.inputs + f * t.feature_step;
    for (std::int64_t s = t.subs; s > 0; --s, from += t.sub_step, filters += t.width) {
      Vector<T> patches[Vectors];
      MODELWHEEL_UNROLL
      for (int v = 0; v < Vectors; ++v) {
        patches[v] = load(from + v * kLanes<T>);
        keep_in_register(patches[v]);
      }
      MODELWHEEL_UNROLL
      for (int i = 0; i < kFilters; ++i) {
        const Vector<T> filter = splat<T>(filters[i]);
        MODELWHEEL_UNROLL
        for (int v = 0; v < Vectors; ++v) sum[i][v] += filter * patches[v];
      }
    }
  }
  T *to = t.sums;
  MODELWHEEL_UNROLL
  for (int i = 0; i < kFilters; ++i, to += t.step) {
    MODELWHEEL_UNROLL
    for (int v = 0; v < Vectors; ++v) {
      T *const at = to + v * kLanes<T>;
      store(at, t.accumulates ? load(at) + sum[i][v] : sum[i][v]);
    }
  }
}

/// Tiles of so many vectors and all columns.
template <class T, int Vectors = kLineVectors>
MODELWHEEL_INLINE void line_tiles(int vectors, LineTile<T> t) {
  if constexpr (Vectors > 1)
    if (vectors != Vectors) return line_tiles<T, Vectors - 1>(vectors, t);
  if constexpr (Vectors == 1 && kVectorRegisters == 32)
    if (t.width == kMostLineColumns) return line_tile<T, 1, kMostLineColumns>(t);
  constexpr int kFilters = line_filters(Vectors);
  for (std::int64_t i = 0; i < t.width; i += kFilters) {
    line_tile<T, Vectors, kFilters>(t);
    t.filters += kFilters;
    t.sums += kFilters * t.step;
  }
}

/// Adds the products of a piece with the inputs of a row.
template <class T>
MODELWHEEL_NOINLINE void add_piece(const Decomposed<T> &d, const LinePiece &piece, const T *inputs, const T *filters,
                                   std::int64_t width, bool accumulates) {
  const DecomposedPlan &p = d.plan;
  const bool whole = piece.taps == kSubTaps;
  if (!whole) inputs += whole_patches(p);
  // Of a piece with one sub-filter, features are the inner loop.
  const bool by_features = piece.subs == 1;
  const std::int64_t step = p.vectors * kLanes<T>;
  inputs += piece.feature * p.patches + (whole ? 2 * piece.sub : 0);
  with_taps(piece.taps, [&](auto transform) {
    for (const int kind : decltype(transform)::kKinds) {
      for (std::int64_t done = 0; done < p.vectors;) {
        const std::int64_t left = p.vectors - done, some = divide_up(left, divide_up(left, std::int64_t{kLineVectors}));
        line_tiles<T>(static_cast<int>(some),
                      {inputs + done * kLanes<T>, by_features ? 1 : piece.features, p.patches,
                       by_features ? piece.features : piece.subs, by_features ? p.patches : 2, filters, width,
                       d.sums + kind * kMostLineColumns * step + done * kLanes<T>, step, accumulates});
        done += some;
      }
      inputs += p.features * p.patches;
      filters += filter_step(piece, width);
    }
  });
}

/// The sums of an output in `width` columns, by the definition, with what is outside the image as zeros.
template <class T>
MODELWHEEL_COLD MODELWHEEL_NOINLINE void direct_line_sums(const Decomposed<T> &d, const T *image, std::int64_t y,
                                                          std::int64_t x, std::int64_t column, std::int64_t width,
                                                          T (&to)[kMostLineColumns]) {
  constexpr int kNarrow = smaller_of(kLanes<T>, static_cast<int>(kLineColumns));
  const Axis &rows = d.plan.rows, &line = d.plan.line;
  for (std::int64_t j = 0; j < width; j += kNarrow) {
    Vector<T, kNarrow> sum{};
    for (std::int64_t i = 0; i < rows.kernel_size; ++i)
      for (std::int64_t tap = 0; tap < line.kernel_size; ++tap) {
        const std::int64_t row = window_start(rows, y) + i, place = window_start(line, x) + tap;
        const bool inside = row >= 0 && row < rows.in_size && place >= 0 && place < line.in_size;
        const T *const left = inside ? image + row * rows.in_step + place * line.in_step : nullptr;
        const T *const right = d.filter(column + j) + i * rows.tap_step + tap * line.tap_step;
        for (std::int64_t f = 0; f < d.c.in_features; ++f)
          sum += splat<T, kNarrow>(inside ? left[f] : T{0}) * load<T, kNarrow>(right + f * d.c.kernel_in);
      }
    store<T, kNarrow>(to + j, sum);
  }
}

/// A vector of pairs of outputs in some columns, before they become rows.
template <class T>
struct LinePairs {
  alignas(64) T sum[2][kMostLineColumns][kLanes<T>];
};

/// Computes sums that are not finite again without transforms, in which infinities cancel each other and large numbers
/// overflow.
template <class T>
MODELWHEEL_COLD MODELWHEEL_NOINLINE void correct_pairs(const Decomposed<T> &d, const T *image, std::int64_t y,
                                                       std::int64_t first, std::int64_t places, std::int64_t column,
                                                       std::int64_t width, LinePairs<T> &pairs) {
  for (std::int64_t x = 0; x < places; ++x) {
    bool finite = true;
    for (std::int64_t j = 0; j < width; ++j) {
      const T sum = pairs.sum[x % 2][j][x / 2];
      finite = finite && sum - sum == 0;
    }
    if (finite) continue;
    T direct[kMostLineColumns];
    direct_line_sums(d, image, y, first + x, column, width, direct);
    for (std::int64_t j = 0; j < width; ++j) {
      T &sum = pairs.sum[x % 2][j][x / 2];
      if (!(sum - sum == 0)) sum = direct[j];
    }
  }
}

/// Writes row y of an image in some columns: `to` is its first output.
template <class T>
MODELWHEEL_NOINLINE void write_pairs(const Decomposed<T> &d, const T *image, std::int64_t y, std::int64_t column,
                                     std::int64_t width, T *to) {
  constexpr std::int64_t kPlaces = 2 * kLanes<T>;
  const Axis &line = d.plan.line;
  const std::int64_t step = d.plan.vectors * kLanes<T>;
  for (std::int64_t x = 0; x < line.out_size; x += kPlaces, to += kPlaces * line.out_step) {
    LinePairs<T> pairs;
    Vector<T> zero{};  // NaN after a sum that is not finite
    for (std::int64_t j = 0; j < width; ++j) {
      Vector<T> of_kind[kSubKinds], sum[2];
      MODELWHEEL_UNROLL
      for (int kind = 0; kind < kSubKinds; ++kind)
        of_kind[kind] = load(d.sums + (kind * kMostLineColumns + j) * step + x / 2);
      transform_sums(of_kind, sum);
      MODELWHEEL_UNROLL
      for (int i = 0; i < 2; ++i) {
        zero += sum[i] - sum[i];
        store(pairs.sum[i][j], sum[i]);
      }
    }
    const std::int64_t places = smaller_of(kPlaces, line.out_size - x);
    T total = 0;
    for (int lane = 0; lane < kLanes<T>; ++lane) total += zero[lane];
    if (total != 0) correct_pairs(d, image, y, x, places, column, width, pairs);
    transpose(pairs.sum[0][0], kLanes<T>, width, (places + 1) / 2, to, 2 * line.out_step);
    transpose(pairs.sum[1][0], kLanes<T>, width, places / 2, to + line.out_step, 2 * line.out_step);
    if (d.epilogue != nullptr) finish_rows(*d.epilogue, to, places, line.out_step, column, width);
  }
}

/// The transformed inputs of a row, which may be outside the image.
template <class T>
MODELWHEEL_INLINE T *inputs_of_row(const Decomposed<T> &d, std::int64_t row) {
  const std::int64_t rows = d.plan.rows.kernel_size;
  return d.inputs + (row - divide_down(row, rows) * rows) * row_patches(d.plan);
}

/// Row y of an image, from the transformed inputs of the rows of its window; `first` says that no filters are
/// transformed.
template <class T>
void line_of_image(const Decomposed<T> &d, const T *image, std::int64_t y, bool first, T *to) {
  const DecomposedPlan &p = d.plan;
  const std::int64_t start = window_start(p.rows, y);
  T *filters = d.filters;
  for (std::int64_t column = 0; column < d.c.out_features; column += kMostLineColumns) {
    const std::int64_t width = smaller_of(kMostLineColumns, d.c.out_features - column);
    bool accumulates = false;
    each_piece(p, [&](const LinePiece &piece) {
      if (first || !p.keeps) piece_filters(d, piece, column, width, filters);
      add_piece(d, piece, inputs_of_row(d, start + piece.row), filters, width, accumulates);
      accumulates = true;
      if (p.keeps) filters += piece_size(piece, width);
    });
    write_pairs(d, image, y, column, width, to + column);
  }
}

/// Computes a convolution for which prefers_decomposed holds; see `convolution_by`. The epilogue must not wait.
template <class T>
MODELWHEEL_NOINLINE void convolve_decomposed(const Convolution &c, const T *in, const T *kernel, T *out, void *memory,
                                             const Epilogue<T> *epilogue) {
  const DecomposedMemory m = decomposed_memory<T>(c);
  Scratch scratch(memory);
  T *const filters = scratch.take<T>(m.filters), *const split = scratch.take<T>(m.split);
  T *const inputs = scratch.take<T>(m.inputs), *const sums = scratch.take<T>(m.sums);
  const Decomposed<T> d{c, decomposed_plan<T>(c), kernel, filters, split, inputs, sums, epilogue};
  const Axis &rows = d.plan.rows;
  for (std::int64_t i = 0; i < c.batch; ++i) {
    const T *const image = in + i * c.in_batch;
    // Rows before `next` are transformed, as far as they are needed.
    std::int64_t next = window_start(rows, 0);
    for (std::int64_t y = 0; y < rows.out_size; ++y) {
      const std::int64_t start = window_start(rows, y);
      for (next = larger_of(next, start); next < start + rows.kernel_size; ++next)
        line_inputs(d, image, next, inputs_of_row(d, next));
      line_of_image(d, image, y, i == 0 && y == 0, out + i * c.out_batch + y * rows.out_step);
    }
  }
}

/// Long windows, by transforms of their parts.
struct DecomposedMethod : ConvolutionMethod {
  static constexpr bool kTransforms = true;
  template <class T>
  static constexpr bool kFor = kIsFloat<T>;

  template <class T>
  static constexpr bool prefers(const Convolution &c) {
    return prefers_decomposed<T>(c);
  }

  template <class T>
  static constexpr std::size_t scratch(const Convolution &c) {
    return convolve_decomposed_scratch<T>(c);
  }

  template <class T>
  static void compute(const Convolution &c, const T *in, const T *kernel, T *out, void *scratch,
                      const Epilogue<T> *epilogue) {
    convolve_decomposed(c, in, kernel, out, scratch, epilogue);
  }

  /// Pairs of outputs along a line begin where pairs of all do.
  template <class T>
  MODELWHEEL_COLD static constexpr bool same_bits(const Convolution &whole, const Convolution &part) {
    return whole.rank == 2 || (whole.pad_low[0] - part.pad_low[0]) % (2 * whole.stride[0]) == 0;
  }

  template <class T>
  static constexpr std::int64_t unit(const Convolution &c) {
    return c.rank == 1 ? 2 * kLanes<T> : 1;
  }
};

extern template void convolve_decomposed(const Convolution &, const float *, const float *, float *, void *,
                                         const Epilogue<float> *);

}  // namespace modelwheel::MODELWHEEL_LEVEL
