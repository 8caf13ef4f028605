// src/batching.cpp - batch rules and the cheapest composition.
//
// The composition is an unbounded knapsack: cost(n) = min over sizes b of cost_b + cost(max(n - b, 0)). A table
// answers it for small n. Let b* be the size with the lowest cost per row. Among any b* other sizes some subset sums
// to a multiple of b* (pigeonhole on prefix sums) and can be exchanged for copies of b* at no higher cost, so a
// cheapest composition needs fewer than b* others, in addition to a padded last one: beyond b* * largest rows it
// contains b*, which can be taken off first. (Gilmore and Gomory, "The theory and computation of knapsack functions",
// 1966.)
#include "batching.h"

#include <cstdlib>

namespace modelwheel {
namespace {

// Bounds the table's memory. Only sizes above 128 reach it; beyond it b* is taken off early, which can cost at most
// what the exchange argument above would still have saved on the last rows.
constexpr std::size_t kMaxTableSize = 16384;

std::size_t lowest_cost_per_row(const std::size_t *batch_sizes, const double *costs, std::size_t count) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < count; ++i)
    if (costs[i] * static_cast<double>(batch_sizes[best]) <= costs[best] * static_cast<double>(batch_sizes[i]))
      best = i;
  return best;
}

/// Reads a positive decimal number without sign or space; returns 0 if there is none or it is too large.
std::size_t read_number(const char *&text) {
  std::size_t value = 0;
  while (*text >= '0' && *text <= '9') {
    if (value > 100000000) return 0;
    value = value * 10 + static_cast<std::size_t>(*text++ - '0');
  }
  return value;
}

}  // namespace

RuleProblem parse_rule(const char *text, const std::size_t *batch_sizes, std::size_t num_batch_sizes, BatchRule &rule) {
  static constexpr RuleProblem kForm = "a batch rule reads ROWS:SIZE,SIZE,... as in 5:2,2,2";
  std::size_t commas = 0;
  for (const char *c = text; *c != '\0'; ++c) commas += *c == ',';
  const std::size_t rows = read_number(text);
  if (rows == 0 || *text++ != ':') return kForm;

  auto *sizes = static_cast<std::uint16_t *>(std::malloc((commas + 1) * sizeof(std::uint16_t)));
  if (sizes == nullptr) return "out of memory";
  std::size_t count = 0, covered = 0;
  RuleProblem problem = nullptr;
  for (bool more = true; more && problem == nullptr; ++count) {
    const std::size_t size = read_number(text);
    std::size_t index = 0;
    while (index < num_batch_sizes && batch_sizes[index] != size) ++index;
    if (size == 0 || (*text != ',' && *text != '\0')) {
      problem = kForm;
    } else if (index == num_batch_sizes) {
      problem = "a batch rule may only use compiled batch sizes";
    } else if (covered >= rows) {
      problem = "a batch rule must not go on after its rows are covered";
    } else {
      sizes[count] = static_cast<std::uint16_t>(index);
      covered += size;
    }
    more = *text++ == ',';
  }
  if (problem == nullptr && covered < rows) problem = "the sizes of a batch rule must sum to its rows or more";
  if (problem != nullptr) {
    std::free(sizes);
    return problem;
  }
  rule = {rows, count, sizes};
  return nullptr;
}

std::size_t BatchPlanner::table_size(const std::size_t *batch_sizes, const double *costs, std::size_t num_batch_sizes) {
  const std::size_t largest = batch_sizes[num_batch_sizes - 1];
  const std::size_t best = batch_sizes[lowest_cost_per_row(batch_sizes, costs, num_batch_sizes)];
  if (best > kMaxTableSize / largest) return kMaxTableSize > largest ? kMaxTableSize : largest + 1;
  return best * largest + largest + 1;
}

void BatchPlanner::plan(const std::size_t *batch_sizes, const double *costs, std::size_t num_batch_sizes,
                        std::uint16_t *table, double *scratch) {
  batch_sizes_ = batch_sizes;
  num_batch_sizes_ = num_batch_sizes;
  best_ = lowest_cost_per_row(batch_sizes, costs, num_batch_sizes);
  table_ = table;
  table_size_ = table_size(batch_sizes, costs, num_batch_sizes);
  table[0] = 0;
  scratch[0] = 0.0;
  for (std::size_t n = 1; n < table_size_; ++n) {
    std::size_t choice = num_batch_sizes - 1;
    double lowest = 0.0;
    bool padded = true;
    // From the largest down, so that equal costs go to fewer calls; an exact end wins over an equally cheap padded one.
    for (std::size_t i = num_batch_sizes; i-- > 0;) {
      const bool pads = batch_sizes[i] > n;
      const double cost = costs[i] + (pads ? 0.0 : scratch[n - batch_sizes[i]]);
      const bool first = i == num_batch_sizes - 1;
      if (first || cost < lowest || (!(cost > lowest) && padded && !pads)) {
        lowest = cost;
        choice = i;
        padded = pads;
      }
    }
    table[n] = static_cast<std::uint16_t>(choice);
    scratch[n] = lowest;
  }
}

std::size_t BatchPlanner::cheapest(std::size_t rows) const { return rows < table_size_ ? table_[rows] : best_; }

std::size_t BatchPlanner::repetitions(std::size_t rows) const {
  return rows < table_size_ ? 1 : (rows - table_size_) / batch_sizes_[best_] + 1;
}

std::size_t BatchPlanner::smallest(std::size_t total) const {
  const std::size_t exact = index_of(total);
  return exact < num_batch_sizes_ ? exact : 0;
}

std::size_t BatchPlanner::index_of(std::size_t batch_size) const {
  std::size_t index = 0;
  while (index < num_batch_sizes_ && batch_sizes_[index] != batch_size) ++index;
  return index;
}

}  // namespace modelwheel
