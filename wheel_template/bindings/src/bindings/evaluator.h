// src/bindings/evaluator.h - evaluates a model with NumPy arrays, from any number of Python's threads.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arguments.h"
#include "bindings/arrays.h"
#include "bindings/bound.h"
#include "bindings/few.h"
#include "bindings/gil.h"
#include "bindings/inputs.h"
#include "bindings/instance_pool.h"
#include "bindings/outputs.h"
#include "bindings/parts.h"
#include "bindings/recent_calls.h"
#include "bindings/thread_pool.h"
#include "modelwheel/abi.h"
#include "modelwheel/instance.hpp"
#include "modelwheel/lengths.hpp"

namespace modelwheel {

/// NumPy's element types of all tensors of a model.
struct DTypes {
  explicit DTypes(const modelwheel_api &api)
      : inputs(of(api.inputs, api.num_inputs)),
        outputs(of(api.outputs, api.num_outputs)),
        states(of(api.states, num_states(api))) {}

  std::vector<py::dtype> inputs, outputs, states;

 private:
  static std::vector<py::dtype> of(const modelwheel_tensor *tensors, std::size_t count) {
    std::vector<py::dtype> dtypes;
    for (std::size_t i = 0; i < count; ++i) dtypes.emplace_back(numpy_name(tensors[i].dtype));
    return dtypes;
  }
};

/// A call so short, in nanoseconds, that the GIL is kept: another thread would hardly have begun before it ends, and
/// releasing and taking it again takes 0.08 us. Python itself keeps it a thousand times as long.
constexpr double kShort = 5000.0;

/// The most rows, a power of two, whose call takes no longer than `nanoseconds` by the estimate.
inline std::size_t count_rows(const modelwheel_api &api, modelwheel_model *model, double nanoseconds) {
  std::size_t rows = 0;
  for (std::size_t next = 1; next <= 4096; rows = next, next *= 2) {
    const double estimate = api.estimate(model, next, 0, 1);
    if (estimate == 0.0 || estimate > nanoseconds) break;  // 0: lengths, or only some numbers of rows
  }
  return rows;
}

#ifdef Py_GIL_DISABLED
using InstancePool = InstancePoolOf<AtomicSlot>;
#else
using InstancePool = InstancePoolOf<PlainSlot>;
#endif

/// The pool is only used with the GIL: os.fork() holds it too, so the child of a fork never finds the pool locked by a
/// thread that it does not have.
class Evaluator {
 public:
  Evaluator(const modelwheel_api &api, const char *level, std::size_t threads)
      : api_(api), pool_(api_, level), threads_(threads), lengths_(api), dtypes_(api) {
    if (threads > 1) require_splitting();
    for (std::size_t i = 0; i < api_.num_outputs; ++i) names_.emplace_back(api_.outputs[i].name);
    if (!knows_estimates(api_)) return;
    const InstancePool::Loan model = pool_.lend();
    short_rows_ = count_rows(api_, model.get(), kShort);
  }

  const std::string &level() const { return pool_.level(); }

  /// One array for each input, in order; returns one new array for each output.
  py::object run(py::handle arrays) {
    check_tuple("run()", "input", api_.num_inputs, arrays);
    py::object outputs = taken(PyTuple_New(static_cast<Py_ssize_t>(api_.num_outputs)));
    evaluate_to_new(arrays, [&](std::size_t i, py::object output) {
      PyTuple_SET_ITEM(outputs.ptr(), static_cast<Py_ssize_t>(i), output.release().ptr());
    });
    return outputs;
  }

  /// The same with the result of a call of the model: the array, or a dict by name if there are several. Returns
  /// NotImplemented if there is not one NumPy array for each input: then values are converted or refused elsewhere.
  py::object call(py::handle arguments) {
    if (!are_arrays(arguments)) return py::reinterpret_borrow<py::object>(Py_NotImplemented);
    py::object result = empty_result();
    evaluate_to_new(arguments, [&](std::size_t i, py::object output) { store(result, i, std::move(output)); });
    return result;
  }

  /// The same as run with results in arrays of the caller, one for each output.
  void run_into(py::handle arrays, py::handle out) {
    check_tuple("run_into()", "input", api_.num_inputs, arrays);
    check_tuple("run_into()", "output", api_.num_outputs, out);
    std::vector<Range> taken;
    evaluate_arrays(arrays, [&](std::size_t i, const modelwheel_tensor &tensor, Inputs &inputs) {
      return given_output(out, i, tensor, inputs, taken);
    });
  }

