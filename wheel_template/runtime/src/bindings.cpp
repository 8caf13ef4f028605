// src/bindings.cpp - the Python extension that opens and runs the library of any model.
#include "bindings/module.h"

#include <string>

#include "open_library.h"

namespace py = pybind11;

static_assert(MODELWHEEL_RUNTIME_MAJOR == MODELWHEEL_ABI_VERSION, "see pipeline/modelwheel/packaging/runtime.py");

namespace {

/// A path in the encoding of the operating system.
modelwheel::NativePath native_path(const py::str &path) {
#ifdef _WIN32
  wchar_t *text = PyUnicode_AsWideCharString(path.ptr(), nullptr);
  if (text == nullptr) throw py::error_already_set();
  const modelwheel::NativePath native(text);
  PyMem_Free(text);
  return native;
#else
  const auto bytes = py::reinterpret_steal<py::bytes>(PyUnicode_EncodeFSDefault(path.ptr()));
  if (!bytes) throw py::error_already_set();
  return bytes;
#endif
}

modelwheel::Library open_library(const py::str &path, const std::string &module) {
  try {
    return {&modelwheel::open_library(native_path(path), module, MODELWHEEL_RUNTIME_VERSION)};
  } catch (const modelwheel::Error &error) {
    // Paths need not be Unicode, neither here nor in messages of the system.
    const std::string text =
        "the library of " + module + ", " + py::repr(path).cast<std::string>() + ", " + error.what();
    const auto size = static_cast<py::ssize_t>(text.size());
    const auto shown = py::reinterpret_steal<py::object>(PyUnicode_DecodeUTF8(text.data(), size, "backslashreplace"));
    PyErr_SetObject(PyExc_ImportError, shown.ptr());
    throw py::error_already_set();
  }
}

}  // namespace

PYBIND11_MODULE(checked_core, module, py::mod_gil_not_used(), py::multiple_interpreters::per_interpreter_gil()) {
  modelwheel::register_bindings(module);
  module.def("open_library", open_library, py::arg("path"), py::arg("module"));
  module.attr("__version__") = MODELWHEEL_RUNTIME_VERSION;
}

// Python looks for this function; that of PYBIND11_MODULE must not run in every interpreter.
PyMODINIT_FUNC PyInit__core() { return modelwheel::require_interpreter() ? PyInit_checked_core() : nullptr; }
