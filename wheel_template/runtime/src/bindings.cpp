// src/bindings.cpp - what the Python extension of all models has of its own: it opens the library of any model.
#include "bindings/extension.h"

#include <exception>
#include <string>

#include "open_library.h"

static_assert(MODELWHEEL_RUNTIME_MAJOR == MODELWHEEL_ABI_VERSION, "see pipeline/modelwheel/packaging/runtime.py");

namespace {

/// A path in the encoding of the operating system. Returns false with an exception set.
bool to_native_path(PyObject *path, modelwheel::NativePath &native) {
#ifdef _WIN32
  wchar_t *const text = PyUnicode_AsWideCharString(path, nullptr);
  if (text == nullptr) return false;
  native = text;
  PyMem_Free(text);
#else
  PyObject *const bytes = PyUnicode_EncodeFSDefault(path);
  if (bytes == nullptr) return false;
  native.assign(PyBytes_AS_STRING(bytes), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes)));
  Py_DECREF(bytes);
#endif
  return true;
}

/// Sets an ImportError. Paths need not be Unicode, neither here nor in messages of the system.
void refuse(const char *module, PyObject *path, const char *problem) {
  PyObject *const bytes = PyBytes_FromString(problem);
  PyObject *const text = bytes == nullptr ? nullptr : PyUnicode_FromEncodedObject(bytes, "utf-8", "backslashreplace");
  if (text != nullptr) PyErr_Format(PyExc_ImportError, "the library of %s, %R, %U", module, path, text);
  Py_XDECREF(text);
  Py_XDECREF(bytes);
}

PyObject *open_library(PyObject *extension, PyObject *arguments, PyObject *named) {
  static const char *const kNames[] = {"path", "module", nullptr};
  PyObject *path = nullptr;
  const char *module = nullptr;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "Us:open_library", const_cast<char **>(kNames), &path, &module) ==
      0)
    return nullptr;
  try {
    modelwheel::NativePath native;
    if (!to_native_path(path, native)) return nullptr;
    return modelwheel::new_library(extension, modelwheel::open_library(native, module, MODELWHEEL_RUNTIME_VERSION));
  } catch (const modelwheel::Error &error) {
    refuse(module, path, error.what());
  } catch (const std::exception &) {
    PyErr_NoMemory();  // the only other failure of strings
  }
  return nullptr;
}

PyMethodDef functions[] = {
    {"open_library", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(open_library)),
     METH_VARARGS | METH_KEYWORDS, "open_library(path, module)\n--\n\nOpens the library of a model."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int modelwheel::add_members(PyObject *module) noexcept {
  if (PyModule_AddFunctions(module, functions) != 0) return -1;
  return PyModule_AddStringConstant(module, "__version__", MODELWHEEL_RUNTIME_VERSION);
}
