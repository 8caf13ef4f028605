// src/bindings/module.cpp - the part of an extension that is the same for all models: the classes Library,
// Evaluator and BoundCall.
//
// It knows no model, so its object file can be shared (cmake/bindings.cmake). The type stubs of the classes are in
// module.pyi.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "bindings/arguments.h"
#include "bindings/arrays.h"
#include "bindings/bound_call.h"
#include "bindings/evaluator.h"
#include "bindings/extension.h"
#include "bindings/native_path.h"
#include "modelwheel/abi.h"
#include "modelwheel/lengths.hpp"
#include "modelwheel/library.hpp"

namespace py = pybind11;

namespace modelwheel {
namespace {

/// A loaded library. The table lives as long as the library, which is never unloaded.
struct Library {
  const modelwheel_api *api;
};

py::object to_python(const char *text) { return text == nullptr ? py::object(py::none()) : py::str(text); }
py::object to_python(std::size_t number) { return taken(PyLong_FromSize_t(number)); }

template <class T>
py::object to_tuple(const T *values, std::size_t count) {
  return make_tuple(count, [values](std::size_t i) { return to_python(values[i]); });
}

/// The fields of TensorSpec in _model.py, and the name as an identifier, for each tensor.
py::object describe(const modelwheel_tensor *tensors, std::size_t count, const modelwheel_extent *const *extents) {
  // Not py::dtype, which first finds out NumPy's version: that takes as long as a quarter of the import of a model.
  const py::object dtype = py::module_::import("numpy").attr("dtype");
  return make_tuple(count, [&](std::size_t i) {
    const modelwheel_tensor &tensor = tensors[i];
    const py::object shape = make_tuple(tensor.rank, [&](std::size_t axis) {
      const bool varies = tensor.shape[axis] < 0 || (extents != nullptr && extents[i][axis].per_length != 0);
      return varies ? py::none() : to_python(static_cast<std::size_t>(tensor.shape[axis]));
    });
    const py::object axis = tensor.leading_per_row == 0 ? py::none() : to_python(batch_axis(tensor));
    return taken(Py_BuildValue("(sOOnOs)", tensor.name, dtype(numpy_name(tensor.dtype)).ptr(), shape.ptr(),
                               static_cast<Py_ssize_t>(tensor.leading_per_row), axis.ptr(), tensor.c_name));
  });
}

/// Forbids changes of a class, and so that an object of another class is declared one of it by its `__class__`.
void freeze(py::handle type) {
  reinterpret_cast<PyTypeObject *>(type.ptr())->tp_flags |= Py_TPFLAGS_IMMUTABLETYPE;
  PyType_Modified(reinterpret_cast<PyTypeObject *>(type.ptr()));
}

// --- Library ------------------------------------------------------------------------------------------------------

struct Property {
  const char *name;
  py::object (*read)(const Library &);
  const char *doc;
};

constexpr Property kProperties[] = {
    {"name", [](const Library &self) { return to_python(self.api->name); }, "Of the model."},
    {"version", [](const Library &self) { return to_python(self.api->version); }, "Of the model."},
    {"about", [](const Library &self) { return to_python(self.api->about); }, "Its JSON: versions, authors, levels."},
    {"inputs",
     [](const Library &self) {
       return describe(self.api->inputs, self.api->num_inputs, LengthTable(*self.api).inputs);
     },
     "The fields of TensorSpec, and the name as an identifier, for each input."},
    {"outputs",
     [](const Library &self) {
       return describe(self.api->outputs, self.api->num_outputs, LengthTable(*self.api).outputs);
     },
     "The same for each output."},
    {"states", [](const Library &self) { return describe(self.api->states, num_states(*self.api), nullptr); },
     "The same for each tensor that a call leaves for the next."},
    {"batch_sizes", [](const Library &self) { return to_tuple(self.api->batch_sizes, self.api->num_batch_sizes); },
     "Numbers of rows that were compiled."},
    {"batched", [](const Library &self) { return taken(PyBool_FromLong(self.api->batched)); },
     "Whether the tensors have a batch axis."},
    {"no_emulation_reason", [](const Library &self) { return to_python(self.api->no_emulation_reason); },
     "Why other numbers of rows are refused, or None."},
    {"lengths",
     [](const Library &self) {
       const LengthTable table(*self.api);
       return to_tuple(table.values, table.count);
     },
     "Lengths that were compiled."},
    {"levels", [](const Library &self) { return to_tuple(self.api->levels, self.api->num_levels); },
     "CPU levels, the lowest first."},
};

PyObject *refuse_new_library(PyTypeObject *, PyObject *, PyObject *) {
  PyErr_SetString(PyExc_TypeError, "a Library is made by opening a model, not by calling its type");
  return nullptr;
}

void register_library(py::module_ &module) {
  py::class_<Library> type(module, "Library", "A loaded library of a model.", py::module_local(), py::is_final(),
                           py::custom_type_setup([](PyHeapTypeObject *heap_type) {
                             heap_type->ht_type.tp_alloc = allocate;
                             heap_type->ht_type.tp_new = refuse_new_library;
                           }));
  for (const Property &property : kProperties) type.def_property_readonly(property.name, property.read, property.doc);
  freeze(type);
}

// --- Evaluator ----------------------------------------------------------------------------------------------------

/// More than any machine has CPUs.
constexpr Py_ssize_t kMostThreads = 4096;

std::unique_ptr<Evaluator> make_evaluator(const modelwheel_api &api, py::handle level, Py_ssize_t threads) {
  std::string name;
  if (!level.is_none())
    name = to_utf8(level, std::string(api.name) + ": the CPU level", "a str such as 'x86-64-v3', or None");
  if (threads < 1 || threads > kMostThreads)
    throw py::value_error(std::string(api.name) + ": threads must be from 1 to " + std::to_string(kMostThreads) +
                          ", got " + std::to_string(threads));
  return std::make_unique<Evaluator>(api, level.is_none() ? nullptr : name.c_str(), static_cast<std::size_t>(threads));
}

/// Evaluator(library, level, threads). pybind11 would allocate in `__new__` and construct in `__init__`, and use the
/// memory without a question if `__init__` never ran; here `__new__` does both.
PyObject *new_evaluator(PyTypeObject *, PyObject *args, PyObject *kwargs) {
  return call_from_c([=] {
    static const char *const kNames[] = {"library", "level", "threads", nullptr};
    PyObject *library = nullptr, *level = nullptr;
    Py_ssize_t threads = 1;
    if (PyArg_ParseTupleAndKeywords(args, kwargs, "OO|n:Evaluator", const_cast<char **>(kNames), &library, &level,
                                    &threads) == 0)
      throw py::error_already_set();
    if (!py::isinstance<Library>(library))
      throw py::type_error("Evaluator() takes a Library, got " + type_name(library));
    std::unique_ptr<Evaluator> made = make_evaluator(*py::handle(library).cast<const Library &>().api, level, threads);
    // Not the unique_ptr: where pybind11 cannot register the object, it has freed the value, and so would the pointer.
    return py::cast(made.release(), py::return_value_policy::take_ownership);
  });
}

/// The object of a quick method, which CPython has checked to be of the class.
Evaluator &evaluator_of(PyObject *self) {
  return *py::detail::value_and_holder(reinterpret_cast<py::detail::instance *>(self), nullptr, 0, 0)
              .value_ptr<Evaluator>();
}

PyObject *run(PyObject *self, PyObject *arrays) {
  return call_from_c([=] { return evaluator_of(self).run(arrays); });
}

PyObject *call(PyObject *self, PyObject *arguments) {
  return call_from_c([=] { return evaluator_of(self).call(arguments); });
}

PyObject *run_into(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
  return call_from_c([=]() -> py::object {
    if (count != 2) throw py::type_error("run_into() takes 2 arguments, got " + std::to_string(count));
    evaluator_of(self).run_into(arguments[0], arguments[1]);
    return py::none();
  });
}

PyObject *bind(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
  return call_from_c([=] {
    if (count != 2) throw py::type_error("bind() takes 2 arguments, got " + std::to_string(count));
    Evaluator &evaluator = evaluator_of(self);
    return BoundCall::make(py::reinterpret_borrow<py::object>(self), evaluator,
                           evaluator.bind(arguments[0], arguments[1]));
  });
}

/// Methods that are not pybind11's, whose dispatcher takes longer than a small model.
PyMethodDef quick_methods[] = {
    {"run", run, METH_O, "run($self, arrays, /)\n--\n\nReturns one new array for each output."},
    {"call", call, METH_O, "call($self, arguments, /)\n--\n\nReturns what a call of the model returns."},
    {"run_into", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(run_into)), METH_FASTCALL,
     "run_into($self, arrays, out, /)\n--\n\nWrites the results to arrays of the caller."},
    {"bind", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(bind)), METH_FASTCALL,
     "bind($self, arrays, out, /)\n--\n\nReturns a BoundCall, whose calls use the memory of these arrays."},
};

