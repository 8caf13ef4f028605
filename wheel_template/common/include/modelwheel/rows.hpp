// modelwheel/rows.hpp - where the rows of a tensor are: its batch axis.
#ifndef MODELWHEEL_ROWS_HPP
#define MODELWHEEL_ROWS_HPP

#include <cstddef>

#include "modelwheel/abi.h"

namespace modelwheel {

/// The axis that grows with the batch: the one of extent -1. 0 for a tensor that has none.
constexpr std::size_t batch_axis(const modelwheel_tensor &tensor) {
  if (tensor.leading_per_row == 0) return 0;
  std::size_t axis = 0;
  while (axis + 1 < tensor.rank && tensor.shape[axis] >= 0) ++axis;
  return axis;
}

/// How many pieces a row consists of: the product of the extents before the batch axis. 1 where rows follow each other.
constexpr std::size_t row_pieces(const modelwheel_tensor &tensor) {
  std::size_t pieces = 1;
  for (std::size_t axis = 0; axis < batch_axis(tensor); ++axis) pieces *= static_cast<std::size_t>(tensor.shape[axis]);
  return pieces;
}

}  // namespace modelwheel

#endif  // MODELWHEEL_ROWS_HPP
