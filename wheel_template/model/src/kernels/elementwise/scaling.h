// src/kernels/elementwise/scaling.h - features of images multiplied by factors.
//
// It waits for memory, or for the cache of the core that wrote the images: threads that share it each read their own.
#pragma once

#include "kernels/parts/division.h"
#include "kernels/parts/shared.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Each of `batch` images has `rows` places, and one factor for each of its features.
struct Scaling {
  std::int64_t batch, rows, features;
};

/// `Lanes` features at a time from feature j on; returns where they end.
template <class T, int Lanes>
MODELWHEEL_INLINE std::int64_t scale_features(const T *in, const T *factors, T *out, std::int64_t j,
                                              std::int64_t features) {
  for (; j + Lanes <= features; j += Lanes)
    store<T, Lanes>(out + j, load<T, Lanes>(in + j) * load<T, Lanes>(factors + j));
  return j;
}

/// Some places, counted through all images.
template <class T>
void scale_rows(const Scaling &s, Range rows, const T *in, const T *factors, T *out) {
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    const T *const own = factors + i / s.rows * s.features, *const from = in + i * s.features;
    T *const to = out + i * s.features;
    std::int64_t j = scale_features<T, kLanes<T>>(from, own, to, 0, s.features);
    j = scale_features<T, 16 / static_cast<int>(sizeof(T))>(from, own, to, j, s.features);
    scale_features<T, 1>(from, own, to, j, s.features);
  }
}

/// Computes out = in * factors; out may be in.
template <class T>
void scaling(const Scaling &s, const T *in, const T *factors, T *out) {
  scale_rows(s, {0, s.batch * s.rows}, in, factors, out);
}

/// The same in parts, which begin where those of the product that reads them do.
template <class T>
MODELWHEEL_NOINLINE void scaling_in_parts(const Shared &shared, const Scaling &s, const T *in, const T *factors,
                                          T *out) {
  const std::int64_t rows = s.batch * s.rows;
  const Division some{Along::kRows, rows, divide_up(rows, larger_of(shared.parts(), std::int64_t{1}))};
  if (some.count() == 1) return scaling(s, in, factors, out);
  shared.run(some.count(), [&](std::int64_t i, void *) { scale_rows(s, some.range(i), in, factors, out); });
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
