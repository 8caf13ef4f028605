// modelwheel/tfaot_wrapper.hpp - the base of the class tfaot_model::NAME of every model.
//
// It implements tfaot::Wrapper, which comes from the headers beside this one or, inside CMSSW, from CMSSW's own: only
// members that both have are used here.
#ifndef MODELWHEEL_TFAOT_WRAPPER_HPP
#define MODELWHEEL_TFAOT_WRAPPER_HPP

#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "PhysicsTools/TensorFlowAOT/interface/Wrapper.h"
#include "modelwheel/compiled_function.hpp"
#include "modelwheel/rows.hpp"

namespace modelwheel {

/// The buffers of some tensors in which each row is in one piece, as tfaot::Model copies rows. Where the model's batch
/// axis is not the first, a row of its own array is in several.
class TfaotRows {
 public:
  TfaotRows(const modelwheel_tensor *tensors, std::size_t count, std::size_t rows) : tensors_(tensors), rows_(rows) {
    for (std::size_t i = 0; i < count; ++i)
      buffers_.emplace_back(row_pieces(tensors[i]) == 1 ? 0 : tensor_bytes(tensors[i], rows));
  }

  /// The buffer of a tensor; `own`, the model's array, where rows are in one piece there.
  void *find(std::size_t index, void *own) { return buffers_[index].size() == 0 ? own : buffers_[index].data(); }
  const void *find(std::size_t index, const void *own) const {
    return buffers_[index].size() == 0 ? own : buffers_[index].data();
  }

  /// Copies the buffers to the model's arrays, or the arrays to the buffers.
  void copy_to(void *const *own) const {
    each_piece([=](std::size_t i, std::size_t there, std::size_t here, std::size_t bytes) {
      std::memcpy(static_cast<std::byte *>(own[i]) + there, buffers_[i].data() + here, bytes);
    });
  }
  void copy_from(const void *const *own) {
    each_piece([=](std::size_t i, std::size_t there, std::size_t here, std::size_t bytes) {
      std::memcpy(buffers_[i].data() + here, static_cast<const std::byte *>(own[i]) + there, bytes);
    });
  }

 private:
  template <class Copy>
  void each_piece(const Copy &copy) const {
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      if (buffers_[i].size() == 0) continue;
      const std::size_t pieces = row_pieces(tensors_[i]), bytes = tensors_[i].row_bytes / pieces;
      for (std::size_t piece = 0; piece < pieces; ++piece)
        for (std::size_t row = 0; row < rows_; ++row)
          copy(i, (piece * rows_ + row) * bytes, (row * pieces + piece) * bytes, bytes);
    }
  }

  const modelwheel_tensor *tensors_;
  std::size_t rows_;
  std::vector<AlignedVector<std::byte>> buffers_;  // without elements where a row is in one piece
};

/// All batch sizes of a model. They share one instance of it, and each has its own buffers.
class TfaotWrapper : public tfaot::Wrapper {
 public:
  TfaotWrapper(const modelwheel_api &api, const std::string &name)
      : tfaot::Wrapper(name),
        api_(api),
        instance_(make_instance(api)),
        batch_sizes_(api.batch_sizes, api.batch_sizes + api.num_batch_sizes),
        arg_counts_no_batch_(counts(api.inputs, api.num_inputs, 1)),
        result_counts_no_batch_(counts(api.outputs, api.num_outputs, 1)) {
    for (const std::size_t size : batch_sizes_) {
      functions_.try_emplace(size, api, size, CompiledFunction::AllocMode::ARGS_VARIABLES_RESULTS_PROFILES_AND_TEMPS,
                             instance_);
      args_.try_emplace(size, api.inputs, api.num_inputs, size);
      results_.try_emplace(size, api.outputs, api.num_outputs, size);
      arg_counts_[size] = counts(api.inputs, api.num_inputs, size);
      result_counts_[size] = counts(api.outputs, api.num_outputs, size);
    }
  }

  const std::vector<std::size_t> &batchSizes() const override { return batch_sizes_; }

  std::size_t nArgs() const override { return api_.num_inputs; }
  const std::map<std::size_t, std::vector<std::size_t>> &argCounts() const override { return arg_counts_; }
  /// Elements for each row; of the whole argument where it does not grow with the batch.
  const std::vector<std::size_t> &argCountsNoBatch() const override { return arg_counts_no_batch_; }
  /// Whether an argument grows with the batch.
  bool argHasBatch(std::size_t index) const { return tensor_at(api_.inputs, nArgs(), index).leading_per_row != 0; }

