// src/bindings/arrays.h - NumPy arrays as the memory of tensors.
#pragma once

#include <pybind11/numpy.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "bindings/arguments.h"
#include "bindings/gil.h"
#include "modelwheel/abi.h"
#include "modelwheel/buffer.hpp"
#include "modelwheel/rows.hpp"

namespace modelwheel {

/// NumPy's functions and types. Found once: pybind11's own classes look for them in each call.
using NumPy = py::detail::npy_api;

inline const py::detail::PyArray_Proxy &fields(py::handle array) { return *py::detail::array_proxy(array.ptr()); }

inline std::size_t rank_of(py::handle array) { return static_cast<std::size_t>(fields(array).nd); }

inline bool is_contiguous(py::handle array) { return (fields(array).flags & NumPy::NPY_ARRAY_C_CONTIGUOUS_) != 0; }

/// Whether the elements of an array are of a type, in this machine's order of bytes. Equal types may be several
/// objects.
inline bool has_dtype(const NumPy &numpy, py::handle array, py::handle dtype) {
  PyObject *const own = fields(array).descr;
  return own == dtype.ptr() || numpy.PyArray_EquivTypes_(own, dtype.ptr());
}

/// NumPy's name of an element type. NumPy has no bfloat16: its values are passed as their bits.
inline const char *numpy_name(modelwheel_dtype dtype) {
  return dtype == MODELWHEEL_BFLOAT16 ? "uint16" : dtype_name(dtype);
}

/// "(batch, 8, 8)"
inline std::string expected_shape(const modelwheel_tensor &tensor) {
  std::string text;
  for (std::size_t axis = 0; axis < tensor.rank; ++axis) {
    if (axis > 0) text += ", ";
    if (axis != batch_axis(tensor) || tensor.leading_per_row == 0)
      text += std::to_string(tensor.shape[axis]);
    else
      text += tensor.leading_per_row == 1 ? "batch" : "batch * " + std::to_string(tensor.leading_per_row);
  }
  return '(' + text + (tensor.rank == 1 ? ",)" : ")");
}

/// Whether an array has the shape of a tensor with some number of rows.
inline bool has_shape(py::handle array, const modelwheel_tensor &tensor) {
  if (rank_of(array) != tensor.rank) return false;
  const Py_intptr_t *const shape = fields(array).dimensions;
  for (std::size_t axis = 0; axis < tensor.rank; ++axis)
    if (shape[axis] != tensor.shape[axis] && tensor.shape[axis] >= 0) return false;
  return tensor.leading_per_row == 0 ||
         static_cast<std::size_t>(shape[batch_axis(tensor)]) % tensor.leading_per_row == 0;
}

/// Advice for the common mistake of passing one row without its batch axis; empty for any other shape.
inline std::string one_row_hint(py::handle array, const modelwheel_tensor &tensor) {
  const std::size_t rank = rank_of(array), batch = batch_axis(tensor);
  if (tensor.leading_per_row != 1 || rank + 1 != tensor.rank) return "";
  std::string places;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (fields(array).dimensions[axis] != tensor.shape[axis < batch ? axis : axis + 1]) return "";
    if (axis < batch) places += ":, ";
  }
  return "; for one row pass array[" + places + "None]";
}

/// "(3, 4)": the extents that NumPy keeps; a subclass may say something else.
inline std::string shape_text(py::handle array) {
  std::string text;
  for (std::size_t axis = 0; axis < rank_of(array); ++axis)
    text += (axis > 0 ? ", " : "") + std::to_string(fields(array).dimensions[axis]);
  return '(' + text + (rank_of(array) == 1 ? ",)" : ")");
}

