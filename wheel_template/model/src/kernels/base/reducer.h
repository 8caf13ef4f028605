// src/kernels/base/reducer.h - what the elements of a window are reduced by.
#pragma once

#include "kernels/base/level.h"

namespace modelwheel::MODELWHEEL_LEVEL {

enum class Reducer { kMaximum, kSum };

/// One more value in a total, lane by lane. As in XLA's machine code: NaN is no maximum, and of equal zeros the first
/// stays.
template <Reducer reducer, class V>
MODELWHEEL_INLINE V reduced(V total, V value) {
  return reducer == Reducer::kSum ? total + value : value > total ? value : total;
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
