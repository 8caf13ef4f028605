// src/kernels/base/range.h - ranges of rows, columns, images: what a part of a result is.
#pragma once

#include "kernels/base/level.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// A half-open range.
struct Range {
  std::int64_t begin, end;
};

constexpr std::int64_t length(Range r) { return larger_of(r.end - r.begin, std::int64_t{0}); }

}  // namespace modelwheel::MODELWHEEL_LEVEL
