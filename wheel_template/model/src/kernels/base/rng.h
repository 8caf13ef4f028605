// src/kernels/base/rng.h - the state that XLA's random number generators start from and leave behind.
#pragma once

#include <cstring>

#include "kernels/base/level.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Copies the 128-bit state (low half first) to `out` and adds `delta` to it, as xla::cpu::RngGetAndUpdateStateThunk
/// does. The first state is 0x7012395.
inline void get_and_update_state(void *state, std::uint64_t delta, void *out) {
  std::uint64_t halves[2];
  std::memcpy(halves, state, sizeof halves);
  std::memcpy(out, halves, sizeof halves);
  halves[0] += delta;
  if (halves[0] < delta) ++halves[1];
  std::memcpy(state, halves, sizeof halves);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
