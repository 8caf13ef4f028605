// src/bindings/native_path.h - paths from Python for the functions of the operating system.
#pragma once

#include "bindings/arguments.h"
#include "modelwheel/library.hpp"

namespace modelwheel {

/// A path in the encoding of the operating system.
inline NativePath to_native_path(py::handle path) {
#ifdef _WIN32
  wchar_t *const text = PyUnicode_AsWideCharString(path.ptr(), nullptr);
  if (text == nullptr) throw py::error_already_set();
  const NativePath native = text;
  PyMem_Free(text);
  return native;
#else
  return py::reinterpret_steal<py::bytes>(taken(PyUnicode_EncodeFSDefault(path.ptr())).release());
#endif
}

}  // namespace modelwheel