  /// Checks the arrays of calls to come, whose memory they use. `out` is a tuple as in run_into, or None for new
  /// arrays. Calls return these arrays as `call` does.
  std::unique_ptr<Bound> bind(py::handle arrays, py::handle out) {
    check_tuple("bind()", "input", api_.num_inputs, arrays);
    if (!out.is_none()) check_tuple("bind()", "output", api_.num_outputs, out);
    for (std::size_t i = 0; i < api_.num_inputs; ++i) require_in_place(api_.inputs[i], item(arrays, i));
    Inputs inputs(api_, lengths_, numpy_, dtypes_.inputs, arrays);
    auto bound = std::make_unique<Bound>(inputs.rows(), inputs.length());
    for (std::size_t i = 0; i < api_.num_inputs; ++i)
      bound->add_input(py::reinterpret_borrow<py::object>(item(arrays, i)));
    py::object result = empty_result();
    std::vector<Range> taken;
    each_output(inputs, [&](std::size_t i, const modelwheel_tensor &tensor) {
      py::object output;
      if (out.is_none()) {
        output = new_output(numpy_, api_.name, tensor, dtypes_.outputs[i], inputs.rows());
      } else {
        given_output(out, i, tensor, inputs, taken);
        output = py::reinterpret_borrow<py::object>(item(out, i));
      }
      bound->add_output(output);
      store(result, i, std::move(output));
    });
    bound->set_result(std::move(result));
    return bound;
  }

  /// Evaluates the model with the values that bound arrays have now.
  void run_bound(const Bound &bound) {
    require_unchanged(bound.inputs(), "input", api_.inputs);
    require_unchanged(bound.outputs(), "output", api_.outputs);
    evaluate({bound.rows(), bound.length(), bound.sources(), bound.targets(), nullptr, nullptr});
  }

  std::string batch_rule(py::handle rows) {
    const std::size_t count = to_rows(rows, api_.name);
    const InstancePool::Loan model = pool_.lend();
    const WithoutGil others_may_run;
    return modelwheel::batch_rule(api_, model.get(), count);
  }

  void set_batch_rule(py::handle rule) {
    pool_.set_batch_rule(to_utf8(rule, subject("the batch rule"), "a str such as '5:4,1'"));
  }

  void set_batch_strategy(py::handle strategy) {
    pool_.set_batch_strategy(to_utf8(strategy, subject("the batch strategy"), "the str 'cheapest' or 'smallest'"));
  }

  /// Puts the state back to what it is in a new evaluator.
  void reset() {
    if (num_states(api_) == 0) return;
    const InstancePool::Loan model = pool_.lend();
    check(api_, model.get(), api_.reset(model.get()));
  }

  /// A new array for each tensor of the state.
  py::object state() {
    std::vector<void *> targets;
    py::object arrays = make_tuple(dtypes_.states.size(), [&](std::size_t i) {
      py::object array = new_output(numpy_, api_.name, api_.states[i], dtypes_.states[i], 1);
      targets.push_back(fields(array).data);
      return array;
    });
    if (targets.empty()) return arrays;
    const InstancePool::Loan model = pool_.lend();
    check(api_, model.get(), api_.get_state(model.get(), targets.data()));
    return arrays;
  }

  /// One array for each tensor of the state, in order. All are checked before any is copied.
  void set_state(py::handle arrays) {
    check_tuple("set_state()", "state", dtypes_.states.size(), arrays);
    std::vector<py::object> values;
    std::vector<const void *> sources;
    for (std::size_t i = 0; i < dtypes_.states.size(); ++i) {
      values.push_back(checked_array(numpy_, api_.name, "state", api_.states[i], dtypes_.states[i], item(arrays, i)));
      sources.push_back(fields(values.back()).data);
    }
    if (sources.empty()) return;
    const InstancePool::Loan model = pool_.lend();
    check(api_, model.get(), api_.set_state(model.get(), sources.data()));
  }

  /// The strategy and the rules that were set, so that another evaluator can be given the same.
  py::object settings() {
    const auto settings = pool_.settings();
    const std::string &strategy = settings.first;
    const py::object texts =
        make_tuple(settings.second.size(), [&](std::size_t i) { return py::str(settings.second[i]); });
    return taken(Py_BuildValue("(zO)", strategy.empty() ? nullptr : strategy.c_str(), texts.ptr()));
  }

 private:
  bool are_arrays(py::handle arguments) const {
    if (PyTuple_CheckExact(arguments.ptr()) == 0 || size_of(arguments) != api_.num_inputs) return false;
    for (std::size_t i = 0; i < api_.num_inputs; ++i)
      if (!numpy_.PyArray_Check_(item(arguments, i).ptr())) return false;
    return true;
  }

