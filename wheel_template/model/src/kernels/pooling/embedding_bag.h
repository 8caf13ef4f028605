// src/kernels/pooling/embedding_bag.h - sums or maxima of rows of a table, one row for each index (EmbeddingBag of
// PyTorch).
//
// A pooling whose input is a look-up, without memory between them: rows are read where they are in the table.
#pragma once

#include "kernels/elementwise/lookup.h"
#include "kernels/pooling/pooling.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Part of an image under a window whose pixels are rows of a table: their indices.
template <class T, class Index>
struct TablePatch {
  using Row = const Index *;
  Row first;
  std::int64_t rows, row_step, columns;
  const Lookup &l;
  const char *table;
  MODELWHEEL_INLINE const T *features(Row row, std::int64_t x, std::int64_t f) const {
    return reinterpret_cast<const T *>(table + place_of(l, row[x])) + f;
  }
};

/// All features of a patch, many at a time: finding a row takes as long as reading some vectors of it.
template <class T, Reducer reducer, class Patch>
MODELWHEEL_INLINE void pool_table_patch(const Pooling &p, const Patch &patch, T *out) {
  std::int64_t f = pool_chains<T, 8, 0, reducer, true>(p, patch, out, 0);
  f = pool_chains<T, 4, 0, reducer, true>(p, patch, out, f);
  pool_rest<T, kLanes<T>, 0, reducer, true>(p, patch, out, f);
}

template <class T, Reducer reducer, class Index>
MODELWHEEL_NOINLINE void pool_table(const Lookup &l, const Pooling &p, const char *table, const Index *indices,
                                    T *out) {
  const Axis rows = axis_of(p, 0, p.in_size[1]), columns = axis_of(p, 1, 1);
  for (std::int64_t image = 0; image < p.batch; ++image, indices += p.in_size[0] * p.in_size[1])
    for (std::int64_t y = 0; y < p.out_size[0]; ++y)
      for (std::int64_t x = 0; x < p.out_size[1]; ++x, out += p.features) {
        const Range inside_y = taps_within(rows, y), inside_x = taps_within(columns, x);
        const Index *const first = indices + (window_start(rows, y) + inside_y.begin) * p.in_size[1] +
                                   window_start(columns, x) + inside_x.begin;
        pool_table_patch<T, reducer>(
            p, TablePatch<T, Index>{first, length(inside_y), p.in_size[1], length(inside_x), l, table}, out);
      }
}

/// Computes the pooling `p` of the rows that `l` looks up: one of T elements for each index of [batch, rows, columns].
template <class T, class Index>
void embedding_bag(const Lookup &l, const Pooling &p, const char *table, const Index *indices, T *out) {
  if (p.reducer == Reducer::kMaximum)
    pool_table<T, Reducer::kMaximum>(l, p, table, indices, out);
  else
    pool_table<T, Reducer::kSum>(l, p, table, indices, out);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
