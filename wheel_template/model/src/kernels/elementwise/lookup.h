// src/kernels/elementwise/lookup.h - rows of a table, one for each index.
#pragma once

#include <cstring>

#include "kernels/base/level.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// As XLA's Gather of whole rows, an index outside the table becomes the nearest one inside. `wrap` is added to
/// negative indices before, as the models of Keras do.
struct Lookup {
  std::int64_t count, rows, row_bytes, wrap;
};

/// Where the row for an index begins in the table, in bytes.
template <class Index>
MODELWHEEL_INLINE std::int64_t place_of(const Lookup &l, Index index) {
  std::int64_t row = index;
  if (row < 0) row += l.wrap;
  return larger_of(smaller_of(row, l.rows - 1), std::int64_t{0}) * l.row_bytes;
}

template <class Index>
void lookup(const Lookup &l, const char *table, const Index *indices, char *out) {
  for (std::int64_t i = 0; i < l.count; ++i)
    std::memcpy(out + i * l.row_bytes, table + place_of(l, indices[i]), static_cast<std::size_t>(l.row_bytes));
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
