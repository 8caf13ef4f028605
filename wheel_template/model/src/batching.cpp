// src/batching.cpp - the cheapest composition.
//
// The composition is an unbounded knapsack: cost(n) = min over sizes b of cost_b + cost(max(n - b, 0)). A table
// answers it for small n. Let b* be the size with the lowest cost per row. Among any b* other sizes some subset sums
// to a multiple of b* (pigeonhole on prefix sums) and can be exchanged for copies of b* at no higher cost, so a
// cheapest composition needs fewer than b* others, in addition to a padded last one: beyond b* * largest rows it
// contains b*, which can be taken off first. (Gilmore and Gomory, "The theory and computation of knapsack functions",
// 1966.)
#include "batching.h"

namespace modelwheel {

void BatchPlanner::plan(const Variant *variants, std::size_t count, std::uint16_t *table, double *scratch) {
  variants_ = variants;
  count_ = count;
  best_ = lowest_cost_per_row(variants, count);
  table_ = table;
  table_size_ = table_size(variants, count);
  // A ring: the cost of n follows from those of the numbers of rows before it, as many as the largest size.
  const std::size_t ring = scratch_size(variants, count);
  table[0] = 0;
  scratch[0] = 0.0;
  std::size_t place = 0;  // of n
  for (std::size_t n = 1; n < table_size_; ++n) {
    place = place + 1 == ring ? 0 : place + 1;
    std::size_t choice = count - 1;
    double lowest = 0.0;
    bool padded = true;
    // From the largest down, so that equal costs go to fewer calls; an exact end wins over an equally cheap padded one.
    for (std::size_t i = count; i-- > 0;) {
      const std::size_t size = variants[i].batch_size;
      const bool pads = size > n;
      const double cost = pads ? variants[i].cost_of(n)
                               : variants[i].cost + scratch[size <= place ? place - size : place + ring - size];
      const bool first = i == count - 1;
      if (first || cost < lowest || (!(cost > lowest) && padded && !pads)) {
        lowest = cost;
        choice = i;
        padded = pads;
      }
    }
    table[n] = static_cast<std::uint16_t>(choice);
    scratch[place] = lowest;
  }
}

std::size_t BatchPlanner::cheapest(std::size_t rows) const { return rows < table_size_ ? table_[rows] : best_; }

std::size_t BatchPlanner::repetitions(std::size_t rows) const {
  return rows < table_size_ ? 1 : (rows - table_size_) / variants_[best_].batch_size + 1;
}

std::size_t BatchPlanner::smallest(std::size_t total) const {
  const std::size_t exact = index_of(total);
  return exact < count_ ? exact : 0;
}

std::size_t BatchPlanner::index_of(std::size_t batch_size) const {
  std::size_t index = 0;
  while (index < count_ && variants_[index].batch_size != batch_size) ++index;
  return index;
}

}  // namespace modelwheel
