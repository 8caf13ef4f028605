// src/bindings/inputs.h - the inputs of one call: checked, with their rows and their memory.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arguments.h"
#include "bindings/arrays.h"
#include "bindings/few.h"
#include "bindings/lengths.h"
#include "modelwheel/abi.h"
#include "modelwheel/lengths.hpp"

namespace modelwheel {

/// One array for each input. Raises TypeError or ValueError. The tuple must outlive it.
class Inputs {
 public:
  Inputs(const modelwheel_api &api, const LengthTable &lengths, const NumPy &numpy,
         const std::vector<py::dtype> &dtypes, py::handle given)
      : api_(api),
        length_(length_of(api, lengths, numpy, given)),
        tensors_(api.inputs, api.num_inputs, lengths.inputs, length_),
        memory_(api.num_inputs) {
    for (std::size_t i = 0; i < api_.num_inputs; ++i) {
      const py::handle value = item(given, i);
      if (is_plain(numpy, tensors_[i], dtypes[i], value)) {
        memory_[i] = fields(value).data;
        continue;
      }
      check_value(numpy, api_.name, "input", tensors_[i], dtypes[i], value);
      memory_[i] = fields(value).data;
      if (is_contiguous(value)) continue;
      if (knows_views(api_)) {
        add_view(i, value);
        continue;
      }
      copies_.push_back(checked_array(numpy, api_.name, "input", tensors_[i], dtypes[i], value));
      memory_[i] = fields(copies_.back()).data;
    }
    if (!views_.empty())
      for (std::size_t i = 0; i < api_.num_inputs; ++i) views_[i].data = memory_[i];
    rows_ = common_rows(given);
  }

  /// What axes with several lengths have; 0 for models without lengths.
  std::size_t length() const { return length_; }

  /// The number of rows that all inputs with a batch axis agree on; 1 where there are none.
  std::size_t rows() const { return rows_; }

  const void *const *memory() { return memory_.data(); }

  /// One view for each input if any is not dense; else null.
  const modelwheel_view *views() const { return views_.empty() ? nullptr : views_.data(); }

  Range range(std::size_t index) {
    for (const Strided &one : strided_)
      if (one.input == index) return one.range;
    return {memory_[index], tensor_bytes(tensors_[index], rows_)};
  }

 private:
  /// What a view needs of an array. Copied: another thread may give the array another shape while the GIL is released.
  struct Strided {
    std::size_t input;
    std::vector<std::ptrdiff_t> strides;
    Range range;
  };

  void add_view(std::size_t index, py::handle array) {
    const auto &own = fields(array);
    strided_.push_back({index, {own.strides, own.strides + own.nd}, range_of(array, api_.inputs[index].item_bytes)});
    views_.resize(api_.num_inputs);
    views_[index].strides = strided_.back().strides.data();  // which stay where they are when others are added
  }

  std::size_t common_rows(py::handle given) const {
    std::optional<std::size_t> first;
    std::size_t rows = 1;
    for (std::size_t i = 0; i < api_.num_inputs; ++i) {
      if (api_.inputs[i].leading_per_row == 0) continue;
      const Py_intptr_t extent = fields(item(given, i)).dimensions[batch_axis(api_.inputs[i])];
      const std::size_t own = static_cast<std::size_t>(extent) / api_.inputs[i].leading_per_row;
      if (first && own != rows)
        throw py::value_error(std::string(api_.name) + ": all inputs must have the same number of rows, but '" +
                              api_.inputs[*first].name + "' has " + std::to_string(rows) + " and '" +
                              api_.inputs[i].name + "' has " + std::to_string(own));
      if (!first) first = i;
      rows = own;
    }
    return rows;
  }

  const modelwheel_api &api_;
  const std::size_t length_;
  const TensorsAt tensors_;
  Few<const void *> memory_;
  std::vector<Strided> strided_;
  std::vector<modelwheel_view> views_;
  std::vector<py::object> copies_;  // of arrays that are not contiguous, for libraries without views
  std::size_t rows_ = 0;
};

}  // namespace modelwheel
