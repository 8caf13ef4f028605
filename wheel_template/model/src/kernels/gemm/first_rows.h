// src/kernels/gemm/first_rows.h - matrix products of the first rows of a batch.
#pragma once

#include "kernels/gemm/parts.h"
#include "kernels/parts/first_rows.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// The rows of a product where a batch is repeated so often, as in each step of a sequence.
struct Groups {
  std::int64_t count;
};

/// The first rows of each group.
constexpr Dot first_rows(const Dot &whole, const Groups &groups, std::int64_t batch, std::int64_t rows) {
  if (rows == batch) return whole;
  Dot some = whole;
  const std::int64_t all = whole.m / groups.count;
  some.m = all / batch * rows;
  some.groups = groups.count;
  some.lhs_group = all * whole.lhs_m;
  some.out_group = all * whole.out_m;
  return some;
}

/// What `dot` calls with any number of rows from `least` on; see dot_uses.
template <class T, class Axis>
constexpr GemmUses dot_rows_uses(const Dot &d, const Axis &axis, const RowCounts &counts, std::int64_t least,
                                 bool in_place) {
  GemmUses uses{};
  for_rows(d, axis, counts, least, [&](const Dot &some) { add_dot<T>(some, in_place, uses); });
  return uses;
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
