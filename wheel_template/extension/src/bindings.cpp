// src/bindings.cpp - what the Python extension of one model has of its own: the model's library, to which it is linked.
#include "bindings/extension.h"

extern "C" const modelwheel_api *MODELWHEEL_API(void);

int modelwheel::add_members(PyObject *module) noexcept {
  PyObject *const library = new_library(module, *MODELWHEEL_API());
  const int result = library == nullptr ? -1 : PyModule_AddObjectRef(module, "library", library);
  Py_XDECREF(library);
  return result;
}