  /// What a call returns, before its outputs are stored in it.
  py::object empty_result() const { return api_.num_outputs == 1 ? py::object() : taken(PyDict_New()); }

  void store(py::object &result, std::size_t i, py::object output) const {
    if (api_.num_outputs == 1)
      result = std::move(output);
    else if (PyDict_SetItem(result.ptr(), names_[i].ptr(), output.ptr()) != 0)
      throw py::error_already_set();
  }

  /// Calls `each` with the index of each output and its tensor at the length of the call.
  template <class Each>
  void each_output(Inputs &inputs, const Each &each) {
    if (inputs.rows() == 0) require_growing_outputs();
    const TensorsAt tensors(api_.outputs, api_.num_outputs, lengths_.outputs, inputs.length());
    for (std::size_t i = 0; i < api_.num_outputs; ++i) each(i, tensors[i]);
  }

  /// `target` returns the memory of an output, for its index, its tensor at the length of the call, and the inputs.
  template <class Target>
  void evaluate_arrays(py::handle given, const Target &target) {
    Inputs inputs(api_, lengths_, numpy_, dtypes_.inputs, given);
    Few<void *> targets(api_.num_outputs);
    each_output(inputs,
                [&](std::size_t i, const modelwheel_tensor &tensor) { targets[i] = target(i, tensor, inputs); });
    evaluate({inputs.rows(), inputs.length(), inputs.memory(), targets.data(), nullptr, nullptr, inputs.views()});
  }

  /// The memory of the caller's array for an output, which no input and no output before it, those in `taken`, may
  /// share.
  void *given_output(py::handle out, std::size_t i, const modelwheel_tensor &tensor, Inputs &inputs,
                     std::vector<Range> &taken) const {
    void *const memory = checked_target(numpy_, api_.name, tensor, dtypes_.outputs[i], inputs.rows(), item(out, i));
    const Range range(memory, tensor_bytes(tensor, inputs.rows()));
    for (std::size_t j = 0; j < api_.num_inputs; ++j)
      if (range.overlaps(inputs.range(j))) refuse_overlap(i, "input", api_.inputs[j]);
    for (std::size_t j = 0; j < i; ++j)
      if (range.overlaps(taken[j])) refuse_overlap(i, "output", api_.outputs[j]);
    if (i + 1 < api_.num_outputs) taken.push_back(range);  // most models have one, and need no memory for it
    return memory;
  }

  /// Calls to come read the memory of the array, so it cannot be converted or copied.
  void require_in_place(const modelwheel_tensor &tensor, py::handle value) const {
    const auto sentence = [&](const char *problem) {
      return subject("bind(): input '") + tensor.name + "' " + problem;
    };
    if (!numpy_.PyArray_Check_(value.ptr()))
      throw py::type_error(sentence("must be a NumPy array, which each call reads, got ") + type_name(value));
    if (!is_contiguous(value))
      throw py::value_error(
          sentence("is not C-contiguous, and each call reads its memory; bind numpy.ascontiguousarray(...)"));
  }

  void require_unchanged(const std::vector<BoundArray> &arrays, const char *kind,
                         const modelwheel_tensor *tensors) const {
    for (std::size_t i = 0; i < arrays.size(); ++i)
      if (arrays[i].changed())
        throw py::value_error(subject("the array that was bound to ") + kind + " '" + tensors[i].name +
                              "' has other memory now; bind it again");
  }

  /// `keep` gets the index and the new array of each output, before it has values.
  template <class Keep>
  void evaluate_to_new(py::handle given, const Keep &keep) {
    evaluate_arrays(given, [&](std::size_t i, const modelwheel_tensor &tensor, const Inputs &inputs) {
      py::object output = new_output(numpy_, api_.name, tensor, dtypes_.outputs[i], inputs.rows());
      void *const memory = fields(output).data;
      keep(i, std::move(output));
      return memory;
    });
  }

  [[noreturn]] void refuse_overlap(std::size_t output, const char *kind, const modelwheel_tensor &other) const {
    throw py::value_error(subject("out: the array for '") + api_.outputs[output].name + "' overlaps that of " + kind +
                          " '" + other.name + "'; pass an array with memory of its own");
  }

  std::string subject(const char *what) const { return std::string(api_.name) + ": " + what; }

