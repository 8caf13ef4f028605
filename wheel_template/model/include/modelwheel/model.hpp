// modelwheel/model.hpp - models from C++17: checked, typed, without copies.
//
//   modelwheel::Model model(*model_digits_api());
//   model.run(rows, {pixels}, {probabilities});   // std::vector<float>, std::array, AlignedVector, ...
//
// The header of a model (model_digits.hpp) derives a class from this one that knows the names and types.
#ifndef MODELWHEEL_MODEL_HPP
#define MODELWHEEL_MODEL_HPP

#include <cstddef>
#include <initializer_list>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "modelwheel/abi.h"
#include "modelwheel/buffer.hpp"
#include "modelwheel/instance.hpp"
#include "modelwheel/lengths.hpp"
#include "modelwheel/views.hpp"

namespace modelwheel {

/// One instance of a model. Different ones may be used from different threads at the same time, one of them by one
/// thread at a time. Every failure is an Error whose text says what was expected and what was passed.
class Model {
 public:
  /// `level` names a CPU level; null leaves the choice to MODELWHEEL_LEVEL and the CPU.
  explicit Model(const modelwheel_api &api, const char *level = nullptr)
      : api_(&api),
        instance_(make_instance(api, level)),
        inputs_(api.num_inputs),
        outputs_(api.num_outputs),
        views_(api.num_inputs) {}

  std::string name() const { return api_->name; }
  std::string version() const { return api_->version; }
  /// The CPU level in use.
  std::string level() const { return api_->level(instance_.get()); }
  Span<const modelwheel_tensor> inputs() const { return {api_->inputs, api_->num_inputs}; }
  Span<const modelwheel_tensor> outputs() const { return {api_->outputs, api_->num_outputs}; }
  /// What every run changes and the next one reads; empty for most models.
  Span<const modelwheel_tensor> states() const { return {api_->states, api_->num_states}; }
  /// Compiled batch sizes, ascending.
  Span<const std::size_t> batch_sizes() const { return {api_->batch_sizes, api_->num_batch_sizes}; }

  /// Evaluates `rows` rows. Each buffer has rows * row_elements elements of its tensor, row-major; those at multiples
  /// of 64 bytes are used in place. Outputs must not overlap any other buffer. Contents of outputs are undefined after
  /// a failure.
  void run(std::size_t rows, std::initializer_list<InputBuffer> inputs, std::initializer_list<OutputBuffer> outputs) {
    bind(rows, inputs, outputs);
    check(api_->run(instance_.get(), rows, inputs_.data(), outputs_.data()));
  }

  /// The same for exactly one compiled batch size, ignoring the batch rules.
  void run_batch_size(std::size_t batch_size, std::initializer_list<InputBuffer> inputs,
                      std::initializer_list<OutputBuffer> outputs) {
    bind(batch_size, inputs, outputs);
    check(api_->run_batch_size(instance_.get(), batch_size, inputs_.data(), outputs_.data()));
  }

  /// The same as run for inputs that need not be dense: see modelwheel/views.hpp. Nothing is copied but what run copies
  /// in any case, rows to where compiled code reads them.
  void run_views(std::size_t rows, std::initializer_list<View> inputs, std::initializer_list<OutputBuffer> outputs) {
    if (!knows_views(*api_)) throw Error(name() + ": it was compiled by a modelwheel that knew no views");
    if (inputs.size() != views_.size()) throw_count("input", views_.size(), inputs.size());
    const modelwheel_tensor *tensor = api_->inputs;
    for (std::size_t i = 0; i < views_.size(); ++i, ++tensor) {
      const View &view = inputs.begin()[i];
      check_type("input", *tensor, view.dtype());
      const std::string problem = view.problem(*tensor, rows);
      if (!problem.empty()) throw Error(subject("input", *tensor) + ' ' + problem);
      views_[i] = view.get();
    }
    bind("output", rows, this->outputs(), outputs, outputs_);
    const std::size_t length = LengthTable(*api_).largest();
    check(api_->run_views(instance_.get(), 0, rows, rows, length, views_.data(), outputs_.data(), nullptr, nullptr));
  }

  /// Compiled lengths, ascending; empty for most models, whose shapes have one length.
  Span<const std::size_t> lengths() const {
    const LengthTable table(*api_);
    return {table.values, table.count};
  }

  /// The same as run for arrays of a length from 1 to the largest, to which `run` itself keeps: inputs are padded to
  /// the next compiled length, outputs are cut to theirs.
  void run_length(std::size_t rows, std::size_t length, std::initializer_list<InputBuffer> inputs,
                  std::initializer_list<OutputBuffer> outputs) {
    const LengthTable table(*api_);
    if (length < 1 || length > table.largest())
      throw Error(name() + ": got the length " + std::to_string(length) +
                  (table.count == 0 ? ", but its shapes are fixed"
                                    : "; lengths from 1 to " + std::to_string(table.largest()) + " were compiled"));
    bind("input", rows, TensorsAt(api_->inputs, api_->num_inputs, table.inputs, length), inputs, inputs_);
    bind("output", rows, TensorsAt(api_->outputs, api_->num_outputs, table.outputs, length), outputs, outputs_);
    check(api_->run_length(instance_.get(), rows, length, inputs_.data(), outputs_.data(), nullptr, nullptr));
  }

  /// How `rows` rows are composed of compiled batch sizes, e.g. "7:4,2,1".
  std::string batch_rule(std::size_t rows) { return modelwheel::batch_rule(*api_, instance_.get(), rows); }

  /// Sets the composition of one number of rows: "5:2,2,2" (the last row is padding) or "5:1,4".
  void set_batch_rule(const std::string &rule) { check(api_->set_batch_rule(instance_.get(), rule.c_str())); }

