// src/bindings/evaluator.h - evaluates a model with NumPy arrays, from any number of Python's threads.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arguments.h"
#include "bindings/arrays.h"
#include "bindings/gil.h"
#include "bindings/instance_pool.h"
#include "bindings/lengths.h"
#include "bindings/parts.h"
#include "bindings/thread_pool.h"
#include "modelwheel/abi.h"
#include "modelwheel/instance.hpp"
#include "modelwheel/lengths.hpp"

namespace modelwheel {

namespace py = pybind11;

/// The pool is only used with the GIL: os.fork() holds it too, so the child of a fork never finds the pool locked by a
/// thread that it does not have.
class Evaluator {
 public:
  Evaluator(const modelwheel_api &api, const char *level, std::size_t threads)
      : api_(api), pool_(api_, level), threads_(threads), lengths_(api) {
    if (threads > 1) require_splitting();
    for (std::size_t i = 0; i < api_.num_outputs; ++i) dtypes_.emplace_back(numpy_name(api_.outputs[i].dtype));
    for (std::size_t i = 0; i < num_states(api_); ++i) state_dtypes_.emplace_back(numpy_name(api_.states[i].dtype));
  }

  const std::string &level() const { return pool_.level(); }

  /// One array for each input, in order; returns one new array for each output.
  py::tuple run(const py::object &arrays) {
    const py::tuple given = checked_tuple("run()", "input", api_.num_inputs, arrays);
    const std::size_t length = length_of(api_, lengths_, given);
    const std::vector<py::array> inputs = checked_inputs(given, length);
    const std::size_t rows = common_rows(inputs);
    if (rows == 0) require_growing_outputs();

    const TensorsAt tensors(api_.outputs, api_.num_outputs, lengths_.outputs, length);
    py::tuple outputs(api_.num_outputs);
    std::vector<const void *> sources;
    std::vector<void *> targets;
    for (const py::array &input : inputs) sources.push_back(input.data());
    for (std::size_t i = 0; i < api_.num_outputs; ++i) {
      py::array output = new_output(api_.name, tensors[i], dtypes_[i], rows);
      targets.push_back(output.mutable_data());
      outputs[i] = std::move(output);
    }
    evaluate(rows, length, sources.data(), targets.data());
    return outputs;
  }

  std::string batch_rule(const py::handle &rows) {
    const std::size_t count = to_rows(rows, api_.name);
    const InstancePool::Loan model = pool_.lend();
    const WithoutGil others_may_run;
    return modelwheel::batch_rule(api_, model.get(), count);
  }

  void set_batch_rule(const py::handle &rule) {
    pool_.set_batch_rule(to_utf8(rule, subject("the batch rule"), "a str such as '5:4,1'"));
  }

  void set_batch_strategy(const py::handle &strategy) {
    pool_.set_batch_strategy(to_utf8(strategy, subject("the batch strategy"), "the str 'cheapest' or 'smallest'"));
  }

  /// Puts the state back to what it is in a new evaluator.
  void reset() {
    if (state_dtypes_.empty()) return;
    const InstancePool::Loan model = pool_.lend();
    check(api_, model.get(), api_.reset(model.get()));
  }

  /// A new array for each tensor of the state.
  py::tuple state() {
    py::tuple arrays(state_dtypes_.size());
    std::vector<void *> targets;
    for (std::size_t i = 0; i < state_dtypes_.size(); ++i) {
      py::array array = new_output(api_.name, api_.states[i], state_dtypes_[i], 1);
      targets.push_back(array.mutable_data());
      arrays[i] = std::move(array);
    }
    if (targets.empty()) return arrays;
    const InstancePool::Loan model = pool_.lend();
    check(api_, model.get(), api_.get_state(model.get(), targets.data()));
    return arrays;
  }

  /// One array for each tensor of the state, in order. All are checked before any is copied.
  void set_state(const py::object &arrays) {
    const py::tuple given = checked_tuple("set_state()", "state", state_dtypes_.size(), arrays);
    std::vector<py::array> values;
    std::vector<const void *> sources;
    for (std::size_t i = 0; i < given.size(); ++i) {
      values.push_back(checked_array(api_.name, "state", api_.states[i], given[i]));
      sources.push_back(values.back().data());
    }
    if (sources.empty()) return;
    const InstancePool::Loan model = pool_.lend();
    check(api_, model.get(), api_.set_state(model.get(), sources.data()));
  }

  /// The strategy and the rules that were set, so that another evaluator can be given the same.
  py::tuple settings() {
    const auto [strategy, rules] = pool_.settings();
    py::tuple texts(rules.size());
    for (std::size_t i = 0; i < rules.size(); ++i) texts[i] = py::str(rules[i]);
    return py::make_tuple(strategy.empty() ? py::object(py::none()) : py::str(strategy), texts);
  }