  void evaluate(const Evaluation &all) {
    InstancePool::Loan model = pool_.lend();
    if (threads_.threads() == 1) return evaluate_whole(model.get(), all);
    const Plan &plan = model.plans().find(api_, model.get(), all.rows, all.length, threads_.threads());
    if (!plan.gains) return evaluate_shared(model.get(), all, all.rows, nullptr);
    ThreadPool *const pool = threads_.find();
    if (pool != nullptr && pool->is_awake()) return evaluate_shared(model.get(), all, plan.rows_per_thread, pool);
    const RecentCalls::Time began = RecentCalls::Clock::now();
    ThreadPool *const woken = !recent_.pays(plan.alone, began) ? nullptr : pool != nullptr ? pool : &threads_.get();
    evaluate_shared(model.get(), all, plan.rows_per_thread, woken);
    recent_.add(plan.alone, began, RecentCalls::Clock::now(), woken == nullptr ? 1 : threads_.threads());
  }

  /// Without a pool, one thread does the same parts: they decide which batch sizes compute the rows.
  void evaluate_shared(modelwheel_model *model, const Evaluation &all, std::size_t rows_per_part, ThreadPool *pool) {
    if (rows_per_part < all.rows) return evaluate_parts(model, all, rows_per_part, pool);
    check(api_, model, share_steps(api_, model, threads_.threads(), pool));
    evaluate_whole(model, all);
  }

  void evaluate_whole(modelwheel_model *model, const Evaluation &all) {
    if (all.rows <= short_rows_ && all.length == 0) return check(api_, model, modelwheel::evaluate(api_, model, all));
    bool raised = false;
    modelwheel_status status;
    {
      WithoutGil others_may_run;
      Signals signals(others_may_run);
      status = modelwheel::evaluate(api_, model, interruptible(all, signals));
      raised = signals.raised();
    }
    if (raised) throw py::error_already_set();
    check(api_, model, status);
  }

  static Evaluation interruptible(const Evaluation &all, Signals &signals) {
    return {all.rows, all.length, all.inputs, all.outputs, Signals::poll, &signals, all.views};
  }

  void evaluate_parts(modelwheel_model *first, const Evaluation &all, std::size_t rows_per_part, ThreadPool *pool) {
    const std::size_t parts = count_parts(all.rows, rows_per_part);
    std::vector<InstancePool::Loan> others;
    std::vector<modelwheel_model *> models(parts, first);
    for (std::size_t i = 1; i < parts && pool != nullptr; ++i) {
      others.push_back(pool_.lend());
      models[i] = others.back().get();
    }
    bool raised = false;
    std::pair<modelwheel_status, modelwheel_model *> found;
    {
      WithoutGil others_may_run;
      Signals signals(others_may_run);
      found = PartedEvaluation(api_, lengths_, interruptible(all, signals), rows_per_part)
                  .run(pool, models, threads_.threads() / parts);
      raised = signals.raised();
    }
    if (raised) throw py::error_already_set();
    check(api_, found.second, found.first);
  }

  /// Raises TypeError unless there is one object for each tensor.
  void check_tuple(const char *function, const char *kind, std::size_t count, py::handle arrays) const {
    if (PyTuple_Check(arrays.ptr()) == 0)
      throw py::type_error(subject(function) + " takes a tuple of NumPy arrays, got " + type_name(arrays));
    if (size_of(arrays) != count)
      throw py::type_error(subject("expected ") + std::to_string(count) + ' ' + kind + (count == 1 ? "" : "s") +
                           ", got " + std::to_string(size_of(arrays)));
  }

  /// An option is obeyed or refused.
  void require_splitting() const {
    if (knows_steps(api_)) return;
    std::string reason;
    if (!knows_threads(api_))
      reason = "it was compiled by a modelwheel that had none";
    else if (!api_.batched)
      reason = "it has no batch axis";
    else if (api_.no_emulation_reason != nullptr)
      reason = api_.no_emulation_reason;
    if (!reason.empty())
      throw py::value_error(subject("threads split the rows of a batch, which this model does not allow: ") + reason);
  }

  /// Without rows nothing is evaluated, so an output of fixed shape would have no value.
  void require_growing_outputs() const {
    for (std::size_t i = 0; i < api_.num_outputs; ++i)
      if (api_.outputs[i].leading_per_row == 0)
        throw py::value_error(subject("output '") + api_.outputs[i].name +
                              "' has a fixed shape: pass at least one row");
  }

  const modelwheel_api &api_;
  InstancePool pool_;
  LazyThreadPool threads_;
  RecentCalls recent_;
  LengthTable lengths_;
  const NumPy numpy_ = NumPy::get();
  DTypes dtypes_;
  std::vector<py::str> names_;  // of the outputs
  std::size_t short_rows_ = 0;
};

}  // namespace modelwheel
