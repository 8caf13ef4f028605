// src/bindings.cpp - what the Python extension of one model has of its own: the model's library, to which it is linked.
#include "bindings/extension.h"

extern "C" const modelwheel_api *MODELWHEEL_API(void);

void modelwheel::add_members(PyObject *module) { add_library(module, "library", *MODELWHEEL_API()); }
