// src/bindings/module.h - models from Python: checks arrays, releases the GIL, calls the C ABI, wraps the results.
//
// Nothing here depends on one particular model. The type stubs of these classes are in module.pyi.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/instance_pool.h"
#include "modelwheel/abi.h"
#include "modelwheel/instance.hpp"

namespace modelwheel {

namespace py = pybind11;

/// A loaded library. The table lives as long as the library, which is never unloaded.
struct Library {
  const modelwheel_api *api;
};

/// The fields of TensorSpec in _model.py, and the name as an identifier, for each tensor.
inline py::tuple describe(const modelwheel_tensor *tensors, std::size_t count) {
  py::tuple described(count);
  for (std::size_t i = 0; i < count; ++i) {
    py::tuple shape(tensors[i].rank);
    for (std::size_t axis = 0; axis < tensors[i].rank; ++axis)
      shape[axis] = tensors[i].shape[axis] < 0 ? py::object(py::none()) : py::int_(tensors[i].shape[axis]);
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

/// Evaluates a model; may be called from any number of threads.
class Evaluator {
 public:
  Evaluator(const Library &library, const char *level) : api_(*library.api), pool_(api_, level) {
    for (std::size_t i = 0; i < api_.num_outputs; ++i) dtypes_.emplace_back(numpy_name(api_.outputs[i].dtype));
  }

  const std::string &level() const { return pool_.level(); }

  /// One array for each input, in order; returns one new array for each output.
  py::tuple run(const py::tuple &arrays) {
    if (arrays.size() != api_.num_inputs)
      throw py::type_error(std::string(api_.name) + ": expected " + std::to_string(api_.num_inputs) +
                           (api_.num_inputs == 1 ? " input" : " inputs") + ", got " + std::to_string(arrays.size()));
    std::vector<py::array> inputs;
    for (std::size_t i = 0; i < api_.num_inputs; ++i) inputs.push_back(contiguous_input(api_.inputs[i], arrays[i]));
    const std::size_t rows = common_rows(inputs);
    if (rows == 0) require_growing_outputs();

    py::tuple outputs(api_.num_outputs);
    std::vector<const void *> sources;
    std::vector<void *> targets;
    for (const py::array &input : inputs) sources.push_back(input.data());
    for (std::size_t i = 0; i < api_.num_outputs; ++i) {
      py::array output = new_output(api_.outputs[i], dtypes_[i], rows);
      targets.push_back(output.mutable_data());
      outputs[i] = std::move(output);
    }
    {
      const py::gil_scoped_release others_may_run;
      const InstancePool::Loan model = pool_.lend();
      check(api_, model.get(), api_.run(model.get(), rows, sources.data(), targets.data()));
    }
    return outputs;
  }

  std::string batch_rule(std::size_t rows) { return modelwheel::batch_rule(api_, pool_.lend().get(), rows); }
  void set_batch_rule(const std::string &rule) { pool_.set_batch_rule(rule); }
  void set_batch_strategy(const std::string &strategy) { pool_.set_batch_strategy(strategy); }

 private:
  py::array contiguous_input(const modelwheel_tensor &tensor, const py::handle &value) const {
    if (!py::isinstance<py::array>(value))
      throw py::type_error(std::string(api_.name) + ": input '" + tensor.name + "' must be a NumPy array");
    py::array array = py::reinterpret_borrow<py::array>(value);
    check_input(api_.name, tensor, array);
    if ((array.flags() & py::array::c_style) == 0) array = array.attr("copy")("C");
    return array;
  }

  /// The number of rows that all inputs with a batch axis agree on; 1 where there are none.
  std::size_t common_rows(const std::vector<py::array> &inputs) const {
    std::optional<std::size_t> first;
    std::size_t rows = 1;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (api_.inputs[i].leading_per_row == 0) continue;
      const std::size_t given = static_cast<std::size_t>(inputs[i].shape(0)) / api_.inputs[i].leading_per_row;
      if (first && given != rows)
        throw py::value_error(std::string(api_.name) + ": all inputs must have the same number of rows, but '" +
                              api_.inputs[*first].name + "' has " + std::to_string(rows) + " and '" +
                              api_.inputs[i].name + "' has " + std::to_string(given));
      if (!first) first = i;
      rows = given;
    }
    return rows;
  }

  /// Without rows nothing is evaluated, so an output of fixed shape would have no value.
  void require_growing_outputs() const {
    for (std::size_t i = 0; i < api_.num_outputs; ++i)
      if (api_.outputs[i].leading_per_row == 0)
        throw py::value_error(std::string(api_.name) + ": output '" + api_.outputs[i].name +
                              "' has a fixed shape: pass at least one row");
  }

  const modelwheel_api &api_;
  InstancePool pool_;
  std::vector<py::dtype> dtypes_;  // of the outputs
};

inline void translate_errors(std::exception_ptr exception) {
  try {
    if (exception) std::rethrow_exception(exception);
  } catch (const Error &error) {
    switch (error.status()) {
      case MODELWHEEL_OUT_OF_MEMORY: PyErr_SetString(PyExc_MemoryError, error.what()); break;
      case MODELWHEEL_INTERNAL: PyErr_SetString(PyExc_RuntimeError, error.what()); break;
      default: PyErr_SetString(PyExc_ValueError, error.what());
    }
  }
}

inline void register_library(py::module_ &module) {
  py::class_<Library>(module, "Library", py::module_local(), py::is_final())
      .def_property_readonly("name", [](const Library &self) { return self.api->name; })
      .def_property_readonly("version", [](const Library &self) { return self.api->version; })
      .def_property_readonly("about", [](const Library &self) { return self.api->about; })
      .def_property_readonly("inputs",
                             [](const Library &self) { return describe(self.api->inputs, self.api->num_inputs); })
      .def_property_readonly("outputs",
                             [](const Library &self) { return describe(self.api->outputs, self.api->num_outputs); })
      .def_property_readonly(
          "batch_sizes", [](const Library &self) { return to_tuple(self.api->batch_sizes, self.api->num_batch_sizes); })
      .def_property_readonly("batched", [](const Library &self) { return self.api->batched != 0; })
      .def_property_readonly("no_emulation_reason", [](const Library &self) { return self.api->no_emulation_reason; })
      .def_property_readonly("levels",
                             [](const Library &self) { return to_tuple(self.api->levels, self.api->num_levels); });
}

inline void register_evaluator(py::module_ &module) {
  py::class_<Evaluator>(module, "Evaluator", py::module_local(), py::is_final())
      .def(py::init<const Library &, const char *>(), py::arg("library"), py::arg("level").none(true))
      .def_property_readonly("level", &Evaluator::level)
      .def("run", &Evaluator::run, py::arg("arrays"))
      .def("batch_rule", &Evaluator::batch_rule, py::arg("rows"))
      .def("set_batch_rule", &Evaluator::set_batch_rule, py::arg("rule"))
      .def("set_batch_strategy", &Evaluator::set_batch_strategy, py::arg("strategy"));
}

/// Adds Library and Evaluator to a module. Both are local to it, so that several models can be used in one process.
inline void register_bindings(py::module_ &module) {
  py::register_local_exception_translator(translate_errors);
  register_library(module);
  register_evaluator(module);
}

}  // namespace modelwheel