void register_evaluator(py::module_ &module) {
  py::class_<Evaluator> type(module, "Evaluator",
                             "Evaluator(library, level, threads=1)\n--\n\nEvaluates a model with NumPy arrays.",
                             py::module_local(), py::is_final(), py::custom_type_setup([](PyHeapTypeObject *heap_type) {
                               heap_type->ht_type.tp_alloc = allocate;
                               heap_type->ht_type.tp_new = new_evaluator;
                               heap_type->ht_type.tp_init = [](PyObject *, PyObject *, PyObject *) { return 0; };
                             }));
  type.def_property_readonly("level", &Evaluator::level, "The CPU level.")
      .def_property_readonly("settings", &Evaluator::settings, "The batch strategy, or None, and the rules.")
      .def("reset", &Evaluator::reset, "Puts the state back to what it is in a new evaluator.")
      .def("state", &Evaluator::state, "Returns a new array for each tensor of the state.")
      .def("set_state", &Evaluator::set_state, py::arg("arrays"), "Sets the state: one array for each tensor.")
      .def("batch_rule", &Evaluator::batch_rule, py::arg("rows"), "Returns how so many rows are split.")
      .def("set_batch_rule", &Evaluator::set_batch_rule, py::arg("rule"), "Sets how some number of rows is split.")
      .def("set_batch_strategy", &Evaluator::set_batch_strategy, py::arg("strategy"), "Sets how others are split.");
  for (PyMethodDef &method : quick_methods)
    type.attr(method.ml_name) = taken(PyDescr_NewMethod(reinterpret_cast<PyTypeObject *>(type.ptr()), &method));
  freeze(type);
}

