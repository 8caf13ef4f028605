// src/kernels/pooling/parts.h - poolings in parts, for the threads of the caller.
#pragma once

#include "kernels/parts/ranged.h"
#include "kernels/parts/shared.h"
#include "kernels/pooling/pooling.h"

namespace modelwheel::MODELWHEEL_LEVEL {

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

constexpr Division division_of(const Pooling &p, std::int64_t parts) {
  if (p.batch > 1) return {Along::kBatch, p.batch, divide_up(p.batch, parts)};
  if (p.out_size[0] * p.out_size[1] == 1) return in_columns(p.features, parts);
  return {Along::kRows, p.out_size[0], divide_up(p.out_size[0], parts)};
}

/// `pooling` in parts, which need no scratch memory.
template <class T>
MODELWHEEL_NOINLINE void pooling_in_parts(const Shared &shared, const Pooling &p, const T *in, T *out) {
  const Division division = division_of(p, larger_of(shared.parts(), std::int64_t{1}));
  if (division.count() == 1) return pooling(p, in, out);
  shared.run(division.count(), [&](std::int64_t i, void *) {
    const Ranged<Pooling> part = part_of(p, division, i);
    pooling(part.shape, in + part.left, out + part.out);
  });
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
