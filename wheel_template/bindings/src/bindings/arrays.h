// src/bindings/arrays.h - NumPy arrays as the memory of tensors.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "bindings/arguments.h"
#include "bindings/gil.h"
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

/// "(3, 4)": the extents that NumPy keeps; a subclass may say something else.
inline std::string shape_text(const py::array &array) {
  std::string text;
  for (py::ssize_t axis = 0; axis < array.ndim(); ++axis)
    text += (axis > 0 ? ", " : "") + std::to_string(array.shape(axis));
  return '(' + text + (array.ndim() == 1 ? ",)" : ")");
}

/// Whether an array has the element type of a tensor, in this machine's order of bytes.
inline bool has_dtype(const py::array &array, const modelwheel_tensor &tensor) {
  const py::dtype dtype = array.dtype();
  const bool native = dtype.byteorder() == '=' || dtype.byteorder() == '|';
  return native && dtype.kind() == numpy_kind(tensor.dtype) &&
         static_cast<std::size_t>(dtype.itemsize()) == tensor.item_bytes;
}

/// Raises TypeError or ValueError, with one sentence, unless `array` can be the `tensor` of `model`. `kind` is "input"
/// or "state".
inline void check_array(const char *model, const char *kind, const modelwheel_tensor &tensor, const py::array &array) {
  const auto subject = [&] { return std::string(model) + ": " + kind + " '" + tensor.name + '\''; };
  if (!has_dtype(array, tensor)) {
    const char *bits = tensor.dtype == MODELWHEEL_BFLOAT16 ? " (the bits of bfloat16)" : "";
    raise(PyExc_TypeError, subject() + " must be " + numpy_name(tensor.dtype) + bits + ", got " +
                               to_text(array.dtype()) + "; convert it with .astype('" + numpy_name(tensor.dtype) +
                               "')");
  }
  if (!has_shape(array, tensor))
    raise(PyExc_ValueError, subject() + " must have the shape " + expected_shape(tensor) + ", got " +
                                shape_text(array) + one_row_hint(array, tensor));
}

/// Whether an array is of a class whose values are not all valid. Only such objects make this module be imported.
inline bool is_masked(const py::array &array) {
  if (Py_IS_TYPE(array.ptr(), py::detail::npy_api::get().PyArray_Type_)) return false;
  const auto modules = py::reinterpret_borrow<py::dict>(PyImport_GetModuleDict());
  return modules.contains("numpy.ma") && py::isinstance(array, modules["numpy.ma"].attr("MaskedArray"));
}

/// A C-contiguous array that can be the `tensor`. Raises TypeError or ValueError.
inline py::array checked_array(const char *model, const char *kind, const modelwheel_tensor &tensor,
                               const py::handle &value) {
  const auto subject = [&] { return std::string(model) + ": " + kind + " '" + tensor.name + '\''; };
  if (!py::isinstance<py::array>(value))
    raise(PyExc_TypeError, subject() + " must be a NumPy array, got " + type_name(value));
  const auto array = py::reinterpret_borrow<py::array>(value);
  if (is_masked(array))
    raise(PyExc_TypeError,
          subject() + " is a masked array, whose mask would be ignored; pass array.filled(VALUE), or array.data");
  check_array(model, kind, tensor, array);
  if ((array.flags() & py::array::c_style) != 0) return array;
  // Not the method `copy`: a subclass may replace that, and what it returns need not have this shape. For large arrays
  // this releases the GIL.
  constexpr int kFlags = py::array::c_style | py::detail::npy_api::NPY_ARRAY_ENSUREARRAY_;
  const auto from_any = py::detail::npy_api::get().PyArray_FromAny_;
  PyObject *copy = call_with_gil([&] { return from_any(array.ptr(), nullptr, 0, 0, kFlags, nullptr); });
  if (copy == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::array>(copy);
}

/// NumPy's functions and types, found once: pybind11 looks for them again in each of its own functions.
using NumPy = py::detail::npy_api;

/// The memory of an array.
struct Range {
  const char *begin, *end;

  Range(const void *memory, std::size_t bytes) : begin(static_cast<const char *>(memory)), end(begin + bytes) {}

  bool overlaps(const Range &other) const { return std::less<>()(begin, other.end) && std::less<>()(other.begin, end); }
};

/// The address of an array's elements.
inline void *data_of(const py::handle &array) { return py::detail::array_proxy(array.ptr())->data; }

/// Whether `value` can be the `tensor`, of NumPy's type `dtype`, as it is: nothing is converted, copied or refused.
/// Answers the common case quickly; if the answer is no, checked_array knows why.
inline bool is_plain(const NumPy &numpy, const modelwheel_tensor &tensor, const py::handle &dtype,
                     const py::handle &value) {
  if (!Py_IS_TYPE(value.ptr(), numpy.PyArray_Type_)) return false;
  const auto *array = py::detail::array_proxy(value.ptr());
  return array->descr == dtype.ptr() && (array->flags & NumPy::NPY_ARRAY_C_CONTIGUOUS_) != 0 &&
         has_shape(py::reinterpret_borrow<py::array>(value), tensor);
}

}  // namespace modelwheel
