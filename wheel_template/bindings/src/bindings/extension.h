// src/bindings/extension.h - the two parts of an extension: module.cpp, and bindings.cpp, which differs.
#pragma once

#include <Python.h>

#include "modelwheel/abi.h"

namespace modelwheel {

/// A new Library, whose table is never freed. In module.cpp. Returns null with an exception set.
PyObject *new_library(PyObject *module, const modelwheel_api &api);

/// Adds to the module what this extension has beside its classes. In bindings.cpp. Returns -1 with an exception set.
int add_members(PyObject *module) noexcept;

}  // namespace modelwheel
