// src/kernels/pooling/volume.h - the largest element or the sum of each window of a volume, features contiguous.
//
// As for images: vectors along the features, and taps in the order of XLA's kernels.
#pragma once

#include "kernels/pooling/pooling.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// XLA's reduce-window over the three spatial axes of [batch, planes, rows, columns, features]; see Pooling.
struct VolumePooling {
  std::int64_t batch, in_size, window, out_size, stride, pad_low;
  /// Of one plane, without padding that counts.
  Pooling plane;
};

/// Part of a volume under a window: rows of several planes, and pixels of a row.
template <class T>
struct VolumePatch {
  struct Step {
    std::int64_t row, rows, plane;
  };
  struct Row {
    const T *at;
    std::int64_t left;
    MODELWHEEL_INLINE void operator+=(const Step &step) {
      at += step.row;
      if (--left != 0) return;
      at += step.plane - step.rows * step.row;
      left = step.rows;
    }
  };
  Row first;
  std::int64_t rows;
  Step row_step;
  std::int64_t columns, step;
  MODELWHEEL_INLINE const T *features(const Row &row, std::int64_t x, std::int64_t f) const {
    return row.at + x * step + f;
  }
};

template <class T, int Chains, Reducer reducer>
MODELWHEEL_NOINLINE void pool_volume(const VolumePooling &v, const T *in, T *out) {
  const Pooling &p = v.plane;
  const Axis rows = axis_of(p, 0, p.in_size[1] * p.in_step), columns = axis_of(p, 1, p.in_step);
  const std::int64_t plane = p.in_size[0] * rows.in_step;
  const Axis planes{v.in_size, v.window, v.out_size, v.stride, v.pad_low, 1, 1, plane, 0, 0, 0};
  for (std::int64_t z = 0; z < v.out_size; ++z)
    for (std::int64_t y = 0; y < p.out_size[0]; ++y)
      for (std::int64_t x = 0; x < p.out_size[1]; ++x, out += p.features) {
        const Range inside_z = taps_within(planes, z), inside_y = taps_within(rows, y),
                    inside_x = taps_within(columns, x);
        const T *const first = in + (window_start(planes, z) + inside_z.begin) * plane +
                               (window_start(rows, y) + inside_y.begin) * rows.in_step +
                               (window_start(columns, x) + inside_x.begin) * columns.in_step;
        const std::int64_t in_plane = length(inside_y);
        const VolumePatch<T> patch{{first, in_plane},
                                   length(inside_z) * in_plane,
                                   {rows.in_step, in_plane, plane},
                                   length(inside_x),
                                   columns.in_step};
        if (patch.columns == 2)
          pool_patch<T, Chains, 2, reducer, true>(p, patch, out);
        else
          pool_patch<T, Chains, 0, reducer, true>(p, patch, out);
      }
}

/// Computes a pooling.
template <class T>
void volume_pooling(const VolumePooling &v, const T *in, T *out) {
  const Pooling &p = v.plane;
  const std::int64_t in_step = v.in_size * p.in_size[0] * p.in_size[1] * p.in_step;
  const std::int64_t out_step = v.out_size * p.out_size[0] * p.out_size[1] * p.features;
  const bool is_wide = p.features >= 4 * kLanes<T>;
  for (std::int64_t i = 0; i < v.batch; ++i, in += in_step, out += out_step)
    if (p.reducer == Reducer::kMaximum)
      is_wide ? pool_volume<T, 4, Reducer::kMaximum>(v, in, out) : pool_volume<T, 1, Reducer::kMaximum>(v, in, out);
    else
      is_wide ? pool_volume<T, 4, Reducer::kSum>(v, in, out) : pool_volume<T, 1, Reducer::kSum>(v, in, out);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
