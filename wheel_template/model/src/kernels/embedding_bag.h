// src/kernels/embedding_bag.h - sums or maxima of rows of a table, one row for each index (EmbeddingBag of PyTorch).
//
// A pooling whose input is a look-up, without memory between them: rows are read where they are in the table.
#pragma once

#include "lookup.h"
#include "pooling.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// `Vectors` vectors of `Lanes` features at a time, from feature f on, of the rows for a patch of indices; returns
/// where they end. The same order as pool_features, so that results have the same bits.
template <class T, int Lanes, int Vectors, Reducer reducer, class Index>
MODELWHEEL_INLINE std::int64_t reduce_rows(const Lookup &l, const Pooling &p, const char *table,
                                           const Patch<Index> &patch, T *out, std::int64_t f) {
  const Vector<T, Lanes> in_factor = splat<T, Lanes>(static_cast<T>(p.in_factor));
  const Vector<T, Lanes> factor = splat<T, Lanes>(static_cast<T>(p.factor));
  for (; f + Lanes * Vectors <= p.features; f += Lanes * Vectors) {
    Vector<T, Lanes> total[Vectors];
    for (Vector<T, Lanes> &one : total) one = splat<T, Lanes>(static_cast<T>(p.initial));
    const Index *indices = patch.first;
    for (std::int64_t y = 0; y < patch.rows; ++y, indices += patch.row_step)
      for (std::int64_t x = 0; x < patch.columns; ++x) {
        const T *const row = reinterpret_cast<const T *>(table + place_of(l, indices[x * patch.step])) + f;
        for (int v = 0; v < Vectors; ++v)
          total[v] = reduced<reducer>(total[v], load<T, Lanes>(row + v * Lanes) * in_factor);
      }
    for (int v = 0; v < Vectors; ++v) store<T, Lanes>(out + f + v * Lanes, total[v] * factor);
  }
  return f;
}

template <class T, Reducer reducer, class Index>
MODELWHEEL_NOINLINE void reduce_windows(const Lookup &l, const Pooling &p, const char *table, const Index *indices,
                                        T *out) {
  const Axis rows = axis_of(p, 0, p.in_size[1]), columns = axis_of(p, 1, 1);
  for (std::int64_t image = 0; image < p.batch; ++image, indices += p.in_size[0] * p.in_size[1])
    for (std::int64_t y = 0; y < p.out_size[0]; ++y)
      for (std::int64_t x = 0; x < p.out_size[1]; ++x, out += p.features) {
        const Range inside_y = taps_within(rows, y), inside_x = taps_within(columns, x);
        const Patch<Index> patch{indices + (window_start(rows, y) + inside_y.begin) * p.in_size[1] +
                                     window_start(columns, x) + inside_x.begin,
                                 length(inside_y), p.in_size[1], length(inside_x), 1};
        std::int64_t f = reduce_rows<T, kLanes<T>, 8, reducer>(l, p, table, patch, out, 0);
        f = reduce_rows<T, kLanes<T>, 4, reducer>(l, p, table, patch, out, f);
        f = reduce_rows<T, kLanes<T>, 1, reducer>(l, p, table, patch, out, f);
        f = reduce_rows<T, 16 / static_cast<int>(sizeof(T)), 1, reducer>(l, p, table, patch, out, f);
        reduce_rows<T, 1, 1, reducer>(l, p, table, patch, out, f);
      }
}

/// Computes the pooling `p` of the rows that `l` looks up: one of T elements for each index of [batch, rows, columns].
template <class T, class Index>
void embedding_bag(const Lookup &l, const Pooling &p, const char *table, const Index *indices, T *out) {
  if (p.reducer == Reducer::kMaximum)
    reduce_windows<T, Reducer::kMaximum>(l, p, table, indices, out);
  else
    reduce_windows<T, Reducer::kSum>(l, p, table, indices, out);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
