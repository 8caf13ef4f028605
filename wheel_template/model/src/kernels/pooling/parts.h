// src/kernels/pooling/parts.h - poolings in parts, for the threads of the caller.
#pragma once

#include "kernels/parts/ranged.h"
#include "kernels/parts/shared.h"
#include "kernels/pooling/volume.h"

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

/// Some volumes.
constexpr Ranged<VolumePooling> batch_range(const VolumePooling &v, Range r) {
  const Ranged<Pooling> plane = batch_range(v.plane, r);
  Ranged<VolumePooling> part{v, plane.left * v.in_size, 0, plane.out * v.out_size};
  part.shape.batch = length(r);
  return part;
}

/// Some features of volumes of which each has one output.
constexpr Ranged<VolumePooling> column_range(const VolumePooling &v, Range r) {
  Ranged<VolumePooling> part{v, r.begin, 0, r.begin};
  part.shape.plane.features = length(r);
  return part;
}

/// Some planes of outputs of a single volume.
constexpr Ranged<VolumePooling> row_range(const VolumePooling &v, Range r) {
  Ranged<VolumePooling> part{v, 0, 0, r.begin * v.plane.out_size[0] * v.plane.out_size[1] * v.plane.features};
  part.shape.out_size = length(r);
  part.shape.pad_low -= r.begin * v.stride;
  return part;
}

constexpr Division division_of(const VolumePooling &v, std::int64_t parts) {
  if (v.batch > 1) return {Along::kBatch, v.batch, divide_up(v.batch, parts)};
  if (v.out_size * v.plane.out_size[0] * v.plane.out_size[1] == 1) return in_columns(v.plane.features, parts);
  return {Along::kRows, v.out_size, divide_up(v.out_size, parts)};
}

/// Calls compute(part) for parts of a pooling, which need no scratch memory.
template <class Any, class Compute>
MODELWHEEL_INLINE void compute_in_parts(const Shared &shared, const Any &p, const Compute &compute) {
  const Division division = division_of(p, larger_of(shared.parts(), std::int64_t{1}));
  if (division.count() == 1) return compute(Ranged<Any>{p, 0, 0, 0});
  shared.run(division.count(), [&](std::int64_t i, void *) { compute(part_of(p, division, i)); });
}

/// `pooling` in parts.
template <class T>
MODELWHEEL_NOINLINE void pooling_in_parts(const Shared &shared, const Pooling &p, const T *in, T *out) {
  compute_in_parts(shared, p,
                   [&](const Ranged<Pooling> &part) { pooling(part.shape, in + part.left, out + part.out); });
}

/// `volume_pooling` in parts.
template <class T>
MODELWHEEL_NOINLINE void volume_pooling_in_parts(const Shared &shared, const VolumePooling &v, const T *in, T *out) {
  compute_in_parts(shared, v, [&](const Ranged<VolumePooling> &part) {
    volume_pooling(part.shape, in + part.left, out + part.out);
  });
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
