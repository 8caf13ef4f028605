// src/bindings.cpp - the Python extension of one model, linked to its library.
#include "bindings/module.h"

namespace py = pybind11;

extern "C" const modelwheel_api *MODELWHEEL_API(void);

PYBIND11_MODULE(checked_core, module, py::mod_gil_not_used(), py::multiple_interpreters::per_interpreter_gil()) {
  modelwheel::register_bindings(module);
  module.attr("library") = modelwheel::Library{MODELWHEEL_API()};
}

// Python looks for this function; that of PYBIND11_MODULE must not run in every interpreter.
PyMODINIT_FUNC PyInit__core() { return modelwheel::require_interpreter() ? PyInit_checked_core() : nullptr; }
