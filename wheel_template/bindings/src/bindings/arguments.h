// src/bindings/arguments.h - arguments from Python and exceptions to Python, with sentences of ours.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <exception>
#include <new>
#include <string>

#include "modelwheel/abi.h"
#include "modelwheel/instance.hpp"

namespace modelwheel {

namespace py = pybind11;

/// Sets an exception. Bytes that are not UTF-8 are replaced: another library may have written the text.
inline void set_exception(PyObject *type, const char *text) { PyErr_Format(type, "%s", text); }

[[noreturn]] inline void raise(PyObject *type, const std::string &text) {
  set_exception(type, text.c_str());
  throw py::error_already_set();
}

/// The beginning of a text that may be long, cut between two characters.
inline std::string shortened(std::string text) {
  std::size_t end = 100;
  if (text.size() <= end) return text;
  while ((static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.replace(end, std::string::npos, "...");
}

/// str(object), whatever characters it has.
inline std::string to_text(const py::handle &object) {
  const py::str text(object);
  const auto bytes =
      py::reinterpret_steal<py::bytes>(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"));
  if (!bytes) throw py::error_already_set();
  return shortened(bytes);
}

inline std::string type_name(const py::handle &value) { return shortened(Py_TYPE(value.ptr())->tp_name); }

/// The UTF-8 text of a str. `subject` is what it is, such as "digits: the batch rule". Raises TypeError or ValueError.
inline std::string to_utf8(const py::handle &value, const std::string &subject, const char *expected) {
  if (PyUnicode_Check(value.ptr()) == 0)
    raise(PyExc_TypeError, subject + " must be " + expected + ", got " + type_name(value));
  if (static_cast<std::size_t>(PyUnicode_GET_LENGTH(value.ptr())) > kLongestRule)
    raise(PyExc_ValueError, subject + " is longer than " + std::to_string(kLongestRule) + " characters");
  py::ssize_t bytes = 0;
  const char *text = PyUnicode_AsUTF8AndSize(value.ptr(), &bytes);
  if (text == nullptr) {
    PyErr_Clear();
    raise(PyExc_ValueError, subject + " has a surrogate, which is not a character");
  }
  std::string result(text, static_cast<std::size_t>(bytes));
  if (result.find('\0') != std::string::npos) raise(PyExc_ValueError, subject + " has a null character");
  return result;
}

/// A number of rows. Raises TypeError or ValueError.
inline std::size_t to_rows(const py::handle &value, const std::string &model) {
  if (PyIndex_Check(value.ptr()) == 0) raise(PyExc_TypeError, model + ": rows must be an int, got " + type_name(value));
  const auto number = py::reinterpret_steal<py::int_>(PyNumber_Index(value.ptr()));
  if (!number) throw py::error_already_set();
  int overflow = 0;
  const long long rows = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow > 0) raise(PyExc_ValueError, model + ": rows must be less than 2**63");
  if (overflow < 0) raise(PyExc_ValueError, model + ": rows must not be negative");
  if (rows < 0) raise(PyExc_ValueError, model + ": rows must not be negative, got " + std::to_string(rows));
  return static_cast<std::size_t>(rows);
}

inline void set_exception(const Error &error) {
  switch (error.status()) {
    case MODELWHEEL_OUT_OF_MEMORY: set_exception(PyExc_MemoryError, error.what()); break;
    case MODELWHEEL_INTERNAL: set_exception(PyExc_RuntimeError, error.what()); break;
    default: set_exception(PyExc_ValueError, error.what());
  }
}

/// Translates failures of the library for pybind11.
inline void translate_errors(std::exception_ptr exception) {
  try {
    if (exception) std::rethrow_exception(exception);
  } catch (const Error &error) {
    set_exception(error);
  }
}

/// Calls a function from C, which knows no exceptions: they become Python's, and the result null.
template <class Function>
PyObject *call_from_c(const Function &function) noexcept {
  try {
    return function();
  } catch (py::error_already_set &error) {
    error.restore();
  } catch (const Error &error) {
    set_exception(error);
  } catch (const std::bad_alloc &) {
    PyErr_NoMemory();
  } catch (const std::exception &error) {
    set_exception(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

}  // namespace modelwheel
