// src/kernels/gemm/first_rows.h - matrix products of the first rows of a batch.
#pragma once

#include "kernels/gemm/parts.h"
#include "kernels/parts/first_rows.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// What `dot` calls with any number of rows from `least` on; see dot_uses.
template <class T>
constexpr GemmUses dot_rows_uses(const Dot &d, std::int64_t Dot::*axis, const RowCounts &counts, std::int64_t least,
                                 bool in_place) {
  GemmUses uses{};
  for_rows(d, axis, counts, least, [&](const Dot &some) { add_dot<T>(some, in_place, uses); });
  return uses;
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
