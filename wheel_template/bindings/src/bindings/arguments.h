// src/bindings/arguments.h - arguments from Python and exceptions to Python, with sentences of ours.
#pragma once

#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "bindings/python.h"
#include "modelwheel/abi.h"
#include "modelwheel/instance.hpp"

namespace modelwheel {

/// Sets an exception; without memory for it, MemoryError. Bytes that are not UTF-8 are replaced: another library may
/// have written the text. PyErr_Format would set one without a text, or clear MemoryError.
inline void set_exception(PyObject *type, const char *text) {
  PyObject *const sentence = PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::strlen(text)), "replace");
  if (sentence == nullptr) return;
  PyErr_SetObject(type, sentence);
  Py_DECREF(sentence);
}

[[noreturn]] inline void raise(PyObject *type, const std::string &text) {
  set_exception(type, text.c_str());
  throw PythonError();
}

/// The beginning of a text that may be long, cut between two characters.
inline std::string shortened(std::string text) {
  std::size_t end = 100;
  if (text.size() <= end) return text;
  while ((static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.replace(end, std::string::npos, "...");
}

/// str(object), whatever characters it has.
inline std::string to_text(PyObject *object) {
  const Object text = Object::taken(PyObject_Str(object));
  const Object bytes = Object::taken(PyUnicode_AsEncodedString(text.get(), "utf-8", "backslashreplace"));
  return shortened(
      std::string(PyBytes_AS_STRING(bytes.get()), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.get()))));
}

inline std::string type_name(PyObject *value) { return shortened(Py_TYPE(value)->tp_name); }

/// The UTF-8 text of a str. `subject` is what it is, such as "digits: the batch rule". Raises TypeError or ValueError.
inline std::string to_utf8(PyObject *value, const std::string &subject, const char *expected) {
  if (PyUnicode_Check(value) == 0)
    raise(PyExc_TypeError, subject + " must be " + expected + ", got " + type_name(value));
  if (static_cast<std::size_t>(PyUnicode_GET_LENGTH(value)) > kLongestRule)
    raise(PyExc_ValueError, subject + " is longer than " + std::to_string(kLongestRule) + " characters");
  Py_ssize_t bytes = 0;
  const char *text = PyUnicode_AsUTF8AndSize(value, &bytes);
  if (text == nullptr) {
    if (PyErr_ExceptionMatches(PyExc_UnicodeError) == 0) throw PythonError();  // no memory
    PyErr_Clear();
    raise(PyExc_ValueError, subject + " has a surrogate, which is not a character");
  }
  std::string result(text, static_cast<std::size_t>(bytes));
  if (result.find('\0') != std::string::npos) raise(PyExc_ValueError, subject + " has a null character");
  return result;
}

/// A number of rows. Raises TypeError or ValueError.
inline std::size_t to_rows(PyObject *value, const std::string &model) {
  if (PyIndex_Check(value) == 0) raise(PyExc_TypeError, model + ": rows must be an int, got " + type_name(value));
  const Object number = Object::taken(PyNumber_Index(value));
  int overflow = 0;
  const long long rows = PyLong_AsLongLongAndOverflow(number.get(), &overflow);
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

/// Calls a function from C, which knows no exceptions: they become Python's, and the result null.
template <class Function>
PyObject *call_from_c(const Function &function) noexcept {
  try {
    return function().release();
  } catch (const PythonError &) {
    // It is set.
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
