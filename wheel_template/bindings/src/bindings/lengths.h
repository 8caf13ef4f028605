// src/bindings/lengths.h - models whose inputs may have several lengths: the length of a call.
#pragma once

#include <cstddef>
#include <string>

#include "bindings/arrays.h"
#include "modelwheel/abi.h"
#include "modelwheel/lengths.hpp"

namespace modelwheel {

/// The length that the first array with such an axis has; the largest if it is not an array of that rank, which is
/// then reported as a wrong shape; 0 for models without lengths. Raises ValueError if it is not from 1 to the largest.
inline std::size_t length_of(const modelwheel_api &api, const LengthTable &lengths, const NumPy &numpy,
                             py::handle arrays) {
  if (lengths.count == 0) return 0;
  const std::size_t largest = lengths.largest();
  for (std::size_t i = 0; i < api.num_inputs; ++i)
    for (std::size_t axis = 0; axis < api.inputs[i].rank; ++axis) {
      if (lengths.inputs[i][axis].per_length == 0) continue;
      const py::handle array = item(arrays, i);
      if (!numpy.PyArray_Check_(array.ptr()) || rank_of(array) != api.inputs[i].rank) return largest;
      const auto length = static_cast<std::size_t>(fields(array).dimensions[axis]);
      if (length < 1 || length > largest)
        throw py::value_error(std::string(api.name) + ": input '" + api.inputs[i].name + "' has the length " +
                              std::to_string(length) + " along axis " + std::to_string(axis) + "; lengths from 1 to " +
                              std::to_string(largest) + " were compiled");
      return length;
    }
  return 0;
}

}  // namespace modelwheel
