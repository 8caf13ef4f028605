// src/bindings/bound.h - a call whose arrays were checked once: what each call still has to ask of them.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "bindings/arrays.h"

namespace modelwheel {

/// An array and its memory when it was bound. NumPy can give an array other memory or fewer elements in place
/// (`resize` with refcheck=False), although others refer to it.
class BoundArray {
 public:
  explicit BoundArray(py::object array) : array_(std::move(array)), memory_(fields(array_).data), elements_(count()) {}

  bool changed() const { return fields(array_).data != memory_ || count() != elements_; }

  py::handle get() const { return array_; }
  void *memory() const { return memory_; }

 private:
  Py_intptr_t count() const {
    Py_intptr_t elements = 1;
    for (std::size_t axis = 0; axis < rank_of(array_); ++axis) elements *= fields(array_).dimensions[axis];
    return elements;
  }

  py::object array_;
  void *memory_;
  Py_intptr_t elements_;
};

/// The arrays of a call, in the order of the model's inputs and outputs, and what it returns.
class Bound {
 public:
  Bound(std::size_t rows, std::size_t length) : rows_(rows), length_(length) {}

  void add_input(py::object array) {
    inputs_.emplace_back(std::move(array));
    sources_.push_back(inputs_.back().memory());
  }

  void add_output(py::object array) {
    outputs_.emplace_back(std::move(array));
    targets_.push_back(outputs_.back().memory());
  }

  void set_result(py::object result) { result_ = std::move(result); }

  std::size_t rows() const { return rows_; }
  std::size_t length() const { return length_; }
  const void *const *sources() const { return sources_.data(); }
  void *const *targets() const { return targets_.data(); }
  const py::object &result() const { return result_; }

  const std::vector<BoundArray> &inputs() const { return inputs_; }
  const std::vector<BoundArray> &outputs() const { return outputs_; }

 private:
  std::size_t rows_, length_;
  std::vector<BoundArray> inputs_, outputs_;
  std::vector<const void *> sources_;
  std::vector<void *> targets_;
  py::object result_;
};

}  // namespace modelwheel
