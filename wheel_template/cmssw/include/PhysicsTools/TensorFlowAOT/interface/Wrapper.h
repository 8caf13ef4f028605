// PhysicsTools/TensorFlowAOT/interface/Wrapper.h - one model, compiled for several batch sizes, by position.
#ifndef PHYSICSTOOLS_TENSORFLOWAOT_WRAPPER_H
#define PHYSICSTOOLS_TENSORFLOWAOT_WRAPPER_H

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "PhysicsTools/TensorFlowAOT/interface/Util.h"

namespace tfaot {

/// Arguments and results of each compiled batch size. The classes tfaot_model::NAME implement it, and add
///
///   template <typename T> T *argData(size_t batchSize, size_t argIndex);
///   template <typename T> T *resultData(size_t batchSize, size_t resultIndex);
class Wrapper {
 public:
  explicit Wrapper(const std::string &name) : name_(name) {}
  Wrapper(const Wrapper &) = delete;
  Wrapper &operator=(const Wrapper &) = delete;
  virtual ~Wrapper() = default;

  const std::string &name() const { return name_; }
  AllocMode allocMode() const { return AllocMode::ARGS_VARIABLES_RESULTS_PROFILES_AND_TEMPS; }

  /// Compiled batch sizes, ascending.
  virtual const std::vector<std::size_t> &batchSizes() const = 0;
  std::size_t nBatchSizes() const { return batchSizes().size(); }
  bool hasBatchSize(std::size_t batchSize) const {
    return std::find(batchSizes().begin(), batchSizes().end(), batchSize) != batchSizes().end();
  }

  virtual std::size_t nArgs() const = 0;
  /// Elements of each argument, by batch size.
  virtual const std::map<std::size_t, std::vector<std::size_t>> &argCounts() const = 0;
  /// Elements of each argument for one row.
  virtual const std::vector<std::size_t> &argCountsNoBatch() const = 0;
  int argCount(std::size_t batchSize, std::size_t argIndex) const {
    return count(forBatchSize(argCounts(), batchSize, "argCount()"), argIndex, "argument");
  }
  int argCountNoBatch(std::size_t argIndex) const { return count(argCountsNoBatch(), argIndex, "argument"); }

  virtual std::size_t nResults() const = 0;
  virtual const std::map<std::size_t, std::vector<std::size_t>> &resultCounts() const = 0;
  virtual const std::vector<std::size_t> &resultCountsNoBatch() const = 0;
  int resultCount(std::size_t batchSize, std::size_t resultIndex) const {
    return count(forBatchSize(resultCounts(), batchSize, "resultCount()"), resultIndex, "result");
  }
  int resultCountNoBatch(std::size_t resultIndex) const { return count(resultCountsNoBatch(), resultIndex, "result"); }

  /// Evaluates one batch size; false if that failed.
  virtual bool runSilent(std::size_t batchSize) = 0;
  /// Likewise, but throws Exception.
  void run(std::size_t batchSize) {
    if (!runSilent(batchSize))
      throw Exception("evaluation with batch size " + std::to_string(batchSize) + " failed for model '" + name_ + "'");
  }

 protected:
  [[noreturn]] void unknownBatchSize(std::size_t batchSize, const std::string &method) const {
    throw Exception("batch size " + std::to_string(batchSize) + " not known to model '" + name_ + "' in '" + method +
                    "'");
  }

 private:
  const std::vector<std::size_t> &forBatchSize(const std::map<std::size_t, std::vector<std::size_t>> &counts,
                                               std::size_t batchSize, const char *method) const {
    const auto found = counts.find(batchSize);
    if (found == counts.end()) unknownBatchSize(batchSize, method);
    return found->second;
  }

  int count(const std::vector<std::size_t> &counts, std::size_t index, const char *kind) const {
    if (index >= counts.size())
      throw Exception(std::string(kind) + ' ' + std::to_string(index) + " not known to model '" + name_ + "'");
    return static_cast<int>(counts[index]);
  }

  std::string name_;
};

}  // namespace tfaot

#endif  // PHYSICSTOOLS_TENSORFLOWAOT_WRAPPER_H
