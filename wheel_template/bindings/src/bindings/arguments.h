// src/bindings/arguments.h - arguments from Python and exceptions to Python, with sentences of ours.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "modelwheel/abi.h"
#include "modelwheel/instance.hpp"

namespace modelwheel {

namespace py = pybind11;

/// Sets an exception; without memory for it, MemoryError. Bytes that are not UTF-8 are replaced: another library may
/// have written the text. PyErr_Format would set one without a text, or clear MemoryError.
inline void set_exception(PyObject *type, const char *text) {
  PyObject *const sentence = PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::strlen(text)), "replace");
  if (sentence == nullptr) return;
  PyErr_SetObject(type, sentence);
  Py_DECREF(sentence);
}

/// Takes over what a function of Python returned. Throws Python's exception if that is null.
inline py::object taken(PyObject *object) {
  if (object == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(object);
}

/// Where types allocate objects for pybind11, which would use null without a question.
inline PyObject *allocate(PyTypeObject *type, Py_ssize_t items) {
  return taken(PyType_GenericAlloc(type, items)).release().ptr();
}

/// A new tuple with `make(i)`, a py::object, for each i below `count`.
template <class Make>
py::object make_tuple(std::size_t count, const Make &make) {
  py::object tuple = taken(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (std::size_t i = 0; i < count; ++i)
    PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i), py::object(make(i)).release().ptr());
  return tuple;
}

/// The number of objects in a tuple, and one of them, which the tuple keeps.
inline std::size_t size_of(py::handle tuple) { return static_cast<std::size_t>(PyTuple_GET_SIZE(tuple.ptr())); }
inline py::handle item(py::handle tuple, std::size_t index) {
  return PyTuple_GET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(index));
}

/// The beginning of a text that may be long, cut between two characters.
inline std::string shortened(std::string text) {
  std::size_t end = 100;
  if (text.size() <= end) return text;
  while ((static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.replace(end, std::string::npos, "...");
}

/// str(object), whatever characters it has.
inline std::string to_text(py::handle object) {
  const py::object text = taken(PyObject_Str(object.ptr()));
  const py::object bytes = taken(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"));
  return shortened(PyBytes_AS_STRING(bytes.ptr()));
}

inline std::string type_name(py::handle value) { return shortened(Py_TYPE(value.ptr())->tp_name); }

/// The UTF-8 text of a str. `subject` is what it is, such as "digits: the batch rule". Raises TypeError or ValueError.
inline std::string to_utf8(py::handle value, const std::string &subject, const char *expected) {
  if (!py::isinstance<py::str>(value))
    throw py::type_error(subject + " must be " + expected + ", got " + type_name(value));
  if (static_cast<std::size_t>(PyUnicode_GET_LENGTH(value.ptr())) > kLongestRule)
    throw py::value_error(subject + " is longer than " + std::to_string(kLongestRule) + " characters");
  Py_ssize_t bytes = 0;
  const char *const text = PyUnicode_AsUTF8AndSize(value.ptr(), &bytes);
  if (text == nullptr) {
    if (PyErr_ExceptionMatches(PyExc_UnicodeError) == 0) throw py::error_already_set();  // no memory
    PyErr_Clear();
    throw py::value_error(subject + " has a surrogate, which is not a character");
  }
  std::string result(text, static_cast<std::size_t>(bytes));
  if (result.find('\0') != std::string::npos) throw py::value_error(subject + " has a null character");
  return result;
}

/// A number of rows. Raises TypeError or ValueError.
inline std::size_t to_rows(py::handle value, const std::string &model) {
  if (PyIndex_Check(value.ptr()) == 0) throw py::type_error(model + ": rows must be an int, got " + type_name(value));
  const py::object number = taken(PyNumber_Index(value.ptr()));
  int overflow = 0;
  const long long rows = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow > 0) throw py::value_error(model + ": rows must be less than 2**63");
  if (overflow < 0) throw py::value_error(model + ": rows must not be negative");
  if (rows < 0) throw py::value_error(model + ": rows must not be negative, got " + std::to_string(rows));
  return static_cast<std::size_t>(rows);
}

inline PyObject *exception_type(modelwheel_status status) {
  switch (status) {
    case MODELWHEEL_OUT_OF_MEMORY: return PyExc_MemoryError;
    case MODELWHEEL_INTERNAL: return PyExc_RuntimeError;
    default: return PyExc_ValueError;
  }
}

/// Translates failures of the library for pybind11, its own with a text of which bytes may be no UTF-8, and those of
/// memory without needing some.
inline void translate_errors(std::exception_ptr exception) {
  try {
    if (exception) std::rethrow_exception(exception);
  } catch (const Error &error) {
    set_exception(exception_type(error.status()), error.what());
  } catch (const py::type_error &error) {
    set_exception(PyExc_TypeError, error.what());
  } catch (const py::value_error &error) {
    set_exception(PyExc_ValueError, error.what());
  } catch (const py::import_error &error) {
    set_exception(PyExc_ImportError, error.what());
  } catch (const std::bad_alloc &) {
    PyErr_NoMemory();
  } catch (const std::runtime_error &) {
    // pybind11 says that it could not allocate an object; Python has said what that is.
    if (PyErr_Occurred() == nullptr || PyErr_ExceptionMatches(PyExc_MemoryError) == 0) throw;
  }
}

/// Calls a function as pybind11 calls those that it defines: exceptions become Python's, and the result null.
template <class Function>
PyObject *call_from_c(const Function &function) noexcept {
  try {
    return function().release().ptr();
  } catch (py::error_already_set &error) {
    error.restore();
  } catch (...) {
    py::detail::try_translate_exceptions();
  }
  return nullptr;
}

}  // namespace modelwheel
