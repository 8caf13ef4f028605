// src/kernels/parts/division.h - ranges along one axis of a result.
#pragma once

#include "kernels/base/range.h"
#include "kernels/base/thresholds.h"

namespace modelwheel::MODELWHEEL_LEVEL {

enum class Along { kBatch, kRows, kColumns };

/// Equal ranges along one axis of a result, the last of which may be smaller.
struct Division {
  Along along;
  std::int64_t size, step;

  constexpr std::int64_t count() const { return size > step ? divide_up(size, step) : 1; }
  constexpr Range range(std::int64_t i) const { return {i * step, smaller_of((i + 1) * step, size)}; }
};

/// Whether a batch divides without leaving threads idle for long.
constexpr bool divides(std::int64_t batch, std::int64_t parts) { return batch >= 4 * parts || batch % parts == 0; }

/// Ranges of so many units, of which every part has some; otherwise nothing is divided.
constexpr Division in_units(Along along, std::int64_t size, std::int64_t unit, std::int64_t parts) {
  return {along, size, size < parts * unit ? size : divide_up(divide_up(size, parts), unit) * unit};
}

/// Columns in whole panels, which are whole vectors, and two of them at least.
constexpr Division in_columns(std::int64_t n, std::int64_t parts) {
  const Division columns = in_units(Along::kColumns, n, kPanel, parts);
  return columns.step < 2 * kPanel ? Division{Along::kColumns, n, n} : columns;
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