void register_bound_call(py::module_ &module) {
  freeze(py::class_<BoundCall>(module, "BoundCall", "A call without arguments, for arrays that were bound.",
                               py::module_local(), py::is_final(), py::custom_type_setup(BoundCall::set_up)));
}

// --- the module ---------------------------------------------------------------------------------------------------

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

}  // namespace

PyObject *new_library(const modelwheel_api &api) { return py::cast(Library{&api}).release().ptr(); }

const modelwheel_api &table_beside(PyObject *module, const char *path, const char *function) {
  const py::object directory =
      py::module_::import("os").attr("path").attr("dirname")(py::handle(module).attr("__file__"));
  const py::str whole = py::str(directory) + py::str("/") + py::str(path);
  try {
    const auto table = reinterpret_cast<const modelwheel_api *(*)()>(find_function(to_native_path(whole), function));
    if (table != nullptr) return *table();
  } catch (const Error &error) {
    throw py::import_error(std::string("the library of the model ") + error.what());
  }
  throw py::import_error(std::string("the library of the model has no function ") + function +
                         "; install the model again");
}

void add_library(PyObject *module, const char *name, const modelwheel_api &api) {
  py::setattr(module, name, py::cast(Library{&api}));
}

}  // namespace modelwheel

// All classes are local to the module, so that several models can be used in one process.
PYBIND11_MODULE(checked_core, module, py::mod_gil_not_used(), py::multiple_interpreters::per_interpreter_gil()) {
  py::register_local_exception_translator(modelwheel::translate_errors);
  modelwheel::register_library(module);
  modelwheel::register_evaluator(module);
  modelwheel::register_bound_call(module);
  modelwheel::add_members(module.ptr());
}

// Python looks for this function; that of PYBIND11_MODULE must not run in every interpreter.
PyMODINIT_FUNC PyInit__core() { return modelwheel::require_interpreter() ? PyInit_checked_core() : nullptr; }
