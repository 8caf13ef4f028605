// src/bindings/numpy.h - the few functions and fields of NumPy that the extension uses. Compiling needs no NumPy.
//
// Their places are NumPy's stable ABI, the same in NumPy 1 and 2
// (https://numpy.org/doc/stable/reference/c-api/types-and-structures.html).
#pragma once

#include <cstddef>

#include "bindings/python.h"

namespace modelwheel {

/// PyArrayObject_fields.
struct ArrayFields {
  PyObject head;
  void *data;
  int rank;
  Py_intptr_t *shape;
  Py_intptr_t *strides;
  PyObject *base;
  PyObject *dtype;
  int flags;
};

inline const ArrayFields &fields(PyObject *array) { return *reinterpret_cast<const ArrayFields *>(array); }

/// Flags of arrays.
enum ArrayFlags { kContiguous = 0x0001, kPlainClass = 0x0040, kWriteable = 0x0400 };

inline std::size_t rank_of(PyObject *array) { return static_cast<std::size_t>(fields(array).rank); }

inline bool is_contiguous(PyObject *array) { return (fields(array).flags & kContiguous) != 0; }

/// NumPy, imported.
class NumPy {
 public:
  /// Imports NumPy where that has not happened. Throws PythonError.
  NumPy() {
    PyObject *module = PyImport_ImportModule("numpy._core._multiarray_umath");
    if (module == nullptr && PyErr_ExceptionMatches(PyExc_ModuleNotFoundError) != 0) {  // before NumPy 2
      PyErr_Clear();
      module = PyImport_ImportModule("numpy.core._multiarray_umath");
    }
    const Object owned = Object::taken(module);
    const Object capsule = Object::taken(PyObject_GetAttrString(module, "_ARRAY_API"));
    table_ = static_cast<void **>(PyCapsule_GetPointer(capsule.get(), nullptr));
    if (table_ == nullptr) throw PythonError();
  }

  PyTypeObject *array_type() const { return static_cast<PyTypeObject *>(table_[kArrayType]); }

  bool is_array(PyObject *object) const { return PyObject_TypeCheck(object, array_type()) != 0; }

  /// The element type of a name.
  Object dtype(const char *name) const {
    const Object text = Object::taken(PyUnicode_FromString(name));
    PyObject *dtype = nullptr;
    if (function<int (*)(PyObject *, PyObject **)>(kDescrConverter)(text.get(), &dtype) == 0) throw PythonError();
    return Object::taken(dtype);
  }

  /// Whether the elements of an array are of a type, in this machine's order of bytes.
  bool has_dtype(PyObject *array, PyObject *dtype) const {
    PyObject *const own = fields(array).dtype;
    // Equal types may be several objects.
    return own == dtype || function<unsigned char (*)(PyObject *, PyObject *)>(kEquivTypes)(own, dtype) != 0;
  }

  /// A copy of an array with contiguous elements, whose class is not a subclass. Null with an exception set on failure.
  PyObject *contiguous_copy(PyObject *array) const {
    using FromAny = PyObject *(*)(PyObject *, PyObject *, int, int, int, PyObject *);
    return function<FromAny>(kFromAny)(array, nullptr, 0, 0, kContiguous | kPlainClass, nullptr);
  }

  /// An array of `memory`, which `owner` keeps.
  Object array_of(PyObject *dtype, int rank, const Py_intptr_t *shape, void *memory, Object owner) const {
    using NewFromDescr = PyObject *(*)(PyTypeObject *, PyObject *, int, const Py_intptr_t *, const Py_intptr_t *,
                                       void *, int, PyObject *);
    Py_INCREF(dtype);  // the function takes it over
    const auto make = function<NewFromDescr>(kNewFromDescr);
    Object array = Object::taken(make(array_type(), dtype, rank, shape, nullptr, memory, kWriteable, nullptr));
    if (function<int (*)(PyObject *, PyObject *)>(kSetBaseObject)(array.get(), owner.release()) != 0)
      throw PythonError();
    return array;
  }

 private:
  /// Places in NumPy's table.
  enum Place {
    kArrayType = 2,
    kFromAny = 69,
    kNewFromDescr = 94,
    kDescrConverter = 174,
    kEquivTypes = 182,
    kSetBaseObject = 282
  };

  template <class Function>
  Function function(Place place) const {
    return reinterpret_cast<Function>(table_[place]);
  }

  void **table_;  // NumPy's, which is never unloaded
};

}  // namespace modelwheel
