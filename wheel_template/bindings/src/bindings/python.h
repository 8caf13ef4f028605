// src/bindings/python.h - objects of Python that C++ owns, and exceptions on their way to Python.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstddef>
#include <exception>
#include <utility>

namespace modelwheel {

/// Thrown where a function of Python has failed: its exception is set.
class PythonError : public std::exception {
 public:
  const char *what() const noexcept override { return "a Python exception is set"; }
};

/// A strong reference, or none. Made, and destroyed unless empty, with the GIL.
class Object {
 public:
  Object() = default;
  Object(Object &&other) noexcept : object_(other.release()) {}
  Object &operator=(Object &&other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  Object(const Object &) = delete;
  Object &operator=(const Object &) = delete;
  ~Object() { Py_XDECREF(object_); }

  /// Takes over what a function of Python returned. Throws PythonError if that is null.
  static Object taken(PyObject *object) {
    if (object == nullptr) throw PythonError();
    return Object(object);
  }

  /// Another reference to an object.
  static Object shared(PyObject *object) {
    Py_INCREF(object);
    return Object(object);
  }

  PyObject *get() const { return object_; }

  /// Gives the reference away.
  PyObject *release() { return std::exchange(object_, nullptr); }

 private:
  explicit Object(PyObject *object) : object_(object) {}

  PyObject *object_ = nullptr;
};

/// A new tuple with `make(i)`, an Object, for each i below `count`.
template <class Make>
Object make_tuple(std::size_t count, const Make &make) {
  Object tuple = Object::taken(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (std::size_t i = 0; i < count; ++i)
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Object(make(i)).release());
  return tuple;
}

/// The number of objects in a tuple, and one of them, which the tuple keeps.
inline std::size_t size_of(PyObject *tuple) { return static_cast<std::size_t>(PyTuple_GET_SIZE(tuple)); }
inline PyObject *item(PyObject *tuple, std::size_t index) {
  return PyTuple_GET_ITEM(tuple, static_cast<Py_ssize_t>(index));
}

}  // namespace modelwheel
