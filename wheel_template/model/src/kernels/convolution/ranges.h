// src/kernels/convolution/ranges.h - parts of a convolution: some images, rows or features of the result.
#pragma once

#include "kernels/convolution/methods.h"
#include "kernels/parts/ranged.h"

namespace modelwheel::MODELWHEEL_LEVEL {

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

/// A part that keeps the transforms of the whole if that has some: with fewer places or features for each filter, its
/// shape alone might not be worth them.
constexpr Ranged<Convolution> as_whole(const Convolution &whole, Ranged<Convolution> part) {
  part.shape.of_transforms = has_transforms(whole);
  return part;
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
