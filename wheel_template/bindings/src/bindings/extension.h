// src/bindings/extension.h - the two parts of an extension: module.cpp, and bindings.cpp, which differs.
//
// Without pybind11, whose headers take seconds to read: bindings.cpp is compiled for each model.
#pragma once

#include <Python.h>

#include "modelwheel/abi.h"

namespace modelwheel {

/// Adds to the module what this extension has beside its classes. In bindings.cpp. May throw as pybind11's functions
/// do.
void add_members(PyObject *module);

/// A new Library, whose table is never freed. In module.cpp. Throws as pybind11's functions do.
PyObject *new_library(const modelwheel_api &api);

/// The table of a library at a path below the directory of the extension, which its function of this name returns. In
/// module.cpp. Throws as pybind11's functions do.
const modelwheel_api &table_beside(PyObject *module, const char *path, const char *function);

/// Adds a Library to the module under this name. In module.cpp. Throws as pybind11's functions do.
void add_library(PyObject *module, const char *name, const modelwheel_api &api);

}  // namespace modelwheel
