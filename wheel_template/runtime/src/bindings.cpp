// src/bindings.cpp - what the Python extension of all models has of its own: it opens the library of any model.
#include "bindings/extension.h"

#include <pybind11/pybind11.h>

#include <string>

#include "bindings/arguments.h"
#include "bindings/native_path.h"
#include "modelwheel/library.hpp"

static_assert(MODELWHEEL_RUNTIME_MAJOR == MODELWHEEL_ABI_VERSION, "see pipeline/modelwheel/packaging/runtime.py");

namespace py = pybind11;

namespace {

/// Raises ImportError. Paths need not be Unicode, neither here nor in messages of the system.
[[noreturn]] void refuse(const std::string &module, const py::str &path, const char *problem) {
  const py::object text = modelwheel::taken(PyUnicode_DecodeUTF8(
      problem, static_cast<Py_ssize_t>(std::char_traits<char>::length(problem)), "backslashreplace"));
  const py::object sentence =
      modelwheel::taken(PyUnicode_FromFormat("the library of %s, %R, %U", module.c_str(), path.ptr(), text.ptr()));
  const char *const bytes = PyUnicode_AsUTF8(sentence.ptr());
  if (bytes == nullptr) throw py::error_already_set();
  throw py::import_error(bytes);
}

py::object open_library(const py::str &path, const py::str &module) {
  const std::string name = modelwheel::to_utf8(module, "open_library(): module", "a str");
  try {
    return modelwheel::taken(modelwheel::new_library(
        modelwheel::open_library(modelwheel::to_native_path(path), name, MODELWHEEL_RUNTIME_VERSION)));
  } catch (const modelwheel::Error &error) {
    refuse(name, path, error.what());
  }
}

}  // namespace

void modelwheel::add_members(PyObject *extension) {
  auto module = py::reinterpret_borrow<py::module_>(extension);
  module.def("open_library", &::open_library, py::arg("path"), py::arg("module"), "Opens the library of a model.");
  module.attr("__version__") = MODELWHEEL_RUNTIME_VERSION;
}
