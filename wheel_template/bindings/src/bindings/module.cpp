// src/bindings/module.cpp - the part of an extension that is the same for all models: the classes Library,
// Evaluator and BoundCall.
//
// It knows no model, so its object file can be shared (cmake/bindings.cmake). The type stubs of the classes are in
// module.pyi.
#include <cstddef>
#include <memory>
#include <string>

#include "bindings/arguments.h"
#include "bindings/arrays.h"
#include "bindings/bound_call.h"
#include "bindings/evaluator.h"
#include "bindings/extension.h"
#include "bindings/numpy.h"
#include "bindings/python.h"
#include "modelwheel/abi.h"
#include "modelwheel/lengths.hpp"

namespace modelwheel {
namespace {

/// What each import of the module has for itself.
struct ModuleState {
  PyObject *library_type;
  PyObject *bound_call_type;
};

ModuleState &state_of(PyObject *module) { return *static_cast<ModuleState *>(PyModule_GetState(module)); }

/// A loaded library. The table lives as long as the library, which is never unloaded.
struct LibraryObject {
  PyObject head;
  const modelwheel_api *api;
};

struct EvaluatorObject {
  PyObject head;
  Evaluator *evaluator;
};

/// The objects of methods and properties, which CPython has checked to be of the class.
const modelwheel_api &api_of(PyObject *self) { return *reinterpret_cast<LibraryObject *>(self)->api; }
Evaluator &evaluator_of(PyObject *self) { return *reinterpret_cast<EvaluatorObject *>(self)->evaluator; }

Object none() { return Object::shared(Py_None); }

Object to_python(const char *text) { return text == nullptr ? none() : Object::taken(PyUnicode_FromString(text)); }
Object to_python(const std::string &text) { return to_python(text.c_str()); }
Object to_python(std::size_t number) { return Object::taken(PyLong_FromSize_t(number)); }

template <class T>
Object to_tuple(const T *values, std::size_t count) {
  return make_tuple(count, [values](std::size_t i) { return to_python(values[i]); });
}

/// The fields of TensorSpec in _model.py, and the name as an identifier, for each tensor.
Object describe(const modelwheel_tensor *tensors, std::size_t count, const modelwheel_extent *const *extents) {
  const NumPy numpy;
  return make_tuple(count, [&](std::size_t i) {
    const modelwheel_tensor &tensor = tensors[i];
    const Object shape = make_tuple(tensor.rank, [&](std::size_t axis) {
      const bool varies = tensor.shape[axis] < 0 || (extents != nullptr && extents[i][axis].per_length != 0);
      return varies ? none() : to_python(static_cast<std::size_t>(tensor.shape[axis]));
    });
    const Object dtype = numpy.dtype(numpy_name(tensor.dtype));
    const Object axis = tensor.leading_per_row == 0 ? none() : to_python(batch_axis(tensor));
    return Object::taken(Py_BuildValue("(sOOnOs)", tensor.name, dtype.get(), shape.get(),
                                       static_cast<Py_ssize_t>(tensor.leading_per_row), axis.get(), tensor.c_name));
  });
}

// --- Library ------------------------------------------------------------------------------------------------------

/// A getter of a property: `read` returns an Object.
template <Object (*read)(const modelwheel_api &)>
PyObject *get_of_library(PyObject *self, void *) {
  return call_from_c([self] { return read(api_of(self)); });
}

Object name(const modelwheel_api &api) { return to_python(api.name); }
Object version(const modelwheel_api &api) { return to_python(api.version); }
Object about(const modelwheel_api &api) { return to_python(api.about); }
Object inputs(const modelwheel_api &api) { return describe(api.inputs, api.num_inputs, LengthTable(api).inputs); }
Object outputs(const modelwheel_api &api) { return describe(api.outputs, api.num_outputs, LengthTable(api).outputs); }
Object states(const modelwheel_api &api) { return describe(api.states, num_states(api), nullptr); }
Object batch_sizes(const modelwheel_api &api) { return to_tuple(api.batch_sizes, api.num_batch_sizes); }
Object batched(const modelwheel_api &api) { return Object::taken(PyBool_FromLong(api.batched)); }
Object no_emulation_reason(const modelwheel_api &api) { return to_python(api.no_emulation_reason); }
Object levels(const modelwheel_api &api) { return to_tuple(api.levels, api.num_levels); }
Object lengths(const modelwheel_api &api) {
  const LengthTable table(api);
  return to_tuple(table.values, table.count);
}

PyGetSetDef library_properties[] = {
    {"name", get_of_library<name>, nullptr, nullptr, nullptr},
    {"version", get_of_library<version>, nullptr, nullptr, nullptr},
    {"about", get_of_library<about>, nullptr, nullptr, nullptr},
    {"inputs", get_of_library<inputs>, nullptr, nullptr, nullptr},
    {"outputs", get_of_library<outputs>, nullptr, nullptr, nullptr},
    {"lengths", get_of_library<lengths>, nullptr, nullptr, nullptr},
    {"states", get_of_library<states>, nullptr, nullptr, nullptr},
    {"batch_sizes", get_of_library<batch_sizes>, nullptr, nullptr, nullptr},
    {"batched", get_of_library<batched>, nullptr, nullptr, nullptr},
    {"no_emulation_reason", get_of_library<no_emulation_reason>, nullptr, nullptr, nullptr},
    {"levels", get_of_library<levels>, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyObject *refuse_new_library(PyTypeObject *, PyObject *, PyObject *) {
  PyErr_SetString(PyExc_TypeError, "a Library is made by opening a model, not by calling its type");
  return nullptr;
}

// --- Evaluator ----------------------------------------------------------------------------------------------------

/// More than any machine has CPUs.
constexpr Py_ssize_t kMostThreads = 4096;

std::unique_ptr<Evaluator> make_evaluator(const modelwheel_api &api, PyObject *level, Py_ssize_t threads) {
  std::string name;
  if (level != Py_None)
    name = to_utf8(level, std::string(api.name) + ": the CPU level", "a str such as 'x86-64-v3', or None");
  if (threads < 1 || threads > kMostThreads)
    raise(PyExc_ValueError, std::string(api.name) + ": threads must be from 1 to " + std::to_string(kMostThreads) +
                                ", got " + std::to_string(threads));
  return std::make_unique<Evaluator>(api, level == Py_None ? nullptr : name.c_str(), static_cast<std::size_t>(threads));
}

/// Evaluator(library, level, threads). No object exists before its evaluator does.
PyObject *new_evaluator(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  return call_from_c([=] {
    static const char *const kNames[] = {"library", "level", "threads", nullptr};
    PyObject *library = nullptr, *level = nullptr;
    Py_ssize_t threads = 1;
    if (PyArg_ParseTupleAndKeywords(args, kwargs, "OO|n:Evaluator", const_cast<char **>(kNames), &library, &level,
                                    &threads) == 0)
      throw PythonError();
    const auto *state = static_cast<const ModuleState *>(PyType_GetModuleState(type));
    if (state == nullptr) throw PythonError();
    if (!Py_IS_TYPE(library, reinterpret_cast<PyTypeObject *>(state->library_type)))
      raise(PyExc_TypeError, "Evaluator() takes a Library, got " + type_name(library));
    std::unique_ptr<Evaluator> evaluator = make_evaluator(api_of(library), level, threads);
    Object made = Object::taken(type->tp_alloc(type, 0));
    reinterpret_cast<EvaluatorObject *>(made.get())->evaluator = evaluator.release();
    return made;
  });
}

void delete_evaluator(PyObject *self) {
  PyTypeObject *const type = Py_TYPE(self);
  delete &evaluator_of(self);
  type->tp_free(self);
  Py_DECREF(type);  // each object of a class that is made at run time has a reference to it
}

PyObject *level(PyObject *self, void *) {
  return call_from_c([self] { return to_python(evaluator_of(self).level()); });
}

PyObject *settings(PyObject *self, void *) {
  return call_from_c([self] { return evaluator_of(self).settings(); });
}

/// A method of one argument, with a result or without.
template <Object (Evaluator::*method)(PyObject *)>
PyObject *answer(PyObject *self, PyObject *argument) {
  return call_from_c([=] { return (evaluator_of(self).*method)(argument); });
}

template <void (Evaluator::*method)(PyObject *)>
PyObject *obey(PyObject *self, PyObject *argument) {
  return call_from_c([=] {
    (evaluator_of(self).*method)(argument);
    return none();
  });
}

PyObject *state(PyObject *self, PyObject *) {
  return call_from_c([self] { return evaluator_of(self).state(); });
}

PyObject *reset(PyObject *self, PyObject *) {
  return call_from_c([self] {
    evaluator_of(self).reset();
    return none();
  });
}

PyObject *batch_rule(PyObject *self, PyObject *rows) {
  return call_from_c([=] { return to_python(evaluator_of(self).batch_rule(rows)); });
}

PyObject *run_into(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
  return call_from_c([=] {
    if (count != 2) raise(PyExc_TypeError, "run_into() takes 2 arguments, got " + std::to_string(count));
    evaluator_of(self).run_into(arguments[0], arguments[1]);
    return none();
  });
}

/// bind(arrays, out): a BoundCall.
PyObject *bind(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
  return call_from_c([=] {
    if (count != 2) raise(PyExc_TypeError, "bind() takes 2 arguments, got " + std::to_string(count));
    const auto *state = static_cast<const ModuleState *>(PyType_GetModuleState(Py_TYPE(self)));
    if (state == nullptr) throw PythonError();
    Evaluator &evaluator = evaluator_of(self);
    return BoundCall::make(reinterpret_cast<PyTypeObject *>(state->bound_call_type), self, evaluator,
                           evaluator.bind(arguments[0], arguments[1]));
  });
}

PyGetSetDef evaluator_properties[] = {
    {"level", level, nullptr, nullptr, nullptr},
    {"settings", settings, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef evaluator_methods[] = {
    {"run", answer<&Evaluator::run>, METH_O, nullptr},
    {"call", answer<&Evaluator::call>, METH_O, nullptr},
    {"run_into", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(run_into)), METH_FASTCALL, nullptr},
    {"bind", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(bind)), METH_FASTCALL, nullptr},
    {"reset", reset, METH_NOARGS, nullptr},
    {"state", state, METH_NOARGS, nullptr},
    {"set_state", obey<&Evaluator::set_state>, METH_O, nullptr},
    {"batch_rule", batch_rule, METH_O, nullptr},
    {"set_batch_rule", obey<&Evaluator::set_batch_rule>, METH_O, nullptr},
    {"set_batch_strategy", obey<&Evaluator::set_batch_strategy>, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

// --- the module ---------------------------------------------------------------------------------------------------

/// Adds a class that cannot be changed: neither a subclass nor an assignment to `__class__` declares another object one
/// of it. CPython keeps the name's address.
Object add_type(PyObject *module, const std::string &full_name, std::size_t bytes, PyType_Slot *slots,
                unsigned long flags = 0) {
  PyType_Spec spec{full_name.c_str(), static_cast<int>(bytes), 0,
                   static_cast<unsigned>(Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | flags), slots};
  Object type = Object::taken(PyType_FromModuleAndSpec(module, &spec, nullptr));
  if (PyModule_AddType(module, reinterpret_cast<PyTypeObject *>(type.get())) != 0) throw PythonError();
  return type;
}

template <class Function>
void *slot(Function *function) {
  return reinterpret_cast<void *>(function);
}

std::string qualified(PyObject *module, const char *type) {
  const char *const name = PyModule_GetName(module);
  if (name == nullptr) throw PythonError();
  return std::string(name) + '.' + type;
}

void add_types(PyObject *module) {
  // The same in all interpreters, and never freed: the classes of one may outlive everything else.
  static const std::string &library = *new std::string(qualified(module, "Library"));
  static const std::string &evaluator = *new std::string(qualified(module, "Evaluator"));
  static const std::string &bound_call = *new std::string(qualified(module, "BoundCall"));
  PyType_Slot library_slots[] = {
      {Py_tp_new, slot(refuse_new_library)},
      {Py_tp_getset, library_properties},
      {0, nullptr},
  };
  PyType_Slot evaluator_slots[] = {
      {Py_tp_new, slot(new_evaluator)},
      {Py_tp_dealloc, slot(delete_evaluator)},
      {Py_tp_methods, evaluator_methods},
      {Py_tp_getset, evaluator_properties},
      {0, nullptr},
  };
  PyType_Slot bound_call_slots[] = {
      {Py_tp_new, slot(BoundCall::refuse_new)},
      {Py_tp_dealloc, slot(BoundCall::destroy)},
      {Py_tp_traverse, slot(BoundCall::traverse)},
      {Py_tp_clear, slot(BoundCall::clear)},
      {Py_tp_call, slot(PyVectorcall_Call)},
      {Py_tp_members, bound_call_members},
      {0, nullptr},
  };
  state_of(module).library_type = add_type(module, library, sizeof(LibraryObject), library_slots).release();
  add_type(module, evaluator, sizeof(EvaluatorObject), evaluator_slots);
  state_of(module).bound_call_type =
      add_type(module, bound_call, sizeof(BoundCall), bound_call_slots, Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL)
          .release();
}

int execute(PyObject *module) {
  PyObject *const done = call_from_c([module] {
    add_types(module);
    if (add_members(module) != 0) throw PythonError();
    return none();
  });
  Py_XDECREF(done);
  return done == nullptr ? -1 : 0;
}

int traverse(PyObject *module, visitproc visit, void *arg) {
  Py_VISIT(state_of(module).library_type);
  Py_VISIT(state_of(module).bound_call_type);
  return 0;
}

int clear(PyObject *module) {
  Py_CLEAR(state_of(module).library_type);
  Py_CLEAR(state_of(module).bound_call_type);
  return 0;
}

PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, slot(execute)},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, nullptr},
};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_core", nullptr, sizeof(ModuleState), nullptr, module_slots, traverse, clear, nullptr,
};

/// Sets ImportError and returns false in an interpreter in which the extension would hang: before CPython 3.12,
/// PyGILState_Ensure, which NumPy calls, waits for ever in a sub-interpreter
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

PyObject *new_library(PyObject *module, const modelwheel_api &api) {
  auto *const type = reinterpret_cast<PyTypeObject *>(state_of(module).library_type);
  PyObject *const library = type->tp_alloc(type, 0);
  if (library != nullptr) reinterpret_cast<LibraryObject *>(library)->api = &api;
  return library;
}

}  // namespace modelwheel

PyMODINIT_FUNC PyInit__core() {
  return modelwheel::require_interpreter() ? PyModuleDef_Init(&modelwheel::definition) : nullptr;
}
