// poolings.h - drawn poolings, and results compared element by element.
#pragma once

#include <cmath>
#include <cstring>

#include "kernels/pooling/pooling.h"
#include "random.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// A pooling of up to three inputs of at most so many rows and columns. Windows may be in the padding altogether, or
/// leave out the input's edge.
inline Pooling random_pooling(Random &random, std::int64_t rows, std::int64_t columns) {
  const std::int64_t features[] = {1, 2, 3, 4, 5, 8, 15, 16, 17, 24, 33, 64, 77, 130, 200}, most[] = {rows, columns};
  const bool sum = random.chance(50);
  Pooling p{sum ? Reducer::kSum : Reducer::kMaximum,
            sum ? 0.0 : -INFINITY,
            random.integer(1, 3),
            random.pick(features),
            {},
            {},
            {},
            {},
            {},
            0,
            1,
            random.chance(30) ? 0.3 : 1.0};
  // Powers of two: products and sums are rounded alike then, together or one after the other.
  if (random.chance(30)) p.in_factor = 0.25;
  p.in_step = p.features;
  for (int axis = 0; axis < 2; ++axis) {
    p.in_size[axis] = random.integer(1, most[axis]);
    p.window[axis] = random.chance(30) ? p.in_size[axis] : random.integer(1, 8);
    p.stride[axis] = random.integer(1, 6);
    p.pad_low[axis] = random.chance(50) ? 0 : random.integer(-2, 6);
    p.out_size[axis] = random.chance(25) ? 1 : random.integer(1, 9);
  }
  return p;
}

/// Whether two results have the same bits; NaNs may differ in sign.
template <class T>
bool is_same(const T &a, const T &b) {
  return std::isnan(a) ? std::isnan(b) : std::memcmp(&a, &b, sizeof a) == 0;
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
