// src/bindings/bound_call.h - the class BoundCall: what Evaluator.bind returns.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "bindings/arguments.h"
#include "bindings/bound.h"
#include "bindings/evaluator.h"

namespace modelwheel {

/// A call of an evaluator with arrays that are fixed. An array, or the dict that is returned, may refer to the call in
/// turn, so the garbage collector knows it.
struct BoundCall {
  py::object owner;  // of the evaluator
  Evaluator *evaluator = nullptr;
  std::unique_ptr<Bound> bound;

  /// Null while pybind11 makes the object.
  static BoundCall *of(PyObject *self) {
    return py::detail::value_and_holder(reinterpret_cast<py::detail::instance *>(self), nullptr, 0, 0)
        .value_ptr<BoundCall>();
  }

  /// What pybind11 has no option for: an object that is called without a tuple of arguments, and its references.
  static void set_up(PyHeapTypeObject *heap_type) {
    PyTypeObject &type = heap_type->ht_type;
    type.tp_flags |= Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL;
    type.tp_vectorcall_offset = type.tp_basicsize;  // a member behind those of pybind11
    type.tp_basicsize += static_cast<Py_ssize_t>(sizeof(vectorcallfunc));
    type.tp_call = PyVectorcall_Call;
    type.tp_alloc = allocate;
    type.tp_new = refuse_new;
    type.tp_traverse = traverse;
    type.tp_clear = clear;
  }

  static py::object make(py::object owner, Evaluator &evaluator, std::unique_ptr<Bound> bound) {
    // Filled afterwards: where pybind11 cannot register an object, it frees the value without its destructor.
    py::object made = py::cast(BoundCall());
    *of(made.ptr()) = {std::move(owner), &evaluator, std::move(bound)};
    *reinterpret_cast<vectorcallfunc *>(reinterpret_cast<char *>(made.ptr()) +
                                        Py_TYPE(made.ptr())->tp_vectorcall_offset) = call;
    return made;
  }

  static PyObject *call(PyObject *self, PyObject *const *, std::size_t count, PyObject *names) {
    return call_from_c([=] {
      if (PyVectorcall_NARGS(count) != 0 || (names != nullptr && size_of(names) != 0))
        throw py::type_error("a bound call takes no arguments; write to the arrays that were bound, or bind others");
      const BoundCall &bound = *of(self);
      if (bound.bound == nullptr)
        throw Error("the garbage collector has taken the arrays of this call", MODELWHEEL_INTERNAL);
      bound.evaluator->run_bound(*bound.bound);
      return bound.bound->result();
    });
  }

  static int traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    const BoundCall *const call = of(self);
    if (call == nullptr) return 0;
    Py_VISIT(call->owner.ptr());
    if (call->bound == nullptr) return 0;
    for (const auto *arrays : {&call->bound->inputs(), &call->bound->outputs()})
      for (const BoundArray &array : *arrays) Py_VISIT(array.get().ptr());
    Py_VISIT(call->bound->result().ptr());
    return 0;
  }

  static int clear(PyObject *self) {
    if (BoundCall *const call = of(self)) std::unique_ptr<Bound>().swap(call->bound);
    return 0;
  }

  static PyObject *refuse_new(PyTypeObject *, PyObject *, PyObject *) {
    PyErr_SetString(PyExc_TypeError, "a BoundCall is made by a model's bind(), not by calling its type");
    return nullptr;
  }
};

}  // namespace modelwheel