/// Raises TypeError or ValueError, with one sentence, unless `array` can be the `tensor`, of NumPy's type `dtype`, of
/// `model`. `kind` is "input" or "state".
inline void check_array(const NumPy &numpy, const char *model, const char *kind, const modelwheel_tensor &tensor,
                        py::handle dtype, py::handle array) {
  const auto subject = [&] { return std::string(model) + ": " + kind + " '" + tensor.name + '\''; };
  if (!has_dtype(numpy, array, dtype)) {
    const bool bits = tensor.dtype == MODELWHEEL_BFLOAT16;  // of other values, not numbers to convert
    throw py::type_error(subject() + " must be " + numpy_name(tensor.dtype) + (bits ? " (the bits of bfloat16)" : "") +
                         ", got " + to_text(fields(array).descr) + "; convert it with " +
                         (bits ? ".astype(ml_dtypes.bfloat16).view('uint16')"
                               : ".astype('" + std::string(numpy_name(tensor.dtype)) + "')"));
  }
  if (!has_shape(array, tensor))
    throw py::value_error(subject() + " must have the shape " + expected_shape(tensor) + ", got " + shape_text(array) +
                          one_row_hint(array, tensor));
}

/// Whether an array is of a class whose values are not all valid. Only such objects make this module be imported.
inline bool is_masked(const NumPy &numpy, py::handle array) {
  if (Py_IS_TYPE(array.ptr(), numpy.PyArray_Type_)) return false;
  PyObject *const imported = PyImport_GetModule(py::str("numpy.ma").ptr());
  if (imported == nullptr && PyErr_Occurred() == nullptr) return false;
  return py::isinstance(array, taken(imported).attr("MaskedArray"));
}

/// Raises TypeError or ValueError unless `value` is an array that can be the `tensor`, dense or not.
inline void check_value(const NumPy &numpy, const char *model, const char *kind, const modelwheel_tensor &tensor,
                        py::handle dtype, py::handle value) {
  const auto subject = [&] { return std::string(model) + ": " + kind + " '" + tensor.name + '\''; };
  if (!numpy.PyArray_Check_(value.ptr()))
    throw py::type_error(subject() + " must be a NumPy array, got " + type_name(value));
  if (is_masked(numpy, value))
    throw py::type_error(subject() +
                         " is a masked array, whose mask would be ignored; pass array.filled(VALUE), or array.data");
  check_array(numpy, model, kind, tensor, dtype, value);
}

/// A C-contiguous array that can be the `tensor`. Raises TypeError or ValueError.
inline py::object checked_array(const NumPy &numpy, const char *model, const char *kind,
                                const modelwheel_tensor &tensor, py::handle dtype, py::handle value) {
  check_value(numpy, model, kind, tensor, dtype, value);
  if (is_contiguous(value)) return py::reinterpret_borrow<py::object>(value);
  // Not the method `copy`: a subclass may replace that, and what it returns need not have this shape. For large arrays
  // this releases the GIL.
  constexpr int kFlags = NumPy::NPY_ARRAY_C_CONTIGUOUS_ | NumPy::NPY_ARRAY_ENSUREARRAY_;
  return taken(call_with_gil([&] { return numpy.PyArray_FromAny_(value.ptr(), nullptr, 0, 0, kFlags, nullptr); }));
}

/// The memory of an array.
struct Range {
  const char *begin, *end;

  Range(const void *memory, std::size_t bytes) : begin(static_cast<const char *>(memory)), end(begin + bytes) {}

  bool overlaps(const Range &other) const { return std::less<>()(begin, other.end) && std::less<>()(other.begin, end); }
};

/// The memory from the first to the last element of an array, whatever its strides are.
inline Range range_of(py::handle array, std::size_t item_bytes) {
  const auto &own = fields(array);
  const char *low = own.data, *high = own.data;
  std::size_t elements = 1;
  for (int axis = 0; axis < own.nd; ++axis) {
    elements *= static_cast<std::size_t>(own.dimensions[axis]);
    (own.strides[axis] < 0 ? low : high) += (own.dimensions[axis] - 1) * own.strides[axis];
  }
  if (elements == 0) return {own.data, 0};
  return {low, static_cast<std::size_t>(high - low) + item_bytes};
}

/// Whether `value` can be the `tensor`, of NumPy's type `dtype`, as it is: nothing is converted, copied or refused.
/// Answers the common case quickly; if the answer is no, checked_array knows why.
inline bool is_plain(const NumPy &numpy, const modelwheel_tensor &tensor, py::handle dtype, py::handle value) {
  return Py_IS_TYPE(value.ptr(), numpy.PyArray_Type_) && fields(value).descr == dtype.ptr() && is_contiguous(value) &&
         has_shape(value, tensor);
}

}  // namespace modelwheel
