// src/kernels/ranges.h - parts of a product, a convolution and a pooling: some rows, columns or images of the result.
//
// A part is a smaller one of the same kind that begins elsewhere in memory, so that the kernels compute it as they are.
#pragma once

#include "convolution.h"
#include "dot.h"
#include "pooling.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// A part, and where it begins: offsets, in elements, from the start of the operands and of the result.
template <class Shape>
struct Ranged {
  Shape shape;
  std::int64_t left, right, out;
};

/// Some of the products of a batch.
constexpr Ranged<Dot> batch_range(const Dot &d, Range r) {
  Ranged<Dot> part{d, r.begin * d.lhs_batch, r.begin * d.rhs_batch, r.begin * d.out_batch};
  part.shape.batch = length(r);
  return part;
}

/// Some rows of each product; of lhs in panels, whole panels or all that follow.
constexpr Ranged<Dot> row_range(const Dot &d, Range r) {
  const std::int64_t left = d.n == 1 ? column_offset(gemm_of(transposed(d), nullptr), r.begin) : r.begin * d.lhs_m;
  Ranged<Dot> part{d, left, 0, r.begin * d.out_m};
  part.shape.m = length(r);
  return part;
}

/// Some columns of each product; of rhs in panels, whole panels or all that follow.
constexpr Ranged<Dot> column_range(const Dot &d, Range r) {
  Ranged<Dot> part{d, 0, column_offset(gemm_of(d, nullptr), r.begin), r.begin * d.out_n};
  part.shape.n = length(r);
  return part;
}

/// Whether each element of a part is the same sum in the same order as in the whole, so that it has the same bits.
/// gemm_narrow and the kernel of other elements add the products of a column in the order that its neighbours allow.
template <class T>
MODELWHEEL_COLD constexpr bool same_order(const Dot &whole, const Dot &part) {
  if (!kHasGemm<T>) return part.n == whole.n;
  const Dot form = oriented<T>(whole), own = oriented<T>(part);
  const bool narrow = prefers_narrow<T>(gemm_of(form, nullptr));
  return better_transposed<T>(whole) == better_transposed<T>(part) &&
         narrow == prefers_narrow<T>(gemm_of(own, nullptr)) && (!narrow || form.n == own.n);
}

/// Some images.
constexpr Ranged<Convolution> batch_range(const Convolution &c, Range r) {
  Ranged<Convolution> part{c, r.begin * c.in_batch, 0, r.begin * c.out_batch};
  part.shape.batch = length(r);
  return part;
}

/// Some outputs along the first spatial axis of each image. Their windows still see the whole input: padding that a
/// range does not reach is gone by itself, because window_start moves with pad_low.
constexpr Ranged<Convolution> row_range(const Convolution &c, Range r) {
  Ranged<Convolution> part{c, 0, 0, r.begin * c.out_spatial[0]};
  part.shape.out_size[0] = length(r);
  part.shape.pad_low[0] -= r.begin * c.stride[0];
  return part;
}

/// The same part, by the transforms of the whole if that has some: with fewer places or features for each filter, its
/// shape alone might not be worth them.
constexpr Ranged<Convolution> as_whole(const Convolution &whole, Ranged<Convolution> part) {
  part.shape.of_winograd = prefers_winograd<float>(whole) || prefers_decomposed<float>(whole);
  return part;
}

template <class Shape>
constexpr Ranged<Shape> as_whole(const Shape &, const Ranged<Shape> &part) {
  return part;
}

/// Whether output features can be computed without the others: there is one group, or one for each of them.
constexpr bool has_columns(const Convolution &c) {
  return c.groups == 1 || (is_depthwise(c) && c.out_features == c.in_features);
}

/// Some output features, in whole panels if the kernel has them.
constexpr Ranged<Convolution> column_range(const Convolution &c, Range r) {
  const std::int64_t filters = c.panel == 0 ? r.begin * c.kernel_out : r.begin / kPanel * c.panel;
  Ranged<Convolution> part{c, c.groups == 1 ? 0 : r.begin * c.in_feature, filters, r.begin * c.out_feature};
  part.shape.out_features = length(r);
  if (c.groups > 1) part.shape.groups = part.shape.in_features = length(r);
  return part;
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

/// The same for a convolution. A part that needs no padding is computed in place; the inner dimension is then walked in
/// another order if the input has gaps. Of few columns or short filters, gemm_narrow adds the products.
template <class T>
MODELWHEEL_COLD constexpr bool same_order(const Convolution &whole, const Convolution &part) {
  if (!kHasGemm<T>) return part.out_features == whole.out_features;
  if (is_depthwise(whole)) return is_depthwise(part);
  // Tiles of the rows begin where tiles of all rows do.
  if (prefers_winograd<T>(whole) || prefers_winograd<T>(part))
    return prefers_winograd<T>(whole) && prefers_winograd<T>(part) &&
           (whole.pad_low[0] - part.pad_low[0]) % tile_side(whole.kernel_size[0]) == 0;
  if (prefers_decomposed<T>(whole) || prefers_decomposed<T>(part))
    return prefers_decomposed<T>(whole) && prefers_decomposed<T>(part) &&
           (whole.rank == 2 || (whole.pad_low[0] - part.pad_low[0]) % (2 * whole.stride[0]) == 0);
  if (prefers_narrow<T>(whole) || prefers_narrow<T>(part))
    return prefers_narrow<T>(whole) && prefers_narrow<T>(part) && whole.out_features == part.out_features;
  if (prefers_adjacent<T>(whole) || prefers_adjacent<T>(part)) {
    const std::int64_t count = adjacent_outputs<T>(whole);
    return count == adjacent_outputs<T>(part) && whole.out_features == part.out_features &&
           pieces_of<T>(with_adjacent(whole, count)).padded == pieces_of<T>(with_adjacent(part, count)).padded;
  }
  const bool wide = part.out_features >= 2 * kLanes<T> && part.in_features / part.groups >= kLanes<T>;
  return (is_dense(whole) || pieces_of<T>(whole).padded == pieces_of<T>(part).padded) &&
         (whole.out_features == part.out_features || wide);
}

/// Some images.
constexpr Ranged<Pooling> batch_range(const Pooling &p, Range r) {
  const std::int64_t in = p.in_size[0] * p.in_size[1] * p.in_step, out = p.out_size[0] * p.out_size[1] * p.features;
  Ranged<Pooling> part{p, r.begin * in, 0, r.begin * out};
  part.shape.batch = length(r);
  return part;
}

/// Some features of images of which each has one output.
constexpr Ranged<Pooling> column_range(const Pooling &p, Range r) {
  Ranged<Pooling> part{p, r.begin, 0, r.begin};
  part.shape.features = length(r);
  return part;
}

/// Some rows of outputs of a single image.
constexpr Ranged<Pooling> row_range(const Pooling &p, Range r) {
  Ranged<Pooling> part{p, 0, 0, r.begin * p.out_size[1] * p.features};
  part.shape.out_size[0] = length(r);
  part.shape.pad_low[0] -= r.begin * p.stride[0];
  return part;
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