 private:
  std::string subject(const char *what) const { return std::string(api_.name) + ": " + what; }

  void evaluate(std::size_t rows, std::size_t length, const void *const *sources, void *const *targets) {
    const InstancePool::Loan model = pool_.lend();
    const std::size_t part =
        threads_.threads() == 1 ? rows : api_.rows_per_thread(model.get(), rows, length, threads_.threads());
    if (part < rows) return evaluate_parts(model, {rows, length, sources, targets, Signals::poll, nullptr}, part);
    bool raised = false;
    modelwheel_status status;
    {
      WithoutGil others_may_run;
      Signals signals(others_may_run);
      status = modelwheel::evaluate(api_, model.get(), {rows, length, sources, targets, Signals::poll, &signals});
      raised = signals.raised();
    }
    if (raised) throw py::error_already_set();
    check(api_, model.get(), status);
  }

  void evaluate_parts(const InstancePool::Loan &first, Evaluation all, std::size_t rows_per_part) {
    std::vector<InstancePool::Loan> others;
    std::vector<modelwheel_model *> models{first.get()};
    ThreadPool &pool = threads_.get();
    bool raised = false;
    std::pair<modelwheel_status, modelwheel_model *> found;
    for (std::size_t i = 1; i < count_parts(all.rows, rows_per_part); ++i) {
      others.push_back(pool_.lend());
      models.push_back(others.back().get());
    }
    {
      WithoutGil others_may_run;
      Signals signals(others_may_run);
      all.context = &signals;
      found = PartedEvaluation(api_, lengths_, all, rows_per_part).run(pool, models);
      raised = signals.raised();
    }
    if (raised) throw py::error_already_set();
    check(api_, found.second, found.first);
  }

  /// One object for each tensor.
  py::tuple checked_tuple(const char *function, const char *kind, std::size_t count, const py::object &arrays) const {
    if (!py::isinstance<py::tuple>(arrays))
      raise(PyExc_TypeError, subject(function) + " takes a tuple of NumPy arrays, got " + type_name(arrays));
    const auto given = py::reinterpret_borrow<py::tuple>(arrays);
    if (given.size() != count)
      raise(PyExc_TypeError, subject("expected ") + std::to_string(count) + ' ' + kind + (count == 1 ? "" : "s") +
                                 ", got " + std::to_string(given.size()));
    return given;
  }

  std::vector<py::array> checked_inputs(const py::tuple &given, std::size_t length) const {
    const TensorsAt tensors(api_.inputs, api_.num_inputs, lengths_.inputs, length);
    std::vector<py::array> inputs;
    for (std::size_t i = 0; i < api_.num_inputs; ++i)
      inputs.push_back(checked_array(api_.name, "input", tensors[i], given[i]));
    return inputs;
  }

  /// The number of rows that all inputs with a batch axis agree on; 1 where there are none.
  std::size_t common_rows(const std::vector<py::array> &inputs) const {
    std::optional<std::size_t> first;
    std::size_t rows = 1;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (api_.inputs[i].leading_per_row == 0) continue;
      const std::size_t given = static_cast<std::size_t>(inputs[i].shape(0)) / api_.inputs[i].leading_per_row;
      if (first && given != rows)
        raise(PyExc_ValueError, subject("all inputs must have the same number of rows, but '") +
                                    api_.inputs[*first].name + "' has " + std::to_string(rows) + " and '" +
                                    api_.inputs[i].name + "' has " + std::to_string(given));
      if (!first) first = i;
      rows = given;
    }
    return rows;
  }

  /// An option is obeyed or refused.
  void require_splitting() const {
    std::string reason;
    if (!knows_threads(api_))
      reason = "it was compiled by a modelwheel that had none";
    else if (!api_.batched)
      reason = "it has no batch axis";
    else if (api_.no_emulation_reason != nullptr)
      reason = api_.no_emulation_reason;
    if (!reason.empty())
      raise(PyExc_ValueError, subject("threads split the rows of a batch, which this model does not allow: ") + reason);
  }

  /// Without rows nothing is evaluated, so an output of fixed shape would have no value.
  void require_growing_outputs() const {
    for (std::size_t i = 0; i < api_.num_outputs; ++i)
      if (api_.outputs[i].leading_per_row == 0)
        raise(PyExc_ValueError,
              subject("output '") + api_.outputs[i].name + "' has a fixed shape: pass at least one row");
  }

  const modelwheel_api &api_;
  InstancePool pool_;
  LazyThreadPool threads_;
  LengthTable lengths_;
  std::vector<py::dtype> dtypes_;  // of the outputs
  std::vector<py::dtype> state_dtypes_;
};

}  // namespace modelwheel
