// src/bindings/outputs.h - NumPy arrays that results are written to: new ones, or the caller's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <utility>

#include "bindings/arguments.h"
#include "bindings/arrays.h"
#include "bindings/few.h"
#include "modelwheel/abi.h"
#include "modelwheel/buffer.hpp"

namespace modelwheel {

/// The owner of the memory of a new array: at least `bytes` at a multiple of MODELWHEEL_ALIGNMENT, which `memory` is
/// set to. Takes more from malloc instead of asking it for aligned memory, which glibc is slow to find.
inline py::object new_memory(std::size_t bytes, void *&memory) {
  void *const all = std::malloc(bytes + MODELWHEEL_ALIGNMENT);
  if (all == nullptr) throw std::bad_alloc();
  const auto address = reinterpret_cast<std::uintptr_t>(all);
  memory = static_cast<char *>(all) + (MODELWHEEL_ALIGNMENT - address % MODELWHEEL_ALIGNMENT);
  PyObject *const owner =
      PyCapsule_New(all, nullptr, [](PyObject *capsule) { std::free(PyCapsule_GetPointer(capsule, nullptr)); });
  if (owner == nullptr) std::free(all);
  return taken(owner);
}

/// A new array for a tensor with `rows` rows, at an address that models use in place. Its contents are undefined.
inline py::object new_output(const NumPy &numpy, const char *model, const modelwheel_tensor &tensor, py::handle dtype,
                             std::size_t rows) {
  // Inputs without elements may have any number of rows.
  const std::size_t row_size = std::max(tensor.row_bytes, tensor.leading_per_row);
  if (tensor.leading_per_row != 0 && row_size != 0 && rows > PTRDIFF_MAX / row_size)
    throw Error(
        std::string(model) + ": output '" + tensor.name + "' is too large for " + std::to_string(rows) + " rows",
        MODELWHEEL_OUT_OF_MEMORY);
  Few<Py_intptr_t> shape(tensor.rank);
  std::copy(tensor.shape, tensor.shape + tensor.rank, shape.data());
  if (tensor.leading_per_row != 0) shape[batch_axis(tensor)] = static_cast<Py_intptr_t>(rows * tensor.leading_per_row);
  void *memory = nullptr;
  py::object owner = new_memory(tensor_bytes(tensor, rows), memory);
  const auto make = numpy.PyArray_NewFromDescr_;  // takes the reference to the type
  py::object array = taken(make(numpy.PyArray_Type_, dtype.inc_ref().ptr(), static_cast<int>(tensor.rank), shape.data(),
                                nullptr, memory, NumPy::NPY_ARRAY_WRITEABLE_, nullptr));
  if (numpy.PyArray_SetBaseObject_(array.ptr(), owner.release().ptr()) != 0) throw py::error_already_set();
  return array;
}

/// The memory of an array of the caller for a tensor with `rows` rows, of NumPy's type `dtype`. Raises TypeError or
/// ValueError, with one sentence, if results cannot be written to it.
inline void *checked_target(const NumPy &numpy, const char *model, const modelwheel_tensor &tensor, py::handle dtype,
                            std::size_t rows, py::handle array) {
  const auto subject = [&] { return std::string(model) + ": out: the array for '" + tensor.name + "' "; };
  if (!numpy.PyArray_Check_(array.ptr()))
    throw py::type_error(subject() + "must be a NumPy array, got " + type_name(array));
  if (is_masked(numpy, array)) throw py::type_error(subject() + "is a masked array; pass array.data");
  if (!has_dtype(numpy, array, dtype))
    throw py::type_error(subject() + "must be " + numpy_name(tensor.dtype) + ", got " + to_text(fields(array).descr));
  const auto extent = static_cast<Py_intptr_t>(rows * tensor.leading_per_row);
  const std::size_t axis = batch_axis(tensor);
  const bool grows = tensor.leading_per_row != 0;
  if (!has_shape(array, tensor) || (grows && fields(array).dimensions[axis] != extent))
    throw py::value_error(subject() + "must have the shape " + expected_shape(tensor) +
                          (grows ? " with " + std::to_string(extent) + " along axis " + std::to_string(axis) : "") +
                          ", got " + shape_text(array));
  if (!is_contiguous(array)) throw py::value_error(subject() + "must be C-contiguous");
  if ((fields(array).flags & NumPy::NPY_ARRAY_WRITEABLE_) == 0) throw py::value_error(subject() + "must be writable");
  return fields(array).data;
}

}  // namespace modelwheel