  /// Sets how rows without a rule are composed: "cheapest" or "smallest".
  void set_batch_strategy(const std::string &strategy) {
    check(api_->set_batch_strategy(instance_.get(), strategy.c_str()));
  }

  /// Lets up to `threads` threads share the large steps of each run: see modelwheel_api::set_threads. use_threads of
  /// modelwheel/thread_pool.hpp and modelwheel/tbb.hpp takes pools of Eigen and of TBB. 1 and null: this thread alone.
  void set_threads(std::size_t threads, modelwheel_parallel_for parallel_for, void *context) {
    modelwheel::set_threads(*api_, instance_.get(), threads, parallel_for, context);
  }

  /// Puts the state back to what it is in a new Model.
  void reset() { check(api_->reset(instance_.get())); }

  /// Copies the state out of or into the model: one buffer for each tensor in `states`. A run that fails leaves the
  /// state as it was.
  void get_state(std::initializer_list<OutputBuffer> buffers) {
    std::vector<void *> pointers(states().size());
    bind("state", 1, states(), buffers, pointers);
    check(api_->get_state(instance_.get(), pointers.data()));
  }
  void set_state(std::initializer_list<InputBuffer> buffers) {
    std::vector<const void *> pointers(states().size());
    bind("state", 1, states(), buffers, pointers);
    check(api_->set_state(instance_.get(), pointers.data()));
  }

  /// Copies the state of another object of the same model.
  void copy_state(const Model &other) {
    if (api_ != other.api_) throw Error(name() + ": the state is of the model " + other.name());
    check(api_->copy_state(instance_.get(), other.instance_.get()));
  }

 protected:
  /// Evaluates as many rows as the inputs have. Returns `Outputs`, made of one AlignedVector for each element type.
  template <class Outputs, class... Elements>
  Outputs evaluate(std::initializer_list<InputBuffer> inputs) {
    return evaluate<Outputs, Elements...>(inputs, std::index_sequence_for<Elements...>());
  }

 private:
  template <class Outputs, class... Elements, std::size_t... kIndex>
  Outputs evaluate(std::initializer_list<InputBuffer> inputs, std::index_sequence<kIndex...>) {
    const std::size_t rows = rows_of(inputs);
    std::tuple<AlignedVector<Elements>...> values(
        AlignedVector<Elements>(tensor_elements(api_->outputs[kIndex], rows))...);
    run(rows, inputs, {std::get<kIndex>(values)...});
    return Outputs{std::move(std::get<kIndex>(values))...};
  }

  /// Rows in the first input that grows with the batch; 1 if there is none. `bind` checks all inputs against it.
  std::size_t rows_of(std::initializer_list<InputBuffer> inputs) const {
    const modelwheel_tensor *tensor = api_->inputs;
    for (const InputBuffer &input : inputs) {
      if (tensor == api_->inputs + api_->num_inputs) break;
      if (tensor->leading_per_row != 0 && tensor->row_elements != 0) return input.size / tensor->row_elements;
      ++tensor;
    }
    return 1;
  }

  void bind(std::size_t rows, std::initializer_list<InputBuffer> inputs, std::initializer_list<OutputBuffer> outputs) {
    bind("input", rows, this->inputs(), inputs, inputs_);
    bind("output", rows, this->outputs(), outputs, outputs_);
  }

  template <class Void, class Tensors>
  void bind(const char *kind, std::size_t rows, const Tensors &tensors, std::initializer_list<Buffer<Void>> buffers,
            std::vector<Void *> &pointers) const {
    if (buffers.size() != pointers.size()) throw_count(kind, pointers.size(), buffers.size());
    std::size_t index = 0;
    for (const Buffer<Void> &buffer : buffers) {
      check_buffer(kind, rows, tensors[index], buffer.dtype, buffer.size);
      pointers[index++] = buffer.data;
    }
  }

  [[noreturn]] void throw_count(const char *kind, std::size_t expected, std::size_t given) const {
    throw Error(name() + ": expected " + std::to_string(expected) + ' ' + kind + (expected == 1 ? "" : "s") + ", got " +
                std::to_string(given));
  }

  std::string subject(const char *kind, const modelwheel_tensor &tensor) const {
    return name() + ": " + kind + " '" + tensor.name + '\'';
  }

  void check_type(const char *kind, const modelwheel_tensor &tensor, modelwheel_dtype dtype) const {
    if (!stores(dtype, tensor.dtype))
      throw Error(subject(kind, tensor) + " must be " + dtype_name(tensor.dtype) + ", got " + dtype_name(dtype));
  }

  void check_buffer(const char *kind, std::size_t rows, const modelwheel_tensor &tensor, modelwheel_dtype dtype,
                    std::size_t size) const {
    check_type(kind, tensor, dtype);
    const std::size_t expected = tensor_elements(tensor, rows);
    const bool is_state = &tensor >= api_->states && &tensor < api_->states + api_->num_states;
    const auto of_rows = [&] { return " for " + std::to_string(rows) + (rows == 1 ? " row" : " rows"); };
    if (size != expected)
      throw Error(subject(kind, tensor) + " must have " + std::to_string(expected) +
                  (expected == 1 ? " element" : " elements") + (is_state ? "" : of_rows()) + ", got " +
                  std::to_string(size));
  }

  void check(modelwheel_status status) const { modelwheel::check(*api_, instance_.get(), status); }

  const modelwheel_api *api_;
  Instance instance_;
  std::vector<const void *> inputs_;  // filled by each run; members, so that runs allocate nothing
  std::vector<void *> outputs_;
  std::vector<modelwheel_view> views_;
};

}  // namespace modelwheel

#endif  // MODELWHEEL_MODEL_HPP
