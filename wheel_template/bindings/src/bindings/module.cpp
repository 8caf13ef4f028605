// src/bindings/module.cpp - the part of an extension that is the same for all models: the classes Library and
// Evaluator.
//
// Compiling pybind11 takes several times as long as the rest of a wheel. This file is the only one with pybind11, and
// its object file can be shared (cmake/bindings.cmake). The type stubs of the classes are in module.pyi.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <string>

#include "bindings/arguments.h"
#include "bindings/arrays.h"
#include "bindings/evaluator.h"
#include "bindings/extension.h"
#include "modelwheel/abi.h"
#include "modelwheel/lengths.hpp"

namespace py = pybind11;

namespace modelwheel {
namespace {

/// A loaded library. The table lives as long as the library, which is never unloaded.
struct Library {
  const modelwheel_api *api;
};

/// Sets ImportError and returns false in an interpreter in which the extension would hang: before CPython 3.12,
/// PyGILState_Ensure, which pybind11 and NumPy call, waits for ever in a sub-interpreter
/// (https://docs.python.org/3/c-api/init.html#bugs-and-caveats).
bool require_interpreter() {
#if PY_VERSION_HEX < 0x030c0000
  if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
    PyErr_SetString(PyExc_ImportError,
                    "compiled models cannot be imported in a sub-interpreter of Python " Py_STRINGIFY(
                        PY_MAJOR_VERSION) "." Py_STRINGIFY(PY_MINOR_VERSION) "; use the main interpreter (mod_wsgi: "
                                                                             "WSGIApplicationGroup %{GLOBAL})");
    return false;
  }
#endif
  return true;
}

/// The fields of TensorSpec in _model.py, and the name as an identifier, for each tensor.
py::tuple describe(const modelwheel_tensor *tensors, std::size_t count, const modelwheel_extent *const *extents) {
  py::tuple described(count);
  for (std::size_t i = 0; i < count; ++i) {
    py::tuple shape(tensors[i].rank);
    for (std::size_t axis = 0; axis < tensors[i].rank; ++axis) {
      const bool varies = tensors[i].shape[axis] < 0 || (extents != nullptr && extents[i][axis].per_length != 0);
      shape[axis] = varies ? py::object(py::none()) : py::int_(tensors[i].shape[axis]);
    }
    described[i] = py::make_tuple(tensors[i].name, py::dtype(numpy_name(tensors[i].dtype)), shape,
                                  tensors[i].leading_per_row, tensors[i].c_name);
  }
  return described;
}

template <class T>
py::tuple to_tuple(const T *values, std::size_t count) {
  py::tuple result(count);
  for (std::size_t i = 0; i < count; ++i) result[i] = py::cast(values[i]);
  return result;
}

/// More than any machine has CPUs.
constexpr Py_ssize_t kMostThreads = 4096;

/// Evaluator(library, level, threads). pybind11 would allocate in `__new__` and construct in `__init__`, and use the
/// memory without a question if `__init__` never ran; here `__new__` does both.
PyObject *new_evaluator(PyTypeObject *, PyObject *args, PyObject *kwargs) {
  return call_from_c([args, kwargs]() -> PyObject * {
    static const char *const kNames[] = {"library", "level", "threads", nullptr};
    PyObject *library = nullptr, *level = nullptr;
    Py_ssize_t threads = 1;
    if (PyArg_ParseTupleAndKeywords(args, kwargs, "OO|n:Evaluator", const_cast<char **>(kNames), &library, &level,
                                    &threads) == 0)
      throw py::error_already_set();
    if (!py::isinstance<Library>(library))
      raise(PyExc_TypeError, "Evaluator() takes a Library, got " + type_name(library));
    const modelwheel_api &api = *py::cast<const Library &>(py::handle(library)).api;
    std::string name;
    if (level != Py_None)
      name = to_utf8(level, std::string(api.name) + ": the CPU level", "a str such as 'x86-64-v3', or None");
    if (threads < 1 || threads > kMostThreads)
      raise(PyExc_ValueError, std::string(api.name) + ": threads must be from 1 to " + std::to_string(kMostThreads) +
                                  ", got " + std::to_string(threads));
    auto *evaluator = new Evaluator(api, level == Py_None ? nullptr : name.c_str(), static_cast<std::size_t>(threads));
    return py::cast(evaluator, py::return_value_policy::take_ownership).release().ptr();
  });
}

PyObject *refuse_new_library(PyTypeObject *, PyObject *, PyObject *) {
  PyErr_SetString(PyExc_TypeError, "a Library is made by opening a model, not by calling its type");
  return nullptr;
}

/// A class whose instances only `create` and C++ make: neither `__new__` of another class nor a pickle can.
py::custom_type_setup made_by(newfunc create) {
  return py::custom_type_setup([create](PyHeapTypeObject *heap_type) {
    heap_type->ht_type.tp_new = create;
    heap_type->ht_type.tp_init = [](PyObject *, PyObject *, PyObject *) { return 0; };
  });
}

/// Forbids changes of a class, and so that an object of another class is declared one of it by its `__class__`.
void freeze(const py::handle &type) {
  reinterpret_cast<PyTypeObject *>(type.ptr())->tp_flags |= Py_TPFLAGS_IMMUTABLETYPE;
  PyType_Modified(reinterpret_cast<PyTypeObject *>(type.ptr()));
}

void register_library(py::module_ &module) {
  py::class_<Library> type(module, "Library", py::module_local(), py::is_final(), made_by(refuse_new_library));
  type.def_property_readonly("name", [](const Library &self) { return self.api->name; })
      .def_property_readonly("version", [](const Library &self) { return self.api->version; })
      .def_property_readonly("about", [](const Library &self) { return self.api->about; })
      .def_property_readonly("inputs",
                             [](const Library &self) {
                               const LengthTable lengths(*self.api);
                               return describe(self.api->inputs, self.api->num_inputs, lengths.inputs);
                             })
      .def_property_readonly("outputs",
                             [](const Library &self) {
                               const LengthTable lengths(*self.api);
                               return describe(self.api->outputs, self.api->num_outputs, lengths.outputs);
                             })
      .def_property_readonly("lengths",
                             [](const Library &self) {
                               const LengthTable lengths(*self.api);
                               return to_tuple(lengths.values, lengths.count);
                             })
      .def_property_readonly(
          "states", [](const Library &self) { return describe(self.api->states, num_states(*self.api), nullptr); })
      .def_property_readonly(
          "batch_sizes", [](const Library &self) { return to_tuple(self.api->batch_sizes, self.api->num_batch_sizes); })
      .def_property_readonly("batched", [](const Library &self) { return self.api->batched != 0; })
      .def_property_readonly("no_emulation_reason", [](const Library &self) { return self.api->no_emulation_reason; })
      .def_property_readonly("levels",
                             [](const Library &self) { return to_tuple(self.api->levels, self.api->num_levels); });
  freeze(type);
}

/// The object of a method that is not pybind11's, whose dispatcher takes longer than a small model. CPython has checked
/// that it is an Evaluator.
Evaluator &evaluator_of(PyObject *self) {
  auto *instance = reinterpret_cast<py::detail::instance *>(self);
  return *static_cast<Evaluator *>(instance->get_value_and_holder().value_ptr());
}

PyObject *run(PyObject *self, PyObject *arrays) {
  return call_from_c([=] { return evaluator_of(self).run(arrays).release().ptr(); });
}

PyObject *call(PyObject *self, PyObject *arguments) {
  return call_from_c([=] { return evaluator_of(self).call(arguments).release().ptr(); });
}

PyObject *run_into(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
  return call_from_c([=] {
    if (count != 2) raise(PyExc_TypeError, "run_into() takes 2 arguments, got " + std::to_string(count));
    evaluator_of(self).run_into(arguments[0], arguments[1]);
    return py::none().release().ptr();
  });
}

PyMethodDef quick_methods[] = {
    {"run", run, METH_O, nullptr},
    {"call", call, METH_O, nullptr},
    {"run_into", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(run_into)), METH_FASTCALL, nullptr},
};

