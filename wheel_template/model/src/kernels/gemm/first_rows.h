// src/kernels/gemm/first_rows.h - matrix products of the first rows of a batch.
#pragma once

#include "kernels/gemm/parts.h"
#include "kernels/parts/first_rows.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// What `dot` calls with any number of rows from `least` on; see dot_uses.
template <class T>
constexpr GemmUses dot_rows_uses(const Dot &d, std::int64_t Dot::*axis, std::int64_t batch, std::int64_t least,
                                 bool in_place) {
  GemmUses uses{};
  for (std::int64_t rows = least; rows <= batch; ++rows) add_dot<T>(first_rows(d, axis, batch, rows), in_place, uses);
  return uses;
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
