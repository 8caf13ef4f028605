// src/bindings/bound_call.h - the class BoundCall: what Evaluator.bind returns.
#pragma once

#include <cstddef>
#include <memory>

#include "bindings/arguments.h"
#include "bindings/bound.h"
#include "bindings/evaluator.h"
#include "bindings/python.h"

#if PY_VERSION_HEX < 0x030C0000
#include <structmember.h>  // since 3.12, Python.h has what it has, by other names
#endif

namespace modelwheel {

/// A call of an evaluator with arrays that are fixed. An array, or the dict that is returned, may refer to the call in
/// turn, so the garbage collector knows it.
struct BoundCall {
  PyObject head;
  vectorcallfunc function;
  PyObject *owner;  // of the evaluator
  Evaluator *evaluator;
  Bound *bound;

  static BoundCall &of(PyObject *self) { return *reinterpret_cast<BoundCall *>(self); }

  static Object make(PyTypeObject *type, PyObject *owner, Evaluator &evaluator, std::unique_ptr<Bound> bound) {
    Object made = Object::taken(type->tp_alloc(type, 0));
    BoundCall &self = of(made.get());
    Py_INCREF(owner);
    self.function = call;
    self.owner = owner;
    self.evaluator = &evaluator;
    self.bound = bound.release();
    return made;
  }

  static PyObject *call(PyObject *self, PyObject *const *, std::size_t count, PyObject *names) {
    return call_from_c([=] {
      if (PyVectorcall_NARGS(count) != 0 || (names != nullptr && size_of(names) != 0))
        raise(PyExc_TypeError, "a bound call takes no arguments; write to the arrays that were bound, or bind others");
      const BoundCall &bound = of(self);
      if (bound.bound == nullptr) raise(PyExc_RuntimeError, "the garbage collector has taken the arrays of this call");
      bound.evaluator->run_bound(*bound.bound);
      return Object::shared(bound.bound->result());
    });
  }

  static int traverse(PyObject *self, visitproc visit, void *arg) {
    const BoundCall &call = of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(call.owner);
    if (call.bound == nullptr) return 0;
    for (const auto *arrays : {&call.bound->inputs(), &call.bound->outputs()})
      for (const BoundArray &array : *arrays) Py_VISIT(array.get());
    Py_VISIT(call.bound->result());
    return 0;
  }

  static int clear(PyObject *self) {
    delete std::exchange(of(self).bound, nullptr);
    return 0;
  }

  static void destroy(PyObject *self) {
    PyObject_GC_UnTrack(self);
    clear(self);
    Py_XDECREF(of(self).owner);
    PyTypeObject *const type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);  // each object of a class that is made at run time has a reference to it
  }

  static PyObject *refuse_new(PyTypeObject *, PyObject *, PyObject *) {
    PyErr_SetString(PyExc_TypeError, "a BoundCall is made by a model's bind(), not by calling its type");
    return nullptr;
  }
};

#if PY_VERSION_HEX < 0x030C0000
inline constexpr int kSizeMember = T_PYSSIZET, kReadOnly = READONLY;
#else
inline constexpr int kSizeMember = Py_T_PYSSIZET, kReadOnly = Py_READONLY;
#endif

inline PyMemberDef bound_call_members[] = {
    {"__vectorcalloffset__", kSizeMember, offsetof(BoundCall, function), kReadOnly, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

}  // namespace modelwheel
