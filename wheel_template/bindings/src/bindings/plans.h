// src/bindings/plans.h - how threads do the calls of one instance.
//
// Knows neither Python nor threads.
#pragma once

#include <array>
#include <cstddef>

#include "modelwheel/abi.h"

namespace modelwheel {

/// Whether a library estimates the time of a call: older ones lack the function.
inline bool knows_estimates(const modelwheel_api &api) {
  return api.struct_size >= offsetof(modelwheel_api, estimate) + sizeof api.estimate;
}

/// How threads do a call with so many rows and this length.
struct Plan {
  std::size_t rows, length, rows_per_thread;
  bool gains;    // whether they are quicker than one thread
  double alone;  // what one thread takes, in nanoseconds; 0 if it is unknown
};

/// Plans of an instance for some number of threads, with the rules that it has. Keeps those of calls so far: the
/// library takes half a microsecond for one, a few percent of the shortest calls that threads may share.
class Plans {
 public:
  const Plan &find(const modelwheel_api &api, modelwheel_model *model, std::size_t rows, std::size_t length,
                   std::size_t threads) {
    Plan &plan = plans_[rows % plans_.size()];
    if (plan.rows != rows || plan.length != length) plan = make(api, model, rows, length, threads);
    return plan;
  }

 private:
  static Plan make(const modelwheel_api &api, modelwheel_model *model, std::size_t rows, std::size_t length,
                   std::size_t threads) {
    const std::size_t part = api.rows_per_thread(model, rows, length, threads);
    if (!knows_estimates(api)) return {rows, length, part, true, 0.0};
    const double alone = api.estimate(model, rows, length, 1);
    return {rows, length, part, api.estimate(model, rows, length, threads) < alone, alone};
  }

  std::array<Plan, 64> plans_{};  // each at its rows, modulo the size; at first for no rows, which gain nothing
};

}  // namespace modelwheel
