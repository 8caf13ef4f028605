// src/batching.h - splits any number of rows into compiled batch sizes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "program.h"

namespace modelwheel {

enum class Strategy {
  kCheapest,
  /// CMS's default rule: the exact size where compiled, else the smallest size repeated.
  kSmallest,
};

/// Decides, without allocating, which batch size the next rows run with. Of variants it reads sizes and costs.
class BatchPlanner {
 public:
  /// Entries of the table that `plan` fills for these variants.
  static constexpr std::size_t table_size(const Variant *variants, std::size_t count) {
    const std::size_t largest = variants[count - 1].batch_size;
    const std::size_t best = variants[lowest_cost_per_row(variants, count)].batch_size;
    if (best > kMaxTableSize / largest) return kMaxTableSize > largest ? kMaxTableSize : largest + 1;
    return best * largest + largest + 1;
  }

  /// Numbers that `plan` needs in addition while it works.
  static constexpr std::size_t scratch_size(const Variant *variants, std::size_t count) {
    return variants[count - 1].batch_size + 1;
  }

  /// Fills `table` (table_size entries) with the cheapest first size for each number of rows; `scratch` has
  /// scratch_size numbers. `variants` and `table` must outlive the planner.
  void plan(const Variant *variants, std::size_t count, std::uint16_t *table, double *scratch);

  /// Index of the batch size to run next when `rows` > 0 rows are left; if it exceeds the rows, the rest is padding.
  std::size_t cheapest(std::size_t rows) const;

  /// How many times in a row that size is run at least, without a look into the table: 1 or more.
  std::size_t repetitions(std::size_t rows) const;

  /// The batch size to run next by CMS's default rule, for `total` rows in the whole evaluation.
  std::size_t smallest(std::size_t total) const;

  /// Index of a compiled batch size; the number of these if it is not compiled.
  std::size_t index_of(std::size_t batch_size) const;

 private:
  // Bounds the table's memory. Only sizes above 128 reach it; beyond it b* is taken off early, which can cost at most
  // what the exchange argument in batching.cpp would still have saved on the last rows.
  static constexpr std::size_t kMaxTableSize = 16384;

  static constexpr std::size_t lowest_cost_per_row(const Variant *variants, std::size_t count) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < count; ++i)
      if (variants[i].cost * static_cast<double>(variants[best].batch_size) <=
          variants[best].cost * static_cast<double>(variants[i].batch_size))
        best = i;
    return best;
  }

  const Variant *variants_ = nullptr;
  std::size_t count_ = 0;
  std::size_t best_ = 0;  // the size with the lowest cost for each row
  const std::uint16_t *table_ = nullptr;
  std::size_t table_size_ = 0;
};

}  // namespace modelwheel