void register_evaluator(py::module_ &module) {
  py::class_<Evaluator> type(module, "Evaluator", py::module_local(), py::is_final(), made_by(new_evaluator));
  type.def_property_readonly("level", &Evaluator::level)
      .def_property_readonly("settings", &Evaluator::settings)
      .def("reset", &Evaluator::reset)
      .def("state", &Evaluator::state)
      .def("set_state", &Evaluator::set_state, py::arg("arrays"))
      .def("batch_rule", &Evaluator::batch_rule, py::arg("rows"))
      .def("set_batch_rule", &Evaluator::set_batch_rule, py::arg("rule"))
      .def("set_batch_strategy", &Evaluator::set_batch_strategy, py::arg("strategy"));
  auto *python_type = reinterpret_cast<PyTypeObject *>(type.ptr());
  for (PyMethodDef &method : quick_methods)
    type.attr(method.ml_name) = py::reinterpret_steal<py::object>(PyDescr_NewMethod(python_type, &method));
  freeze(type);
}

}  // namespace

PyObject *new_library(const modelwheel_api &api) {
  return call_from_c([&api] { return py::cast(Library{&api}).release().ptr(); });
}

}  // namespace modelwheel

// Both classes are local to the module, so that several models can be used in one process.
PYBIND11_MODULE(checked_core, module, py::mod_gil_not_used(), py::multiple_interpreters::per_interpreter_gil()) {
  py::register_local_exception_translator(modelwheel::translate_errors);
  modelwheel::register_library(module);
  modelwheel::register_evaluator(module);
  if (modelwheel::add_members(module.ptr()) != 0) throw py::error_already_set();
}

// Python looks for this function; that of PYBIND11_MODULE must not run in every interpreter.
PyMODINIT_FUNC PyInit__core() { return modelwheel::require_interpreter() ? PyInit_checked_core() : nullptr; }
