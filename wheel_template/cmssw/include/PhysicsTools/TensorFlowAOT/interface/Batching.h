// PhysicsTools/TensorFlowAOT/interface/Batching.h - how rows are composed of compiled batch sizes.
#ifndef PHYSICSTOOLS_TENSORFLOWAOT_BATCHING_H
#define PHYSICSTOOLS_TENSORFLOWAOT_BATCHING_H

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "PhysicsTools/TensorFlowAOT/interface/Util.h"

namespace tfaot {

/// The compiled sizes that one batch size is split into, in order; the last one may be padded.
class BatchRule {
 public:
  /// Throws Exception unless the sizes, less the padding of the last, sum to the batch size.
  explicit BatchRule(std::size_t batchSize, const std::vector<std::size_t> &sizes, std::size_t lastPadding = 0)
      : batchSize_(batchSize), sizes_(sizes), lastPadding_(lastPadding) {
    validate();
  }

  /// From "5:2,2,2": batch size 5 as 2 + 2 + 2, the last padded by 1. Throws Exception if it is not of that form.
  explicit BatchRule(const std::string &rule) : batchSize_(0), lastPadding_(0) {
    std::size_t place = 0;
    batchSize_ = readNumber(rule, place, ':');
    while (place < rule.size()) sizes_.push_back(readNumber(rule, place, ','));
    lastPadding_ = sum() - batchSize_;
    if (sum() < batchSize_ || rule.back() == ',') invalid("its sizes must sum to its batch size or more", rule);
    validate();
  }

  std::size_t getBatchSize() const { return batchSize_; }
  const std::vector<std::size_t> &getSizes() const { return sizes_; }
  /// Rows of the last size that are thrown away.
  std::size_t getLastPadding() const { return lastPadding_; }
  std::size_t nSizes() const { return sizes_.size(); }
  std::size_t getSize(std::size_t i) const { return sizes_[i]; }

 private:
  std::size_t sum() const { return std::accumulate(sizes_.begin(), sizes_.end(), std::size_t{0}); }

  /// Reads digits up to `separator` or the end, and leaves `place` behind them.
  static std::size_t readNumber(const std::string &rule, std::size_t &place, char separator) {
    const std::size_t end = std::min(rule.find(separator, place), rule.size());
    const std::string digits = rule.substr(place, end - place);
    const bool valid =
        !digits.empty() && digits.size() <= 9 && digits.find_first_not_of("0123456789") == std::string::npos;
    if (!valid || (separator == ':' && end == rule.size())) invalid("it must read like '5:2,2,2'", rule);
    place = end + 1;
    return std::stoul(digits);
  }

  [[noreturn]] static void invalid(const std::string &reason, const std::string &rule) {
    throw Exception("invalid batch rule '" + rule + "': " + reason);
  }

  void validate() const {
    if (sizes_.empty()) throw Exception("a batch rule needs at least one size");
    if (std::find(sizes_.begin(), sizes_.end(), std::size_t{0}) != sizes_.end())
      throw Exception("the sizes of a batch rule must be positive");
    if (lastPadding_ >= sizes_.back())
      throw Exception("padding " + std::to_string(lastPadding_) + " must be smaller than last size " +
                      std::to_string(sizes_.back()));
    if (batchSize_ != sum() - lastPadding_)
      throw Exception("batch size " + std::to_string(batchSize_) + " does not match sum of sizes - padding " +
                      std::to_string(sum() - lastPadding_));
  }

  std::size_t batchSize_;
  std::vector<std::size_t> sizes_;
  std::size_t lastPadding_;
};

inline std::ostream &operator<<(std::ostream &out, const BatchRule &rule) {
  out << "BatchRule(batchSize=" << rule.getBatchSize() << ", sizes=";
  for (std::size_t i = 0; i < rule.nSizes(); ++i) out << (i == 0 ? "" : ",") << rule.getSize(i);
  return out << ", lastPadding=" << rule.getLastPadding() << ')';
}

/// Batch rules by batch size.
class BatchStrategy {
 public:
  explicit BatchStrategy() = default;

  /// Adds a rule, or replaces the one for its batch size.
  void setRule(const BatchRule &rule) { rules_.insert_or_assign(rule.getBatchSize(), rule); }

  bool hasRule(std::size_t batchSize) const { return rules_.count(batchSize) != 0; }

  /// Throws Exception if there is none.
  const BatchRule &getRule(std::size_t batchSize) const {
    const auto found = rules_.find(batchSize);
    if (found == rules_.end()) throw Exception("there is no batch rule for batch size " + std::to_string(batchSize));
    return found->second;
  }

  /// Sets CMSSW's default rule: the batch size itself where it is available, else the smallest one repeated.
  void setDefaultRule(std::size_t batchSize, const std::vector<std::size_t> &availableBatchSizes) {
    if (availableBatchSizes.empty()) throw Exception("a default batch rule needs available batch sizes");
    const auto exact = std::find(availableBatchSizes.begin(), availableBatchSizes.end(), batchSize);
    const std::size_t size = exact != availableBatchSizes.end()
                                 ? batchSize
                                 : *std::min_element(availableBatchSizes.begin(), availableBatchSizes.end());
    if (size == 0) throw Exception("available batch sizes must be positive");
    const std::size_t repeats = (batchSize + size - 1) / size;
    setRule(BatchRule(batchSize, std::vector<std::size_t>(repeats, size), repeats * size - batchSize));
  }

 private:
  std::map<std::size_t, BatchRule> rules_;
};

}  // namespace tfaot

#endif  // PHYSICSTOOLS_TENSORFLOWAOT_BATCHING_H
