// src/batching.h - splits any number of rows into compiled batch sizes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace modelwheel {

/// A batch rule: the sizes that one number of rows is split into, in order; the last one may be padded.
struct BatchRule {
  std::size_t rows;
  std::size_t num_sizes;
  /// Indices into the compiled batch sizes.
  std::uint16_t *sizes;
};

/// The problem with the text of a rule; null if it is valid.
using RuleProblem = const char *;

/// Parses "5:2,2,2". On success `rule.sizes` is allocated and owned by the caller.
RuleProblem parse_rule(const char *text, const std::size_t *batch_sizes, std::size_t num_batch_sizes, BatchRule &rule);

enum class Strategy {
  kCheapest,
  /// CMS's default rule: the exact size where compiled, else the smallest size repeated.
  kSmallest,
};

/// Decides, without allocating, which batch size the next rows run with.
class BatchPlanner {
 public:
  /// Entries of the table that `plan` fills for these sizes and costs.
  static std::size_t table_size(const std::size_t *batch_sizes, const double *costs, std::size_t num_batch_sizes);

  /// Fills `table` (table_size entries) and `scratch` (as many) with the cheapest first size for each number of
  /// rows. All pointers except `costs` and `scratch` must outlive the planner.
  void plan(const std::size_t *batch_sizes, const double *costs, std::size_t num_batch_sizes, std::uint16_t *table,
            double *scratch);

  /// Index of the batch size to run next when `rows` > 0 rows are left; if it exceeds the rows, the rest is padding.
  std::size_t cheapest(std::size_t rows) const;

  /// How many times in a row that size is run at least, without a look into the table: 1 or more.
  std::size_t repetitions(std::size_t rows) const;

  /// The batch size to run next by CMS's default rule, for `total` rows in the whole evaluation.
  std::size_t smallest(std::size_t total) const;

  /// Index of a compiled batch size; num_batch_sizes if it is not compiled.
  std::size_t index_of(std::size_t batch_size) const;

 private:
  const std::size_t *batch_sizes_ = nullptr;
  std::size_t num_batch_sizes_ = 0;
  std::size_t best_ = 0;  // the size with the lowest cost for each row
  const std::uint16_t *table_ = nullptr;
  std::size_t table_size_ = 0;
};

}  // namespace modelwheel
