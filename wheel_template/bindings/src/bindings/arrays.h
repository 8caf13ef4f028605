// src/bindings/arrays.h - NumPy arrays as the memory of tensors.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <new>
#include <string>
#include <vector>

#include "modelwheel/abi.h"
#include "modelwheel/buffer.hpp"

namespace modelwheel {

namespace py = pybind11;

/// NumPy's name of an element type. NumPy has no bfloat16: its values are passed as their bits.
inline const char *numpy_name(modelwheel_dtype dtype) {
  return dtype == MODELWHEEL_BFLOAT16 ? "uint16" : dtype_name(dtype);
}

/// NumPy's letter for the kind of an element type: with the size of an element it identifies the type.
inline char numpy_kind(modelwheel_dtype dtype) {
  switch (dtype) {
    case MODELWHEEL_BOOL: return 'b';
    case MODELWHEEL_INT8:
    case MODELWHEEL_INT16:
    case MODELWHEEL_INT32:
    case MODELWHEEL_INT64: return 'i';
    case MODELWHEEL_FLOAT16:
    case MODELWHEEL_FLOAT32:
    case MODELWHEEL_FLOAT64: return 'f';
    case MODELWHEEL_COMPLEX64:
    case MODELWHEEL_COMPLEX128: return 'c';
    default: return 'u';
  }
}

/// "(batch, 8, 8)"
inline std::string expected_shape(const modelwheel_tensor &tensor) {
  std::string text;
  for (std::size_t axis = 0; axis < tensor.rank; ++axis) {
    if (axis > 0) text += ", ";
    if (axis > 0 || tensor.leading_per_row == 0)
      text += std::to_string(tensor.shape[axis]);
    else
      text += tensor.leading_per_row == 1 ? "batch" : "batch * " + std::to_string(tensor.leading_per_row);
  }
  return '(' + text + (tensor.rank == 1 ? ",)" : ")");
}

/// Whether an array has the shape of a tensor with some number of rows.
inline bool has_shape(const py::array &array, const modelwheel_tensor &tensor) {
  if (static_cast<std::size_t>(array.ndim()) != tensor.rank) return false;
  for (std::size_t axis = tensor.leading_per_row != 0 ? 1 : 0; axis < tensor.rank; ++axis)
    if (array.shape(static_cast<py::ssize_t>(axis)) != tensor.shape[axis]) return false;
  return tensor.leading_per_row == 0 || static_cast<std::size_t>(array.shape(0)) % tensor.leading_per_row == 0;
}

/// Advice for the common mistake of passing one row without its batch axis; empty for any other shape.
inline const char *one_row_hint(const py::array &array, const modelwheel_tensor &tensor) {
  const auto rank = static_cast<std::size_t>(array.ndim());
  if (tensor.leading_per_row != 1 || rank + 1 != tensor.rank) return "";
  for (std::size_t axis = 0; axis < rank; ++axis)
    if (array.shape(static_cast<py::ssize_t>(axis)) != tensor.shape[axis + 1]) return "";
  return "; for one row pass array[None]";
}

/// Raises TypeError or ValueError, with one sentence, unless `array` can be the input `tensor` of `model`.
inline void check_input(const char *model, const modelwheel_tensor &tensor, const py::array &array) {
  const auto subject = [&] { return std::string(model) + ": input '" + tensor.name + '\''; };
  const py::dtype dtype = array.dtype();
  const bool native = dtype.byteorder() == '=' || dtype.byteorder() == '|';
  if (!native || dtype.kind() != numpy_kind(tensor.dtype) ||
      static_cast<std::size_t>(dtype.itemsize()) != tensor.item_bytes) {
    const char *bits = tensor.dtype == MODELWHEEL_BFLOAT16 ? " (the bits of bfloat16)" : "";
    throw py::type_error(subject() + " must be " + numpy_name(tensor.dtype) + bits + ", got " +
                         std::string(py::str(dtype)) + "; convert it with .astype('" + numpy_name(tensor.dtype) + "')");
  }
  if (!has_shape(array, tensor))
    throw py::value_error(subject() + " must have the shape " + expected_shape(tensor) + ", got " +
                          std::string(py::str(array.attr("shape"))) + one_row_hint(array, tensor));
}

/// A new array for a tensor with `rows` rows, at an address that models use in place. Its contents are undefined.
inline py::array new_output(const modelwheel_tensor &tensor, const py::dtype &dtype, std::size_t rows) {
  constexpr std::align_val_t kAlignment{MODELWHEEL_ALIGNMENT};
  std::vector<py::ssize_t> shape(tensor.shape, tensor.shape + tensor.rank);
  if (tensor.leading_per_row != 0) shape[0] = static_cast<py::ssize_t>(rows * tensor.leading_per_row);
  void *memory = ::operator new(tensor_bytes(tensor, rows), kAlignment);
  const py::capsule owner(memory,
                          [](void *pointer) { ::operator delete(pointer, std::align_val_t{MODELWHEEL_ALIGNMENT}); });
  return py::array(dtype, shape, memory, owner);
}

}  // namespace modelwheel