  /// The argument's buffer for a batch size, in which each row is in one piece. Throws Error if its elements are not of
  /// type T.
  template <typename T>
  T *argData(std::size_t batch_size, std::size_t index) {
    require_type<T>(tensor_at(api_.inputs, nArgs(), index));
    void *const own = function(batch_size, "argData()").arg_data(index);
    return static_cast<T *>(args_.at(batch_size).find(index, own));
  }
  template <typename T>
  const T *argData(std::size_t batch_size, std::size_t index) const {
    require_type<T>(tensor_at(api_.inputs, nArgs(), index));
    const void *const own = function(batch_size, "argData()").arg_data(index);
    return static_cast<const T *>(args_.at(batch_size).find(index, own));
  }

  std::size_t nResults() const override { return api_.num_outputs; }
  const std::map<std::size_t, std::vector<std::size_t>> &resultCounts() const override { return result_counts_; }
  const std::vector<std::size_t> &resultCountsNoBatch() const override { return result_counts_no_batch_; }
  bool resultHasBatch(std::size_t index) const {
    return tensor_at(api_.outputs, nResults(), index).leading_per_row != 0;
  }

  template <typename T>
  T *resultData(std::size_t batch_size, std::size_t index) {
    require_type<T>(tensor_at(api_.outputs, nResults(), index));
    void *const own = function(batch_size, "resultData()").result_data(index);
    return static_cast<T *>(results_.at(batch_size).find(index, own));
  }
  template <typename T>
  const T *resultData(std::size_t batch_size, std::size_t index) const {
    require_type<T>(tensor_at(api_.outputs, nResults(), index));
    const void *const own = function(batch_size, "resultData()").result_data(index);
    return static_cast<const T *>(results_.at(batch_size).find(index, own));
  }

  bool runSilent(std::size_t batch_size) override {
    CompiledFunction &own = function(batch_size, "runSilent()");
    args_.at(batch_size).copy_to(own.args());
    if (!own.Run()) return false;
    results_.at(batch_size).copy_from(own.results());
    return true;
  }

  /// Like tfaot::Wrapper::run, with the reason in the exception.
  void run(std::size_t batch_size) {
    if (!runSilent(batch_size))
      throw Error("evaluation with batch size " + std::to_string(batch_size) + " failed for model '" + name() +
                      "': " + function(batch_size, "run()").error_msg(),
                  MODELWHEEL_INTERNAL);
  }

  /// How the library would compose `rows` rows, in the form that tfaot::BatchRule reads. Throws Error if it cannot.
  std::string batchRule(std::size_t rows) const { return batch_rule(api_, instance_.get(), rows); }

  /// Throws Error with the reason if rows cannot be split over several evaluations or padded.
  void requireEmulation() const {
    if (api_.no_emulation_reason != nullptr)
      throw Error("model '" + name() + "' runs only its compiled batch sizes: " + api_.no_emulation_reason,
                  MODELWHEEL_UNSUPPORTED);
  }

 private:
  static std::vector<std::size_t> counts(const modelwheel_tensor *tensors, std::size_t count, std::size_t rows) {
    std::vector<std::size_t> result;
    for (std::size_t i = 0; i < count; ++i) result.push_back(tensor_elements(tensors[i], rows));
    return result;
  }

  const modelwheel_tensor &tensor_at(const modelwheel_tensor *tensors, std::size_t count, std::size_t index) const {
    if (index >= count)
      throw Error("model '" + name() + "' has " + std::to_string(count) + ' ' +
                  (tensors == api_.inputs ? "argument(s)" : "result(s)") + ": there is no " + std::to_string(index));
    return tensors[index];
  }

  template <typename T>
  void require_type(const modelwheel_tensor &tensor) const {
    if (!stores(dtype_of<T>(), tensor.dtype))
      throw Error("'" + std::string(tensor.name) + "' of model '" + name() + "' holds " + dtype_name(tensor.dtype) +
                  ", not " + dtype_name(dtype_of<T>()));
  }

  const CompiledFunction &function(std::size_t batch_size, const char *method) const {
    const auto found = functions_.find(batch_size);
    if (found == functions_.end()) unknownBatchSize(batch_size, method);
    return found->second;
  }
  CompiledFunction &function(std::size_t batch_size, const char *method) {
    const auto found = functions_.find(batch_size);
    if (found == functions_.end()) unknownBatchSize(batch_size, method);
    return found->second;
  }

  const modelwheel_api &api_;
  std::shared_ptr<modelwheel_model> instance_;
  std::vector<std::size_t> batch_sizes_;
  std::vector<std::size_t> arg_counts_no_batch_;
  std::vector<std::size_t> result_counts_no_batch_;
  std::map<std::size_t, CompiledFunction> functions_;
  std::map<std::size_t, TfaotRows> args_, results_;
  std::map<std::size_t, std::vector<std::size_t>> arg_counts_;
  std::map<std::size_t, std::vector<std::size_t>> result_counts_;
};

}  // namespace modelwheel

#endif  // MODELWHEEL_TFAOT_WRAPPER_HPP
