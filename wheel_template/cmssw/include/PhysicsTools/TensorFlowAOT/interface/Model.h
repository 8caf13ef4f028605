// PhysicsTools/TensorFlowAOT/interface/Model.h - models with any number of rows, as vectors of vectors.
//
// Code written for CMSSW's header of this name compiles unchanged, except for the type of exceptions. The differences:
// a number of rows without a rule is composed as cheaply as the compiled sizes allow, not of the smallest size; rows
// are checked one by one, and element types too; padding is zero; zero rows return zero rows.
#ifndef PHYSICSTOOLS_TENSORFLOWAOT_MODEL_H
#define PHYSICSTOOLS_TENSORFLOWAOT_MODEL_H

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "PhysicsTools/TensorFlowAOT/interface/Batching.h"
#include "PhysicsTools/TensorFlowAOT/interface/Util.h"

namespace tfaot {

/// A model, by its class from tfaot-model-NAME/model.h. Different objects may be used by different threads, one of them
/// by one thread at a time.
template <class W>
class Model {
 public:
  explicit Model() : wrapper_(std::make_unique<W>()) {}

  const std::string &name() const { return wrapper_->name(); }

  void setBatchStrategy(const BatchStrategy &strategy) { batchStrategy_ = strategy; }
  /// Holds the rules that were set, and those that were chosen for batch sizes without one when they were first run.
  const BatchStrategy &getBatchStrategy() const { return batchStrategy_; }

  void setBatchRule(std::size_t batchSize, const std::vector<std::size_t> &sizes, std::size_t lastPadding = 0) {
    batchStrategy_.setRule(BatchRule(batchSize, sizes, lastPadding));
  }
  void setBatchRule(const std::string &batchRule) { batchStrategy_.setRule(BatchRule(batchRule)); }

  /// Evaluates `batchSize` rows of each input; further rows are not read. An input or output that does not grow with
  /// the batch has one row. Throws Exception if a number of inputs, outputs, rows or elements, or a type, is wrong.
  template <typename... Outputs, typename... Inputs>
  std::tuple<Outputs...> run(std::size_t batchSize, Inputs &&...inputs) {
    require(sizeof...(Inputs), wrapper_->nArgs(), "inputs");
    require(sizeof...(Outputs), wrapper_->nResults(), "outputs");
    std::size_t argIndex = 0;
    (checkInput(batchSize, argIndex++, inputs), ...);

    const auto forEachOutput = createIndexLooper<sizeof...(Outputs)>();
    std::tuple<Outputs...> outputs;
    forEachOutput([&](auto index) { std::get<index>(outputs).resize(resultRows(index, batchSize)); });
    if (batchSize == 0) return outputs;

    const BatchRule &rule = ensureRule(batchSize);
    std::size_t offset = 0;
    for (std::size_t i = 0; i < rule.nSizes(); ++i) {
      const std::size_t size = rule.getSize(i);
      const std::size_t rows = std::min(size, batchSize - offset);
      argIndex = 0;
      (injectInput(size, rows, offset, argIndex++, inputs), ...);
      wrapper_->run(size);
      forEachOutput([&](auto index) { extractOutput(size, rows, offset, index, std::get<index>(outputs)); });
      offset += rows;
    }
    return outputs;
  }

 private:
  void require(std::size_t given, std::size_t expected, const char *what) const {
    if (given != expected)
      throw Exception("model '" + name() + "' has " + std::to_string(expected) + ' ' + what + ", got " +
                      std::to_string(given));
  }

  /// Rows that an input or output has where `rows` rows of the batch are run.
  std::size_t argRows(std::size_t argIndex, std::size_t rows) const {
    return wrapper_->argHasBatch(argIndex) ? rows : 1;
  }
  std::size_t resultRows(std::size_t resultIndex, std::size_t rows) const {
    return wrapper_->resultHasBatch(resultIndex) ? rows : 1;
  }

  const BatchRule &ensureRule(std::size_t batchSize) {
    if (!batchStrategy_.hasRule(batchSize)) batchStrategy_.setRule(BatchRule(wrapper_->batchRule(batchSize)));
    const BatchRule &rule = batchStrategy_.getRule(batchSize);
    if (rule.nSizes() > 1 || rule.getLastPadding() > 0) wrapper_->requireEmulation();
    return rule;
  }

  template <typename T>
  void checkInput(std::size_t batchSize, std::size_t argIndex, const std::vector<std::vector<T>> &input) const {
    const std::size_t rows = argRows(argIndex, batchSize);
    if (input.size() < rows)
      throw Exception("model '" + name() + "' received " + std::to_string(input.size()) + " rows for input " +
                      std::to_string(argIndex) + ", but " + std::to_string(rows) + " are expected");
    const auto count = static_cast<std::size_t>(wrapper_->argCountNoBatch(argIndex));
    for (std::size_t row = 0; row < rows; ++row)
      if (input[row].size() != count)
        throw Exception("model '" + name() + "' received " + std::to_string(input[row].size()) +
                        " elements for input " + std::to_string(argIndex) + " in row " + std::to_string(row) +
                        ", but " + std::to_string(count) + " are expected");
  }

  /// Copies the rows from `offset` on into the argument of batch size `size`, and zeros behind them.
  template <typename T>
  void injectInput(std::size_t size, std::size_t rows, std::size_t offset, std::size_t argIndex,
                   const std::vector<std::vector<T>> &input) {
    T *target = wrapper_->template argData<T>(size, argIndex);
    T *const end = target + wrapper_->argCount(size, argIndex);
    const std::size_t first = wrapper_->argHasBatch(argIndex) ? offset : 0;
    for (std::size_t row = 0; row < argRows(argIndex, rows); ++row)
      target = std::copy(input[first + row].begin(), input[first + row].end(), target);
    std::fill(target, end, T{});
  }

  /// Copies the first rows of the result of batch size `size` to the rows from `offset` on.
  template <typename T>
  void extractOutput(std::size_t size, std::size_t rows, std::size_t offset, std::size_t resultIndex,
                     std::vector<std::vector<T>> &output) const {
    const T *source = std::as_const(*wrapper_).template resultData<T>(size, resultIndex);
    const int count = wrapper_->resultCountNoBatch(resultIndex);
    const std::size_t first = wrapper_->resultHasBatch(resultIndex) ? offset : 0;
    for (std::size_t row = 0; row < resultRows(resultIndex, rows); ++row, source += count)
      output[first + row].assign(source, source + count);
  }

  std::unique_ptr<W> wrapper_;
  BatchStrategy batchStrategy_;
};

}  // namespace tfaot

#endif  // PHYSICSTOOLS_TENSORFLOWAOT_MODEL_H
